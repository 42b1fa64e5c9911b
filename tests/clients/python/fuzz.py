"""Arguments for the tools, made by Hypothesis from the schemas that the server lists: such as fit, and such as do not.

Whatever a tool is given, the answer is well-formed and says what is wrong; a call that failed has stored nothing; and the
server lives. Its argument is a JSON object: where the server is, a project, how long to go on, and a seed.
"""

import http.client
import json
import os
import random
import sys
import time
from collections import Counter

import hypothesis
import jsonschema
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis_jsonschema import from_schema

where = json.loads(sys.argv[1])
PROJECT = where["project"]
GREEN, BLUE = "GreenDog", "BlueMountain"


class Server:
    """Plain JSON-RPC over one connection that is kept."""

    def __init__(self, address):
        self.address, self.connection, self.last = address, None, 0

    def exchange(self, method, path, body=None):
        """A request and its answer. A server that has closed an idle connection is asked again, once."""
        for attempt in (1, 2):
            if self.connection is None:
                self.connection = http.client.HTTPConnection(self.address, timeout=60)
            try:
                self.connection.request(method, path, body, {"Content-Type": "application/json"})
                response = self.connection.getresponse()
                data = response.read()
            except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError):
                self.connection = None
                if attempt == 2:
                    raise
                continue
            if response.will_close:
                self.connection.close()
                self.connection = None
            return response, data

    def ask(self, method, params):
        self.last += 1
        # Lone surrogates stay escaped, as a client in JavaScript would write them.
        body = json.dumps({"jsonrpc": "2.0", "id": self.last, "method": method, "params": params})
        response, data = self.exchange("POST", "/mcp/", body)
        return response, data

    def call(self, tool, arguments):
        response, data = self.ask("tools/call", {"name": tool, "arguments": arguments})
        assert response.status in (200, 400), (response.status, data)
        answer = json.loads(data)
        assert answer["jsonrpc"] == "2.0", answer
        assert ("result" in answer) != ("error" in answer), answer
        if response.status == 400:
            assert "error" in answer, answer
        else:
            assert answer["id"] == self.last, answer
        return answer

    def tool(self, tool, /, **arguments):
        answer = self.call(tool, arguments)
        assert "result" in answer and not answer["result"].get("isError"), answer
        return answer["result"]["structuredContent"]

    def lives(self):
        response, data = self.exchange("GET", "/health/liveness")
        assert response.status == 200 and json.loads(data)["status"] == "alive", data


server = Server(where["address"])


def messages():
    """How many messages are stored, as the names of the files tell it."""
    count = 0
    for kind in ("dm", "topics"):
        for _, _, files in os.walk(os.path.join(PROJECT, ".fmail", kind)):
            count += sum(name.endswith(".json") for name in files)
    return count


def prepare():
    """Something that the calls can be about."""
    slug = server.tool("ensure_project", human_key=PROJECT)["slug"]
    for name in (GREEN, BLUE):
        server.tool("register_agent", project_key=PROJECT, name=name, program="claude-code", model="opus-4.5")
    numbers = []
    for subject in ("KICKOFF: one", "DELTA[role]: two", "three"):
        sent = server.tool(
            "send_message", project_key=PROJECT, sender_name=GREEN, to=[BLUE], subject=subject,
            body_md="# a body\n\n- [ ] TODO: look", thread_id="TKT-1", ack_required=True,
        )
        numbers.append(sent["deliveries"][0]["payload"]["id"])
    held = server.tool(
        "file_reservation_paths", project_key=PROJECT, agent_name=GREEN, paths=["src/**"], exclusive=True
    )
    return slug, numbers, [one["id"] for one in held["granted"]]


slug, numbers, reservations = prepare()



def mostly(good, odd):
    """Values that are what is asked for, and now and then one that is not."""
    return st.integers(0, 29).flatmap(lambda number: st.sampled_from(odd if number == 29 else good))


def few(values, most):
    return st.lists(values, min_size=1, max_size=most)


agents = mostly([GREEN, BLUE, "greendog"], ["GREENDOG", "GreenDogg", "Nobody", "all", "*", "", "../x", "@a", "claude-code"])
known = mostly(
    [*numbers, *map(str, numbers)], [0, -1, 2**53, 10**30, "msg-uuid-123", "20260101-000000-0001", "-0001", 1.5]
)
threads = mostly(["TKT-1", "TKT-2", str(numbers[0])], ["../../etc/passwd", "a,b", "", "x" * 200, "TKT 1", ".."])
paths = few(
    mostly(["src/**", "src/app.py", "docs/*.md"], ["src/../src/app.py", "/etc/passwd", "../x", "[", "**", "a{b", "", "."]), 3
)
instants = mostly(["2020-01-01T00:00:00Z", "2099-01-01T00:00:00+00:00"], ["yesterday", "", 0, None, "2020-13-01T00:00:00Z"])

# Values under which a call gets further than to the first check, by the name of the argument.
LIKELY = {
    "project_key": mostly([PROJECT, slug], ["/nope/x", "brenner_bot", "", PROJECT + "/../project"]),
    "human_key": mostly([PROJECT], ["relative", "/", "", "/nope/\0", "~", PROJECT + "/"]),
    "agent_name": agents, "sender_name": agents, "name": agents,
    "to": few(agents, 3), "cc": few(agents, 2), "bcc": few(agents, 2),
    "message_id": known, "after_id": known, "thread_id": threads, "topic": threads,
    "paths": paths, "reserve_paths": paths, "file_reservation_paths": paths,
    "file_reservation_ids": few(mostly(reservations, [-1, 0, 2**63, "x"]), 2),
    "since_ts": instants,
    "query": mostly(["body", '"a body"', "subject:one"], ["a AND", "NEAR(", "*", "", "'", "OR OR"]),
    "importance": mostly(["low", "normal", "high"], ["urgent", "URGENT", ""]),
    "subject": mostly(["INFO: x", "KICKOFF: é"], ["", "x" * 3000, "a\nb", "\0"]),
    "body_md": mostly(["# a body", "- [ ] TODO"], ["", " ", "\0", "x" * 100_000]),
    "idempotency_key": mostly(["one", "two"], ["", "\n", "x" * 300]),
    "limit": mostly([1, 20, 1000], [0, -1, 10**9, 1.5, "5"]),
    "ttl_seconds": mostly([60, 600, 3600], [0, -1, 10, 10**12]),
    "timeout_seconds": mostly([0], [-1, "soon", 10**12]),
}

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
anything = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4), max_leaves=8
)
# As JSON may carry it and as no text of Unicode is.
surrogates = st.text(st.characters(min_codepoint=0xD800, max_codepoint=0xDFFF), min_size=1, max_size=3)


def fitting(schema):
    """Objects that the schema allows."""
    return from_schema(schema).map(lambda made: limited(schema, made))


@st.composite
def likely(draw, schema):
    """Objects whose values are mostly known here."""
    made = {}
    for name, one in schema.get("properties", {}).items():
        if name in schema.get("required", []) or draw(st.booleans()):
            familiar = LIKELY.get(name)
            made[name] = draw(familiar if familiar is not None and draw(st.integers(0, 29)) < 29 else from_schema(one))
    return limited(schema, made)


@st.composite
def broken(draw, schema):
    """Objects of which something is wrong."""
    made = draw(likely(schema))
    names = sorted(schema.get("properties", {}))
    for _ in range(draw(st.integers(1, 3))):
        kind = draw(st.sampled_from(["replace", "remove", "add", "null", "nest", "surrogate"]))
        name = draw(st.sampled_from(names)) if names else "x"
        if kind == "remove":
            made.pop(name, None)
        elif kind == "add":
            made[draw(st.text())] = draw(anything)
        elif kind == "null":
            made[name] = None
        elif kind == "nest":
            made[name] = json.loads("[" * 40 + "]" * 40)
        elif kind == "surrogate":
            made[name] = draw(surrogates)
        else:
            made[name] = draw(anything)
    return limited(schema, made)


def limited(schema, made):
    """Nobody waits long for the answers of a fuzzer, also where it says nothing of the time."""
    seconds = made.get("timeout_seconds")
    if "timeout_seconds" in schema.get("properties", {}):
        if seconds is None or isinstance(seconds, int | float) and 0 < seconds <= 3600:
            made["timeout_seconds"] = 0
    return made


tally = Counter()


def judge(tool, arguments):
    """Calls a tool, and requires of the answer what holds for all of them."""
    before = messages()
    answer = server.call(tool["name"], arguments)
    tally["calls"] += 1
    if "error" in answer:
        # Only what is no object, or no JSON at all, is refused before the tool is asked.
        assert not isinstance(arguments, dict) or has_surrogates(arguments), (arguments, answer)
        error = answer["error"]
        assert isinstance(error["code"], int) and error["message"], answer
        failed = True
    else:
        failed = check(tool, answer["result"])
    tally["refused" if failed else "done"] += 1
    tally[f"{tool['name']}: {'refused' if failed else 'done'}"] += 1
    if failed:
        assert messages() == before, f"{tool['name']} failed and has stored a message: {answer}"
    elif tool["name"] == "send_message" and arguments.get("idempotency_key") is None:
        assert messages() > before, f"a message was accepted and is not there: {answer}"


def check(tool, result):
    """A result as MCP has it; whether it is an error."""
    for block in result["content"]:
        assert block["type"] == "text" and isinstance(block["text"], str), result
    failed = result.get("isError", False)
    assert isinstance(failed, bool), result
    structured = result.get("structuredContent")
    assert structured is None or isinstance(structured, dict), result
    if failed:
        assert result["content"] and result["content"][0]["text"].strip(), result
        return True
    assert structured is not None, result
    if result["content"]:
        said = json.loads(result["content"][0]["text"])
        assert said in (structured, structured.get("result")), result
    if tool.get("outputSchema"):
        jsonschema.validate(structured, tool["outputSchema"])
    return False


def has_surrogates(value):
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return True
    return False


def attack(tool, seed, examples):
    schema = tool["inputSchema"]
    # What comes more often is named more often.
    strategy = st.one_of(*[likely(schema)] * 4, *[broken(schema)] * 3, fitting(schema), anything)

    @hypothesis.seed(seed)
    @settings(
        max_examples=examples, deadline=None, database=None, phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck), print_blob=False,
    )
    @given(strategy)
    def each(arguments):
        judge(tool, arguments)

    try:
        each()
    except BaseException as error:
        error.add_note(f"{tool['name']}; to repeat: FMAIL_TEST_FUZZ_SEED={where['seed']}")
        raise


# Addresses of resources, and what looks like one.
addresses = st.builds(
    lambda scheme, kind, name, query: f"{scheme}{kind}{name}{query}",
    mostly(["resource://"], ["", "file://", "resource:", "RESOURCE://"]),
    mostly(["agents/", "inbox/", "thread/"], ["", "agents", "nope/", "../", "%"]),
    st.one_of(mostly([slug, GREEN, "TKT-1", PROJECT], ["%2F", "%zz", "..", ""]), st.text(max_size=20)),
    st.one_of(
        mostly([f"?project={PROJECT}", f"?project={slug}&limit=2", ""], ["?", "?project=%FF", "?limit=-1&limit=2", "#x"]),
        st.text(max_size=20).map(lambda text: "?" + text),
    ),
)


def read_any(seed, examples):
    """Reads resources whose addresses may be anything: contents, or an error that says why."""

    @hypothesis.seed(seed)
    @settings(max_examples=examples, deadline=None, database=None, phases=[Phase.generate, Phase.shrink],
              suppress_health_check=list(HealthCheck), print_blob=False)
    @given(addresses)
    def each(address):
        response, data = server.ask("resources/read", {"uri": address})
        answer = json.loads(data)
        assert response.status == 200 and answer["id"] == server.last, (response.status, answer)
        if "error" in answer:
            assert isinstance(answer["error"]["code"], int) and answer["error"]["message"], answer
        else:
            json.loads(answer["result"]["contents"][0]["text"])
        tally["addresses"] += 1

    each()


def listed():
    response, data = server.ask("tools/list", {})
    assert response.status == 200, data
    return json.loads(data)["result"]["tools"]


def main():
    end = time.monotonic() + where["seconds"]
    tools = sorted(listed(), key=lambda tool: tool["name"])
    chance = random.Random(where["seed"])
    rounds = 0
    while rounds == 0 or time.monotonic() < end:
        for tool in tools:
            attack(tool, chance.getrandbits(32), 30)
            if rounds and time.monotonic() > end:
                break
        read_any(chance.getrandbits(32), 30)
        server.lives()
        rounds += 1
    done = {name: count for name, count in sorted(tally.items()) if ": " in name}
    line = {key: tally[key] for key in ("calls", "done", "refused", "addresses")}
    print(json.dumps({"seed": where["seed"], "rounds": rounds, **line, "tools": done, "messages": messages()}))


main()
