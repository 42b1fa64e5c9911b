#!/usr/bin/env python3
"""A transport over a Unix socket in the plugin's own directory: one connection for each request.

A client writes two lines, who asks and what; the server answers with lines of a word and JSON: `answer`, or `head` and
then `item`s, or `error`, and closes.
"""
import itertools, json, os, queue, socket, struct, sys, threading

MANIFEST = {"name": "example-transport", "version": "1.0.0", "kind": "transport"}
UNAVAILABLE, UNSUPPORTED, CANCELLED, END = -6, -5, -7, 1
writing, numbers = threading.Lock(), itertools.count(1)
answers = {}  # our calls of the host: what it says about them
streaming = set()  # those of them that stream
credits = {}  # the host's calls that may stream: a semaphore, how many items it wants
peers = {}  # the connections that we serve, and their threads
path = listener = None

def say(**verb):
    with writing: print(json.dumps(verb), flush=True)

def serve(call):  # the head says that clients can connect
    global listener
    if os.path.exists(path): os.unlink(path)  # a killed daemon has left it behind
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen()
    credits[call].acquire()
    say(item=call, body={"endpoint": f"unix:{path}"})
    while True:
        try: peer = listener.accept()[0]
        except OSError: break  # closed by the shutdown
        peers[peer] = threading.Thread(target=serve_one, args=(peer,), daemon=True)
        peers[peer].start()
    for thread in list(peers.values()): thread.join()
    say(done=call, status=END)

def serve_one(peer):  # what a client does wrong, or its end, concerns nobody else
    number = next(numbers)
    said = answers[number] = queue.Queue()
    try:
        user = struct.unpack("3i", peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[1]
        lines = peer.makefile("rw", encoding="utf-8", newline="\n")
        context, request = json.loads(lines.readline()), json.loads(lines.readline())
        # The kernel says who it is, whatever the client writes.
        say(call=number, method="request", context=context | {"principal": {"user": user}}, request=request)
        say(pull=number, n=64)
        while (verb := said.get()).get("status", 0) != END:
            word = ("item" if number in streaming else "head") if "item" in verb else "answer"
            if "item" in verb: streaming.add(number), say(pull=number, n=1)
            elif verb.get("status", 0) < 0: word = "error"
            lines.write(f"{word} {json.dumps(verb.get('body'))}\n")
            lines.flush()
            if word in ("answer", "error"): break
    except (OSError, ValueError): pass
    finally:
        say(cancel=number)
        answers.pop(number), streaming.discard(number), peers.pop(peer, None)
        peer.close()

def heard(number, verb):  # for a call of ours; one that is over meanwhile hears nothing
    if said := answers.get(number): said.put(verb)

def shutdown():  # streams end now, and who has not asked yet; other calls are answered
    os.unlink(path)
    listener.shutdown(socket.SHUT_RDWR)
    for number in list(streaming): heard(number, {"status": END})
    for peer in list(peers):
        try: peer.shutdown(socket.SHUT_RD)
        except OSError: pass  # it has gone by itself

def request(call, verb):  # the client's side
    credit = credits[call]
    try:
        with socket.socket(socket.AF_UNIX) as peer:
            peer.connect(path)
            lines = peer.makefile("rw", encoding="utf-8", newline="\n")
            lines.write(json.dumps(verb.get("context", {})) + "\n" + json.dumps(verb["request"]) + "\n")
            lines.flush()
            word = None
            for line in lines:
                word, body = line.rstrip("\n").split(" ", 1)
                body = json.loads(body)
                if word == "answer": return say(done=call, body=body)
                if word == "error": return say(done=call, status=-8, body=body)
                while call in credits and not credit.acquire(timeout=1): pass
                if call not in credits: return say(done=call, status=-7)  # given up meanwhile
                say(item=call, body=body)
            say(done=call, status=END if word else UNAVAILABLE)
    except OSError as error: say(done=call, status=UNAVAILABLE, body=f"nobody answers on {path}: {error}")

def start(work, *arguments): threading.Thread(target=work, args=arguments, daemon=True).start()

for verb in map(json.loads, sys.stdin.buffer):
    match verb:
        case {"hello": _}: say(hello=MANIFEST)
        case {"create": number, "envelope": envelope}:
            path = os.path.join(envelope["data_dir"], "socket")
            say(done=number)
        case {"destroy": number}: say(done=number)
        case {"call": number, "method": "serve" | "request" as method}:
            credits[number] = threading.Semaphore(0)
            start(serve, number) if method == "serve" else start(request, number, verb)
        case {"call": number, "method": "shutdown"}:
            shutdown()
            say(done=number, body={})
        case {"call": number}: say(done=number, status=UNSUPPORTED, body="no such method")
        case {"pull": number, "n": n}:
            if credit := credits.get(number): credit.release(n)
        case {"cancel": number}: credits.pop(number, None)
        case {"done": number} | {"item": number}: heard(number, verb)
