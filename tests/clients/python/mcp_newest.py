"""The official SDK for Python, version 2."""

import asyncio
import contextlib
from importlib.metadata import version

import httpx2
import mcp.client.session
from mcp import Client as Library
from mcp import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp_types import ResourceUpdatedNotification

import scenario
from scenario import Answer, replaced

MODERN = ("auto", "2026-07-28")


class Client(scenario.Client):
    def __init__(self, library, changes):
        self.library, self.changes = library, changes
        self.protocol = library.protocol_version

    async def tools(self):
        listed = await self.library.list_tools()
        return [tool.model_dump(by_alias=True, mode="json") for tool in listed.tools]

    async def call(self, name, arguments):
        result = await self.library.call_tool(name, arguments)
        return Answer(result.structured_content, [block.text for block in result.content], result.is_error)

    async def resources(self):
        return [str(resource.uri) for resource in (await self.library.list_resources()).resources]

    async def templates(self):
        listed = await self.library.list_resource_templates()
        return [template.uri_template for template in listed.resource_templates]

    async def read(self, uri):
        return (await self.library.read_resource(uri)).contents[0].text

    @contextlib.asynccontextmanager
    async def updates(self, uri):
        if self.protocol in MODERN:
            async with self.library.listen(resource_subscriptions=[uri]) as subscription:
                scenario.need(subscription.honored.resource_subscriptions == [uri], "honoured", subscription.honored)

                async def next_uri():
                    return (await anext(subscription)).uri

                yield next_uri
        else:
            await self.library.subscribe_resource(uri)
            yield self.changes.get
            await self.library.unsubscribe_resource(uri)


@contextlib.asynccontextmanager
async def connect(where, asked):
    changes = asyncio.Queue()

    async def heard(message):
        if isinstance(message, ResourceUpdatedNotification):
            await changes.put(str(message.params.uri))

    async with contextlib.AsyncExitStack() as stack:
        if "command" in where:
            program, *arguments = where["command"]
            server = StdioServerParameters(command=program, args=arguments, env=where["environment"], cwd=where["project"])
        else:
            headers = {"Authorization": f"Bearer {where['token']}"} if where.get("token") else {}
            http = await stack.enter_async_context(httpx2.AsyncClient(headers=headers, timeout=60))
            server = streamable_http_client(where["url"], http_client=http)
        mode = asked if asked in MODERN else "legacy"
        if mode == "legacy":
            stack.enter_context(replaced(mcp.client.session, "LATEST_HANDSHAKE_VERSION", asked))
        library = Library(server, mode=mode, message_handler=heard)
        yield Client(await stack.enter_async_context(library), changes)


scenario.main(f"mcp {version('mcp')}", connect)
