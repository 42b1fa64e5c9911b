// The official SDK for TypeScript, version 2.

import { readFileSync } from 'node:fs';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { Changes, main } from './scenario.mjs';

const MODERN = '2026-07-28';

function transportTo(where) {
  if (where.command) {
    const [command, ...args] = where.command;
    return new StdioClientTransport({ command, args, env: where.environment, cwd: where.project });
  }
  const headers = where.token ? { Authorization: `Bearer ${where.token}` } : {};
  return new StreamableHTTPClientTransport(new URL(where.url), { requestInit: { headers } });
}

function negotiation(asked) {
  if (asked === 'auto') return { versionNegotiation: { mode: 'auto' } };
  if (asked === MODERN) return { versionNegotiation: { mode: { pin: MODERN } } };
  return { versionNegotiation: { mode: 'legacy' }, supportedProtocolVersions: [asked] };
}

async function connect(where, asked) {
  const changes = new Changes();
  const client = new Client({ name: 'sdk-newest', version: '1' }, negotiation(asked));
  client.setNotificationHandler('notifications/resources/updated', ({ params }) => changes.add(params.uri));
  await client.connect(transportTo(where));
  const protocol = client.getNegotiatedProtocolVersion();
  return {
    changes,
    protocol,
    tools: async () => (await client.listTools()).tools,
    call: (name, given) => client.callTool({ name, arguments: given }),
    resources: async () => (await client.listResources()).resources.map((one) => one.uri),
    templates: async () => (await client.listResourceTemplates()).resourceTemplates.map((one) => one.uriTemplate),
    read: async (uri) => (await client.readResource({ uri })).contents[0].text,
    async subscribe(uri) {
      if (protocol === MODERN) {
        const subscription = await client.listen({ resourceSubscriptions: [uri] });
        return () => subscription.close();
      }
      await client.subscribeResource({ uri });
      return () => client.unsubscribeResource({ uri });
    },
    close: () => client.close(),
  };
}

const { version } = JSON.parse(readFileSync(new URL('node_modules/@modelcontextprotocol/client/package.json', import.meta.url)));
await main(`@modelcontextprotocol/client ${version}`, connect);
