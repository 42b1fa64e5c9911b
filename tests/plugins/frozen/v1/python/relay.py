#!/usr/bin/env python3
"""A relay that keeps all projects of one daemon in step: what is sent in one is imported into the others."""
import itertools, json, sys, time

MANIFEST = {"name": "example-relay", "version": "1.0.0", "kind": "relay"}
numbers = itertools.count(1)  # of our own calls; the host's have numbers of their own
heard = {}  # our calls under way: what is done with an answer or an item
running = None  # the host's call of `run`, a stream of states
credits = 0  # how many states the host wants to hear
links = {}  # by project

def say(**verb):
    print(json.dumps(verb), flush=True)

def ask(method, context, request, then, streams=False):
    number = next(numbers)
    heard[number] = then
    say(call=number, method=method, context=context, request=request)
    if streams: say(pull=number, n=64)

def tell():  # the state of every link
    global credits
    if running is not None and credits > 0:
        credits -= 1
        say(item=running, body={"links": list(links.values())})

def note(project, verb):  # what a project does wrong is shown, and concerns no other
    body, link = verb.get("body"), links[project]
    if verb.get("status", 0) < 0 and verb["status"] != -7:
        link |= {"connected": False, "problem": str(body.get("message") if isinstance(body, dict) else body)}
    elif isinstance(body, dict) and "refused" in (body.get("imported") or ""): link["counts"]["refused"] += 1
    else: return
    tell()

def mirror(project, projects):  # everything of one project into the others, from the beginning and as it arrives
    def arrived(verb):
        if "item" not in verb: return note(project, verb)
        say(pull=verb["item"], n=1)
        for other in projects:
            if other != project and "msg" in verb["body"]:
                # It comes back from there, and is a duplicate here: nothing goes round for ever.
                request = {"cmd": "import", "agent": "example-relay", "msg": verb["body"]["msg"]}
                ask("request", {"project": other}, request, lambda verb, other=other: note(other, verb))
    everything = {"cmd": "relay", "agent": "example-relay", "since": "1970-01-01T00:00:00Z"}
    ask("request", {"project": project}, everything, arrived, streams=True)

def begin(verb):
    if verb.get("status", 0) < 0:
        return say(log={"level": "error", "target": "relay", "message": f"the host answered {verb.get('body')}"})
    since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    for project in verb["body"]["projects"]:
        links[project] = {"peer": project, "connected": True, "since": since, "authenticated": True, "problem": None,
                          "queued": 0, "counts": {"refused": 0}}
    for project in links: mirror(project, list(links))
    tell()

def end(status):
    global running
    for number in heard: say(cancel=number)
    if running is not None: say(done=running, status=status)
    running = None

for verb in map(json.loads, sys.stdin.buffer):
    match verb:
        case {"hello": _}: say(hello=MANIFEST)
        case {"create": number} | {"destroy": number}: say(done=number)
        case {"call": number, "method": "run"}: running = number
        case {"pull": number, "n": n} if number == running:
            credits += n
            if not heard and not links:  # the first: we may say something
                tell()
                ask("projects", {}, {}, begin)
        case {"call": number, "method": "shutdown"}:
            say(done=number, body={})
            end(1)
        case {"call": number}: say(done=number, status=-5, body="a relay runs and is shut down")
        case {"cancel": number} if number == running: end(-7)
        case {"done": number} if number in heard: heard.pop(number)(verb)
        case {"item": number} if number in heard: heard[number](verb)
