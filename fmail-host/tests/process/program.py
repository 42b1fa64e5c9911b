"""A program plugin that does what it is told, however bad that is. The request of any call is a command of this file."""
import json
import os
import signal
import subprocess
import sys
import threading
import time

START = sys.argv[1:]  # what goes wrong at the start, and how
MANIFEST = {"name": "wicked", "version": "1.0.0", "kind": "store", "profile": "log", "capabilities": []}
calls = 0
credits = {}
asked = {}
mutex = threading.Lock()


def say(line):
    with mutex:
        sys.stdout.write((line if isinstance(line, str) else json.dumps(line)) + "\n")
        sys.stdout.flush()


def raw(data):
    os.write(1, data)


def forever():
    while True:
        time.sleep(3600)


def grandchild():
    """Keeps every pipe open, and ends only when it is killed."""
    return subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"], stdin=None, stdout=None).pid


def flood():
    chunk = b"x" * (1 << 20)
    for _ in range(1024):
        while chunk:
            chunk = chunk[os.write(1, chunk):]
        chunk = b"x" * (1 << 20)


def stream(call, count):
    sent = 0
    while sent < count:
        if credits.get(call, 0) > 0:
            credits[call] -= 1
            say({"item": call, "body": {"n": sent}})
            sent += 1
        else:
            time.sleep(0.001)
    say({"done": call, "status": 1})


def perform(call, request):
    """The body of the answer; None if there is none to give."""
    words = request.split(" ", 1)
    word, rest = words[0], words[1] if len(words) > 1 else ""
    if word == "echo":
        return rest
    if word == "count":
        return str(calls)
    if word == "pid":
        return str(os.getpid())
    if word == "cwd":
        return os.getcwd()
    if word == "files":
        return " ".join(sorted(os.listdir("/proc/self/fd"), key=int))
    if word == "variable":
        return os.environ.get(rest, "unset")
    if word == "exit":
        os._exit(int(rest))
    if word == "answer-and-exit":
        say({"done": call, "body": "farewell"})
        os._exit(0)
    if word == "kill":
        os.kill(os.getpid(), int(rest))
    if word == "last-words":
        sys.stderr.write("first words\nlast words\n")
        sys.stderr.flush()
        os._exit(3)
    if word == "raw":
        raw(rest.encode().decode("unicode_escape").encode("latin-1"))
        return None
    if word == "half":
        raw(b'{"done":')
        os._exit(0)
    if word == "flood":
        flood()
    if word == "fork":
        pid = grandchild()
        sys.stderr.write(f"grandchild {pid}\n")
        sys.stderr.flush()
        os._exit(5)
    if word == "grandchild":
        return str(grandchild())
    if word == "deaf":
        forever()
    if word == "silent":
        return None
    if word == "close-input":
        os.close(0)
        forever()
    if word == "close-output":
        os.close(1)
        forever()
    if word == "twice":
        say({"done": call, "body": "first"})
        say({"done": call, "body": "second"})
        say({"done": 999999, "body": "made up"})
        say({"item": 999998, "body": "made up"})
        return None
    if word == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        threading.Thread(target=forever).start()
        return "I stay"
    if word == "log":
        say({"log": {"level": "info", "target": "wicked", "message": rest, "fields": {"n": 1}}})
        return ""
    if word == "stream":
        threading.Thread(target=stream, args=(call, int(rest)), daemon=True).start()
        return None
    if word == "stream-and-die":
        say({"item": call, "body": {}})
        say({"item": call, "body": {"n": 1}})
        os._exit(9)
    if word == "ask":
        asked[1000 + call] = call
        say({"call": 1000 + call, "method": rest, "context": {"project": "p"}, "request": {"cmd": "hello"}})
        return None
    if word == "ask-all":  # and never read an answer
        for number in range(int(rest)):
            say({"call": 5000 + number, "method": "echo", "request": "x" * 4096})
        forever()
    return {"unknown": word}


def hello():
    if START[:1] == ["noise"]:
        print("Welcome to my program!", flush=True)
    if START[:1] == ["another-manifest"]:
        first = not os.path.exists(START[1])
        open(START[1], "w").close()
        return dict(MANIFEST, version="1.0.0" if first else "2.0.0")
    if START[:1] == ["chatty"]:
        say({"log": {"level": "info", "message": "before hello"}})
        say({"hello": MANIFEST})
        say({"log": {"level": "info", "message": "after hello"}})
        return None
    return MANIFEST


if START[:1] == ["exit"]:
    sys.stderr.write("cannot find my database\n")
    sys.exit(int(START[1]))
if START[:1] == ["second-fails"] and os.path.exists(START[1]):
    sys.exit(4)
if START[:1] == ["hang"]:
    forever()
if START[:1] == ["close"]:
    os.close(1)
    forever()
for text in sys.stdin.buffer:
    verb = json.loads(text)
    if "hello" in verb:
        greeting = hello()
        if greeting:
            say({"hello": greeting})
    elif "create" in verb:
        if START[:1] == ["refuses"]:
            say({"done": verb["create"], "status": -1, "body": "the path is wrong"})
        elif START[:1] != ["never-ready"]:
            if START[:1] == ["second-fails"]:
                open(START[1], "w").close()
            say({"done": verb["create"]})
    elif "destroy" in verb:
        if START[:1] != ["stays"]:
            say({"done": verb["destroy"]})
        if START[:1] == ["goes"]:
            sys.exit(0)
    elif "call" in verb:
        calls += 1
        body = perform(verb["call"], verb["request"])
        if body is not None:
            say({"done": verb["call"], "body": body})
    elif "pull" in verb:
        credits[verb["pull"]] = credits.get(verb["pull"], 0) + verb["n"]
    elif "done" in verb and verb["done"] in asked:
        say({"done": asked.pop(verb["done"]), "body": {"status": verb.get("status", 0), "answer": verb.get("body")}})
