#!/usr/bin/env python3
"""A mail script of Gas City's contract: a lock and one JSON file, named by MAIL_FILE. For fmail's `exec` store."""
import datetime, fcntl, json, os, sys, uuid

path = os.environ.get("MAIL_FILE", "mail.json")
op, arg = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else ""


def fail(text):
    sys.exit(f"mail.py: {text}")  # to standard error, exit status 1


lock = open(path + ".lock", "w")
fcntl.flock(lock, fcntl.LOCK_EX)  # until the end of the process
messages = json.load(open(path)) if os.path.exists(path) else []


def find(id):
    return next((m for m in messages if m["id"] == id), None) or fail(f"gc-mail-error:not-found {id}")


def store(to, letter, thread=None, reply_to=None):
    now = datetime.datetime.now(datetime.timezone.utc).isoformat()
    message = {"id": "gc-" + uuid.uuid4().hex[:12], "to": to, "created_at": now, "read": False, **letter,
               "thread_id": thread or "thread-" + uuid.uuid4().hex[:8], **({"reply_to": reply_to} if reply_to else {})}
    messages.append({**message, "open": True})
    return message


def shown(message):
    return {key: value for key, value in message.items() if key != "open"}


answer, lists = None, {"inbox", "check", "all", "thread"}
mine = [m for m in messages if m["to"] == arg and m["open"]]
if op == "ensure-running": pass
elif op == "send": answer = store(arg, json.load(sys.stdin))
elif op == "reply": first = find(arg); answer = store(first["from"], json.load(sys.stdin), first["thread_id"], arg)
elif op == "get": answer = shown(find(arg))
elif op == "read": find(arg)["read"] = True; answer = shown(find(arg))
elif op == "mark-read": find(arg)["read"] = True
elif op == "mark-unread": find(arg)["read"] = False
elif op in ("archive", "delete"): find(arg)["open"] or fail(f"{arg} is already archived"); find(arg)["open"] = False
elif op in ("inbox", "check"): answer = [shown(m) for m in mine if not m["read"]]
elif op == "all": answer = [shown(m) for m in mine]
elif op == "thread": answer = [shown(m) for m in messages if m["thread_id"] == arg]
elif op == "count": answer = {"total": len(mine), "unread": sum(not m["read"] for m in mine)}
else: sys.exit(2)  # an operation that it does not know
if op not in lists | {"get", "count", "ensure-running"}:
    with open(path + ".new", "w") as file: json.dump(messages, file)
    os.replace(path + ".new", path)
if answer: print(json.dumps(answer))
