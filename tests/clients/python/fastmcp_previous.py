"""FastMCP 3, which is built on version 1 of the official SDK."""

import asyncio
import contextlib

import fastmcp
import mcp.types
from fastmcp.client.transports import StdioTransport, StreamableHttpTransport
from pydantic import AnyUrl

import scenario
from scenario import Answer, replaced


class Client(scenario.Client):
    def __init__(self, library, changes):
        self.library, self.changes = library, changes
        self.protocol = library.initialize_result.protocolVersion

    async def tools(self):
        return [tool.model_dump(by_alias=True, mode="json") for tool in await self.library.list_tools()]

    async def call(self, name, arguments):
        result = await self.library.call_tool(name, arguments, raise_on_error=False)
        return Answer(result.structured_content, [block.text for block in result.content], result.is_error)

    async def resources(self):
        return [str(resource.uri) for resource in await self.library.list_resources()]

    async def templates(self):
        return [template.uriTemplate for template in await self.library.list_resource_templates()]

    async def read(self, uri):
        return (await self.library.read_resource(uri))[0].text

    @contextlib.asynccontextmanager
    async def updates(self, uri):
        await self.library.session.subscribe_resource(AnyUrl(uri))
        yield self.changes.get
        await self.library.session.unsubscribe_resource(AnyUrl(uri))


@contextlib.asynccontextmanager
async def connect(where, asked):
    changes = asyncio.Queue()

    async def heard(message):
        if isinstance(message, mcp.types.ServerNotification):
            if isinstance(message.root, mcp.types.ResourceUpdatedNotification):
                await changes.put(str(message.root.params.uri))

    if "command" in where:
        program, *arguments = where["command"]
        transport = StdioTransport(
            program, arguments, env=where["environment"], cwd=where["project"], keep_alive=False
        )
    else:
        transport = StreamableHttpTransport(where["url"], auth=where.get("token"))
    with replaced(mcp.types, "LATEST_PROTOCOL_VERSION", asked):
        async with fastmcp.Client(transport, message_handler=heard, timeout=60) as library:
            yield Client(library, changes)


scenario.main(f"fastmcp {fastmcp.__version__}", connect)
