"""The official SDK for Python, version 1."""

import asyncio
import contextlib
from importlib.metadata import version

import httpx
import mcp.types
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from pydantic import AnyUrl

import scenario
from scenario import Answer, replaced


class Client(scenario.Client):
    def __init__(self, session, protocol, changes):
        self.session, self.protocol, self.changes = session, protocol, changes

    async def tools(self):
        return [tool.model_dump(by_alias=True, mode="json") for tool in (await self.session.list_tools()).tools]

    async def call(self, name, arguments):
        result = await self.session.call_tool(name, arguments)
        return Answer(result.structuredContent, [block.text for block in result.content], result.isError)

    async def resources(self):
        return [str(resource.uri) for resource in (await self.session.list_resources()).resources]

    async def templates(self):
        listed = await self.session.list_resource_templates()
        return [template.uriTemplate for template in listed.resourceTemplates]

    async def read(self, uri):
        return (await self.session.read_resource(AnyUrl(uri))).contents[0].text

    @contextlib.asynccontextmanager
    async def updates(self, uri):
        await self.session.subscribe_resource(AnyUrl(uri))
        yield self.changes.get
        await self.session.unsubscribe_resource(AnyUrl(uri))


@contextlib.asynccontextmanager
async def connect(where, asked):
    changes = asyncio.Queue()

    async def heard(message):
        if isinstance(message, mcp.types.ServerNotification):
            if isinstance(message.root, mcp.types.ResourceUpdatedNotification):
                await changes.put(str(message.root.params.uri))

    async with contextlib.AsyncExitStack() as stack:
        if "command" in where:
            program, *arguments = where["command"]
            server = StdioServerParameters(command=program, args=arguments, env=where["environment"], cwd=where["project"])
            streams = await stack.enter_async_context(stdio_client(server))
        else:
            headers = {"Authorization": f"Bearer {where['token']}"} if where.get("token") else {}
            http = await stack.enter_async_context(httpx.AsyncClient(headers=headers, timeout=60))
            streams = await stack.enter_async_context(streamable_http_client(where["url"], http_client=http))
        stack.enter_context(replaced(mcp.types, "LATEST_PROTOCOL_VERSION", asked))
        session = await stack.enter_async_context(ClientSession(streams[0], streams[1], message_handler=heard))
        initialized = await session.initialize()
        yield Client(session, initialized.protocolVersion, changes)


scenario.main(f"mcp {version('mcp')}", connect)
