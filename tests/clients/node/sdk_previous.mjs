// The official SDK for TypeScript, version 1.

import { readFileSync } from 'node:fs';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { ResourceUpdatedNotificationSchema } from '@modelcontextprotocol/sdk/types.js';
import { Changes, main } from './scenario.mjs';

function transportTo(where) {
  if (where.command) {
    const [command, ...args] = where.command;
    return new StdioClientTransport({ command, args, env: where.environment, cwd: where.project });
  }
  const headers = where.token ? { Authorization: `Bearer ${where.token}` } : {};
  return new StreamableHTTPClientTransport(new URL(where.url), { requestInit: { headers } });
}

// Offers another version than the newest, which the library has no setting for.
function offering(transport, asked) {
  const send = transport.send.bind(transport);
  transport.send = (message, options) => {
    if (message.method === 'initialize') message.params.protocolVersion = asked;
    return send(message, options);
  };
  const set = transport.setProtocolVersion?.bind(transport);
  transport.setProtocolVersion = (version) => {
    transport.spoken = version;
    set?.(version);
  };
  return transport;
}

async function connect(where, asked) {
  const changes = new Changes();
  const transport = offering(transportTo(where), asked);
  const client = new Client({ name: 'sdk-previous', version: '1' });
  client.setNotificationHandler(ResourceUpdatedNotificationSchema, ({ params }) => changes.add(params.uri));
  await client.connect(transport);
  return {
    changes,
    protocol: transport.spoken,
    tools: async () => (await client.listTools()).tools,
    call: (name, given) => client.callTool({ name, arguments: given }),
    resources: async () => (await client.listResources()).resources.map((one) => one.uri),
    templates: async () => (await client.listResourceTemplates()).resourceTemplates.map((one) => one.uriTemplate),
    read: async (uri) => (await client.readResource({ uri })).contents[0].text,
    async subscribe(uri) {
      await client.subscribeResource({ uri });
      return () => client.unsubscribeResource({ uri });
    },
    close: () => client.close(),
  };
}

const { version } = JSON.parse(readFileSync(new URL('node_modules/@modelcontextprotocol/sdk/package.json', import.meta.url)));
await main(`@modelcontextprotocol/sdk ${version}`, connect);
