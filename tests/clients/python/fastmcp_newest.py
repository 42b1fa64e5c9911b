"""FastMCP 4, which is built on version 2 of the official SDK."""

import asyncio
import contextlib

import fastmcp
import mcp.client.session
from fastmcp.client.transports import StdioTransport, StreamableHttpTransport
from mcp.client.subscriptions import listen
from mcp_types import ResourceUpdatedNotification

import scenario
from scenario import Answer, replaced

MODERN = ("auto", "2026-07-28")


class Client(scenario.Client):
    def __init__(self, library, changes):
        self.library, self.changes = library, changes
        self.protocol = library.protocol_version

    async def tools(self):
        return [tool.model_dump(by_alias=True, mode="json") for tool in await self.library.list_tools()]

    async def call(self, name, arguments):
        result = await self.library.call_tool(name, arguments, raise_on_error=False)
        return Answer(result.structured_content, [block.text for block in result.content], result.is_error)

    async def resources(self):
        return [str(resource.uri) for resource in await self.library.list_resources()]

    async def templates(self):
        return [template.uri_template for template in await self.library.list_resource_templates()]

    async def read(self, uri):
        return (await self.library.read_resource(uri))[0].text

    @contextlib.asynccontextmanager
    async def updates(self, uri):
        if self.protocol in MODERN:
            async with listen(self.library.session, resource_subscriptions=[uri]) as subscription:

                async def next_uri():
                    return (await anext(subscription)).uri

                yield next_uri
        else:
            await self.library.session.subscribe_resource(uri)
            yield self.changes.get
            await self.library.session.unsubscribe_resource(uri)


@contextlib.asynccontextmanager
async def connect(where, asked):
    changes = asyncio.Queue()

    async def heard(message):
        if isinstance(message, ResourceUpdatedNotification):
            await changes.put(str(message.params.uri))

    if "command" in where:
        program, *arguments = where["command"]
        transport = StdioTransport(
            program, arguments, env=where["environment"], cwd=where["project"], keep_alive=False
        )
    else:
        transport = StreamableHttpTransport(where["url"], auth=where.get("token"))
    mode = asked if asked in MODERN else "legacy"
    with contextlib.ExitStack() as stack:
        if mode == "legacy":
            stack.enter_context(replaced(mcp.client.session, "LATEST_HANDSHAKE_VERSION", asked))
        async with fastmcp.Client(transport, mode=mode, message_handler=heard, timeout=60) as library:
            yield Client(library, changes)


scenario.main(f"fastmcp {fastmcp.__version__}", connect)
