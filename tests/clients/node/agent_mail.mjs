// A client that talks to Agent Mail as Brenner Bot's web client and command line do: plain JSON-RPC over POST, without
// `initialize` and without an SDK, with all their habits. It needs no package.
//
// Its argument is a JSON object with `base`, perhaps `path` and `token`, and the path of a `project`.

import { randomUUID } from 'node:crypto';
import { need } from './scenario.mjs';

const where = JSON.parse(process.argv[2]);
const did = [];

// The endpoint always ends in a slash.
const endpoint = `${where.base}${(where.path ?? '/mcp/').replace(/\/*$/, '/')}`;
const authorization = where.token ? { Authorization: `Bearer ${where.token}` } : {};

// The first event that is a JSON-RPC envelope.
function fromEvents(text) {
  for (const event of text.split(/\r?\n\r?\n/)) {
    const lines = event.split(/\r?\n/).filter((line) => line.startsWith('data:'));
    const value = lines.length ? JSON.parse(lines.map((line) => line.slice(5).trimStart()).join('\n')) : undefined;
    if (value?.jsonrpc === '2.0') return value;
  }
  throw new Error(`no event is an answer: ${text}`);
}

async function request(method, params, accept = 'application/json, text/event-stream') {
  const id = randomUUID();
  const response = await fetch(endpoint, {
    method: 'POST',
    redirect: 'error',
    headers: { 'Content-Type': 'application/json', Accept: accept, ...authorization },
    body: JSON.stringify({ jsonrpc: '2.0', id, method, params }),
  });
  const text = await response.text();
  if (!response.ok) throw new Error(`HTTP ${response.status}: ${text}`);
  const streamed = (response.headers.get('content-type') ?? '').includes('text/event-stream');
  const answer = streamed ? fromEvents(text) : JSON.parse(text);
  if (typeof answer !== 'object' || answer === null || Array.isArray(answer)) throw new Error(`not an object: ${text}`);
  if (answer.error) throw new Error(`${method}: ${JSON.stringify(answer.error)}`);
  need(answer.id === id, 'the answer has the id of the request', answer);
  return { result: answer.result, streamed };
}

const call = async (name, args) => (await request('tools/call', { name, arguments: args })).result;

// The web client takes the structured content, and does not look whether there was an error.
const unwrapResult = (result) => result?.structuredContent ?? result;
const tool = async (name, args) => {
  const result = await call(name, args);
  did.push(name);
  return unwrapResult(result);
};
const resource = async (uri) => {
  const { result } = await request('resources/read', { uri });
  did.push('resources/read');
  return JSON.parse(result.contents[0].text);
};

const { project } = where;
const encoded = encodeURIComponent(project);

// `brenner mail health`
async function health() {
  const response = await fetch(`${where.base}/health/readiness`, { headers: authorization });
  const readiness = await response.json();
  need(response.status === 200 && readiness.status === 'ready', 'ready', readiness);
  did.push('GET /health/readiness');
  const { status } = await tool('health_check', {});
  need(status === 'ready', 'ready too', status);
}

// `brenner mail send`: who is not known is registered, and that must not throw.
async function send(from, to, more) {
  const ensured = await tool('ensure_project', { human_key: project });
  need(typeof ensured.slug === 'string', 'a slug', ensured);
  const who = await call('whois', { project_key: project, agent_name: from, include_recent_commits: false });
  did.push('whois');
  if (who.isError) {
    const registered = await tool('register_agent', {
      project_key: project, name: from, program: 'brenner-cli', model: 'unknown', task_description: 'Brenner CLI',
    });
    need(registered.name === from, 'the name that was asked for', registered);
  }
  const result = await tool('send_message', {
    project_key: project, sender_name: from, to, subject: 'DELTA[role]: a proposal', body_md: '- one\n- two',
    thread_id: null, cc: null, bcc: null, importance: 'normal', ack_required: true, ...more,
  });
  need(result.deliveries.length === 1, 'a delivery', result);
  const { id } = result.deliveries[0].payload;
  need(typeof id === 'number' && Number.isSafeInteger(id), 'the id is a number', result);
  return { id, slug: ensured.slug, registered: Boolean(who.isError) };
}

// `brenner mail inbox --threads`
async function inbox(agent) {
  const rows = (await tool('fetch_inbox', {
    project_key: project, agent_name: agent, limit: 20, urgent_only: false, include_bodies: true, since_ts: null,
  })).result;
  need(Array.isArray(rows), 'a list', rows);
  for (const row of rows) {
    need(typeof row.id === 'number' && typeof row.ack_required === 'boolean', 'numbers and booleans', row);
    need(typeof row.subject === 'string' && typeof row.body_md === 'string', 'texts', row);
    need(row.thread_id === null || typeof row.thread_id === 'string', 'a thread or none', row);
  }
  return rows;
}

// `dispatch.ts`: agents are looked for at three addresses, and the first that answers is taken.
async function agents(slug) {
  const served = [];
  const addresses = [`agents?project=${encoded}`, `agents/${encoded}`, `agents/${project}`, `agents/${slug}`];
  for (const address of addresses) {
    try {
      const found = await resource(`resource://${address}`);
      const names = found.agents.map((agent) => agent.name);
      need(names.includes('GreenDog') && names.includes('BlueMountain'), 'the agents', found);
      need(found.project.slug === slug && found.project.human_key === project, 'of this project', found);
      served.push(address);
    } catch (error) {
      // The first address is a guess of the client, which goes on to the next when it is refused.
      if (address !== addresses[0]) throw error;
    }
  }
  need(served.length >= 3, 'slug, raw and encoded path', served);
}

// `dispatch.ts`: an answer is the row whose `reply_to` is the number of the request.
async function dispatch() {
  const thread = 'RS-20251230-cell-fate';
  const { id } = await send('GreenDog', ['BlueMountain'], { thread_id: thread, subject: 'KICKOFF: Cell fate' });
  const reply = await tool('reply_message', {
    project_key: project, message_id: id, sender_name: 'BlueMountain', body_md: '## Response', to: null, cc: null,
  });
  for (const key of [encoded, project]) {
    const found = await resource(`resource://thread/${thread}?project=${key}&include_bodies=true`);
    need(found.thread_id === thread && found.project === project, 'the thread', found);
    need(found.messages.findIndex((row) => row.id === id) === 0, 'oldest first', found);
    const answer = found.messages.find((row) => row.reply_to === id);
    need(answer?.id === reply.id && answer.body_md === '## Response', 'the answer', found);
  }
  const summarised = await tool('summarize_thread', {
    project_key: project, thread_id: thread, include_examples: true, llm_mode: false, llm_model: null,
  });
  need(summarised.summary.total_messages === 2 && Array.isArray(summarised.examples), 'the summary', summarised);
  for (const key of [encoded, project]) {
    const found = await resource(`resource://inbox/GreenDog?project=${key}&include_bodies=true&limit=5`);
    need(found.project === project && found.agent === 'GreenDog', 'the inbox', found);
    need(found.count === found.messages.length && found.messages.some((row) => row.id === reply.id), 'with it', found);
  }
  const here = { project_key: project, agent_name: 'BlueMountain', message_id: id };
  const acknowledged = await tool('acknowledge_message', here);
  need(acknowledged.acknowledged === true && acknowledged.message_id === id, 'acknowledged', acknowledged);
}

// Who accepts only a stream of events gets one, with the answer in it.
async function streamed() {
  const { result, streamed } = await request('tools/list', {}, 'text/event-stream');
  need(streamed && result.tools.some((one) => one.name === 'send_message'), 'a stream with the answer', result);
  did.push('tools/list as text/event-stream');
}

await health();
await tool('ensure_project', { human_key: project });
for (const name of ['BlueMountain']) {
  await tool('register_agent', { project_key: project, name, program: 'codex-cli', model: 'gpt-5.2' });
}
const first = await send('GreenDog', ['BlueMountain']);
const second = await send('GreenDog', ['BlueMountain']);
need(first.registered && !second.registered, 'registered once', [first, second]);
const rows = await inbox('BlueMountain');
need(rows.map((row) => row.id).join() === [second.id, first.id].join(), 'newest first', rows);
need(rows.every((row) => row.ack_required === true && row.from === 'GreenDog'), 'as sent', rows);
need((await inbox('BlueMountain')).length === 2, 'reading consumes nothing', rows);
await dispatch();
await agents(first.slug);
await streamed();
console.log(JSON.stringify({ client: 'agent_mail', did }));
