// What every client in JavaScript does with the server, whichever library it is.
//
// A program of a library says how that library connects, and calls `main`. It is given one argument, a JSON object: where
// the server is (`url` and perhaps `token`, or `command`), the path of a project, and the protocols to speak. For each it
// prints one line of JSON with what it did. Anything that is not as it has to be ends it.

export const CONTRACT = [
  'health_check', 'ensure_project', 'register_agent', 'send_message', 'reply_message', 'fetch_inbox',
  'mark_message_read', 'acknowledge_message', 'search_messages', 'summarize_thread', 'file_reservation_paths',
  'release_file_reservations', 'renew_file_reservations', 'macro_start_session', 'macro_prepare_thread',
];
const BEYOND = ['whois', 'wait_for_message'];

// How long a single thing may take on a busy machine before it is a failure.
const PATIENCE = 30;

export function need(condition, what, found) {
  if (!condition) throw new Error(`${what}, but: ${JSON.stringify(found)}`);
}

const same = (one, other) => JSON.stringify(one) === JSON.stringify(other);

// Fails when a promise takes too long.
export async function soon(promise, what) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${what}: not within ${PATIENCE} s`)), PATIENCE * 1000);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

// What was heard, and who waits for it.
export class Changes {
  #heard = [];
  #waiting = [];

  add(uri) {
    const waiter = this.#waiting.shift();
    if (waiter) waiter(uri);
    else this.#heard.push(uri);
  }

  next() {
    if (this.#heard.length) return Promise.resolve(this.#heard.shift());
    return new Promise((resolve) => this.#waiting.push(resolve));
  }
}

// One client that works through the contract, and keeps a list of what it did.
class Session {
  constructor(client, project, suffix) {
    Object.assign(this, { client, project, did: [], thread: `RS-20251230-${suffix}` });
    this.green = `GreenDog${suffix}`;
    this.blue = `BlueMountain${suffix}`;
    this.encoded = encodeURIComponent(project);
  }

  // Calls a tool that has to succeed. What it says as text is what it says as an object.
  async ok(tool, given = {}) {
    const answer = await soon(this.client.call(tool, given), tool);
    need(!answer.isError, `${tool} succeeds`, answer);
    const object = answer.structuredContent;
    need(object && typeof object === 'object' && !Array.isArray(object), `${tool} gives an object`, answer);
    if (answer.content.length) {
      const said = JSON.parse(answer.content[0].text);
      need(same(said, object) || same(said, object.result), `${tool} says one thing twice`, answer);
    }
    this.did.push(tool);
    return object;
  }

  // The same in the project.
  in(tool, given) {
    return this.ok(tool, { project_key: this.project, ...given });
  }

  // Calls a tool that has to refuse, and to say this.
  async refused(tool, parts, given) {
    const answer = await soon(this.client.call(tool, given), tool);
    need(answer.isError === true, `${tool} refuses`, answer);
    const said = answer.content.map((block) => block.text).join(' ');
    for (const part of parts) need(said.includes(part), `${tool} says ${part}`, said);
    return answer.structuredContent;
  }

  async read(uri) {
    const text = await soon(this.client.read(uri), uri);
    this.did.push('resources/read');
    return JSON.parse(text);
  }

  async send(sender, to, subject, more = {}) {
    const body = `# ${subject}\n\nthe body of ${subject}`;
    const sent = await this.in('send_message', { sender_name: sender, to: [to], subject, body_md: body, ...more });
    const { id } = sent.deliveries[0].payload;
    need(sent.count === 1 && Number.isSafeInteger(id), 'one delivery with a number', sent);
    return id;
  }

  async everything() {
    await this.lists();
    await this.begins();
    await this.reserves();
    await this.writes();
    await this.searches();
    await this.resources();
    await this.macros();
    await this.hears();
    await this.waits();
    await this.errs();
    await this.ends();
  }

  async lists() {
    const tools = await this.client.tools();
    const names = tools.map((tool) => tool.name);
    need([...CONTRACT, ...BEYOND].every((name) => names.includes(name)), 'every tool is listed', names);
    for (const tool of tools) need(tool.description && tool.inputSchema.type === 'object', 'a tool is described', tool);
    this.did.push('tools/list');
  }

  async begins() {
    const health = await this.ok('health_check');
    need(health.status === 'ready', 'the server is ready', health);
    const project = await this.ok('ensure_project', { human_key: this.project });
    need(project.human_key === this.project && project.created_at, 'the project', project);
    this.slug = project.slug;
    for (const name of [this.green, this.blue]) {
      const given = { name, program: 'claude-code', model: 'opus-4.5', task_description: 'Protocol kernel development' };
      const agent = await this.in('register_agent', given);
      need(agent.name === name && Number.isSafeInteger(agent.id), 'the name that was asked for', agent);
    }
    const who = await this.in('whois', { agent_name: this.green });
    need(who.name === this.green && who.program === 'claude-code', 'who it is', who);
  }

  async reserves() {
    this.path = `apps/${this.green}/src/**`;
    const terms = { ttl_seconds: 3600, exclusive: true };
    const held = await this.in('file_reservation_paths', { agent_name: this.green, paths: [this.path], ...terms });
    need(same(held.granted.map((one) => one.path_pattern), [this.path]), 'granted', held);
    const inside = `apps/${this.green}/src/lib/agentMail.ts`;
    const conflict = await this.refused('file_reservation_paths', ['FILE_RESERVATION_CONFLICT', this.green], {
      project_key: this.project, agent_name: this.blue, paths: [inside], ...terms,
    });
    need(!conflict || conflict.granted.length === 0, 'nothing is granted in a conflict', conflict);
    const more = { agent_name: this.green, paths: [this.path], new_ttl_seconds: 7200 };
    const renewed = await this.in('renew_file_reservations', more);
    need(renewed.renewed === 1, 'renewed', renewed);
  }

  async writes() {
    const more = { thread_id: this.thread, ack_required: true };
    this.first = await this.send(this.green, this.blue, 'KICKOFF: Cell fate investigation', more);
    const all = { agent_name: this.blue, limit: 20, unread_only: true, include_bodies: true };
    const inbox = await this.in('fetch_inbox', all);
    need(same(inbox.result.map((row) => row.id), [this.first]), 'the message is in the inbox', inbox);
    const [row] = inbox.result;
    need(row.from === this.green && row.ack_required === true, 'as it was sent', row);
    need(row.body_md.includes('the body of KICKOFF'), 'with its body', row);
    const reply = await this.in('reply_message', {
      message_id: this.first, sender_name: this.blue, body_md: '## Response\n\n- TODO look at the hypothesis slate',
    });
    need(reply.reply_to === this.first && reply.thread_id === this.thread, 'the reply is in the thread', reply);
    this.reply = reply.id;
    const here = { agent_name: this.blue, message_id: this.first };
    const read = await this.in('mark_message_read', here);
    need(read.read === true && read.message_id === this.first, 'read', read);
    const acknowledged = await this.in('acknowledge_message', { ...here, ack_body: 'Received and understood' });
    need(acknowledged.acknowledged === true, 'acknowledged', acknowledged);
    const rest = await this.in('fetch_inbox', { agent_name: this.blue, unread_only: true });
    need(rest.result.length === 0, 'nothing is unread', rest);
  }

  async searches() {
    const found = await this.in('search_messages', { query: '"hypothesis slate"', limit: 10 });
    need(found.result.some((row) => row.id === this.reply), 'the reply is found by its words', found);
    const { summary } = await this.in('summarize_thread', { thread_id: this.thread });
    need(same([...summary.participants].sort(), [this.blue, this.green]), 'who took part', summary);
    need(summary.total_messages >= 2, 'both messages', summary);
  }

  async resources() {
    const listed = [...(await this.client.resources()), ...(await this.client.templates())];
    for (const kind of ['agents', 'inbox', 'thread']) {
      need(listed.some((uri) => uri.startsWith(`resource://${kind}/`)), `${kind} is listed`, listed);
    }
    this.did.push('resources/list', 'resources/templates/list');
    const agents = await this.read(`resource://agents/${this.slug}`);
    const names = agents.agents.map((agent) => agent.name);
    need(names.includes(this.green) && names.includes(this.blue), 'the agents', agents);
    const inbox = await this.read(this.inbox());
    need(inbox.agent === this.green && inbox.count === inbox.messages.length, 'the inbox', inbox);
    need(inbox.messages.some((row) => row.id === this.reply), 'the reply is there', inbox);
    const thread = await this.read(`resource://thread/${this.thread}?project=${this.encoded}&include_bodies=true`);
    const ids = thread.messages.slice(0, 2).map((row) => row.id);
    need(same(ids, [this.first, this.reply]), 'oldest first', thread);
  }

  inbox() {
    return `resource://inbox/${this.green}?project=${this.encoded}&limit=20`;
  }

  async macros() {
    const started = await this.in('macro_start_session', {
      agent_name: this.blue, program: 'codex-cli', model: 'gpt-5.2', task_description: 'Review',
      reserve_paths: [`docs/${this.blue}/**`],
    });
    need(started.agent.name === this.blue && started.project.slug === this.slug, 'started', started);
    need(started.file_reservations.granted.length === 1, 'with its reservation', started);
    const prepared = await this.in('macro_prepare_thread', { agent_name: this.green, thread_id: this.thread });
    need(prepared.thread.thread_id === this.thread, 'prepared', prepared);
  }

  // A change of the inbox is told to who has subscribed to it.
  async hears() {
    const end = await this.client.subscribe(this.inbox());
    await this.send(this.blue, this.green, 'INFO: something changed');
    const changed = await soon(this.client.changes.next(), 'a notification');
    need(changed === this.inbox(), 'the resource that was subscribed to', changed);
    await end();
    this.did.push('notifications/resources/updated');
  }

  // Who waits gets what comes; who waits in vain gets nothing, and no error.
  async waits() {
    await this.drain(this.green);
    const waiting = this.in('wait_for_message', { agent_name: this.green, timeout_seconds: PATIENCE });
    const id = await this.send(this.blue, this.green, 'INFO: the one that is waited for');
    const came = await waiting;
    need(same(came.messages.map((row) => row.id), [id]), 'what was waited for', came);
    await this.drain(this.green);
    const nothing = await this.in('wait_for_message', { agent_name: this.green, timeout_seconds: 1 });
    need(nothing.messages.length === 0 && nothing.timed_out === true, 'nothing came', nothing);
  }

  async drain(agent) {
    const unread = await this.in('fetch_inbox', { agent_name: agent, unread_only: true });
    for (const { id } of unread.result) await this.in('mark_message_read', { agent_name: agent, message_id: id });
  }

  // What is refused is refused as a result that says why, so that a model can read it.
  async errs() {
    await this.refused('no_such_tool', ['no_such_tool'], {});
    const typo = this.green.replace('Dog', 'Dogg');
    await this.refused('send_message', [typo, 'Did you mean', this.green], {
      project_key: this.project, sender_name: this.blue, to: [typo], subject: 'lost', body_md: 'lost',
    });
    await this.refused('fetch_inbox', ['not found'], { project_key: '/nope/x', agent_name: this.green });
    await this.refused('ensure_project', ['absolute'], { human_key: 'brenner_bot' });
    this.did.push('errors');
  }

  async ends() {
    const released = await this.in('release_file_reservations', { agent_name: this.green, paths: [this.path] });
    need(released.released === 1, 'released', released);
  }
}

async function visit(connect, where, place, asked) {
  const client = await connect(where, asked);
  try {
    const session = new Session(client, where.project, 'ABCDEFGHIJ'[place]);
    await session.everything();
    need(asked === 'auto' || asked === client.protocol, `${asked} is spoken`, client.protocol);
    return { asked, protocol: client.protocol, did: session.did, thread: session.thread };
  } finally {
    await client.close();
  }
}

// With a wrong token, nothing works.
async function turnedAway(connect, where, asked) {
  const outcome = await soon(
    connect(where, asked).then((client) => client.tools()).then(() => undefined, (error) => String(error)),
    'a refusal',
  );
  need(outcome !== undefined, 'a wrong token is refused', outcome);
  return { asked, refused: outcome };
}

export async function main(name, connect) {
  const where = JSON.parse(process.argv[2]);
  for (const [place, asked] of where.protocols.entries()) {
    try {
      const line = where.refused ? await turnedAway(connect, where, asked) : await visit(connect, where, place, asked);
      console.log(JSON.stringify({ client: name, ...line }));
    } catch (error) {
      console.error(`${name} with ${asked}:`, error);
      process.exit(1);
    }
  }
  process.exit(0);
}
