#!/usr/bin/env python3
"""Finds out whether hosts that relay hold the same messages, each once, whole, with nothing missing.

It reads the files below `.fmail/` by itself, as SPEC.md lays them out, and shares no code with fmail: what is examined is not
asked. Only the standard library is used.

    checker.py LEDGER PROJECT...

The projects are those of the hosts 0, 1, … The ledger has a line of JSON for each thing that was done, in the order in which
the answers came:

    {"op": "sent", "host": 0, "id": "…", "from": "…", "to": "…", "body": …}   acknowledged with this id
    {"op": "perhaps", "host": 0, "from": "…", "to": "…", "body": …}           sent, and no answer came
    {"op": "acked" | "read" | "deleted", "host": 0, "agent": "…", "marker": "…"}
    {"op": "unsure", "what": "delete", "host": 0, "agent": "…", "marker": "…", "why": "…"}   asked for, and refused or not answered
    {"op": "swept", "host": 0, "before": 1768057200}                          gc: all older ones were removed on that host
    {"op": "restored", "host": 0, "length": 17, "lost": ["…"]}                the host got back its disk of when the ledger had
                                                                              17 lines; these messages were nowhere else

A body has a marker, which no other body has: an object's `marker`, or the first word of a text. A reply has the marker of what
it answers: an object's `re`, or a word `re:<marker>`.

Printed is one JSON object: `wrong`, a list of sentences, and `counts`. The exit code is 1 when something is wrong.
"""

import calendar
import json
import os
import re
import stat
import sys
import time
from collections import Counter, defaultdict

ID = re.compile(r"^\d{8}-\d{6}-\d{4,}$")


def marker(body):
    """What is unique about a body."""
    if isinstance(body, dict):
        return body.get("marker")
    if isinstance(body, str) and body.split():
        return body.split()[0]
    return None


def answered(body):
    """The marker of the message that this one answers."""
    if isinstance(body, dict):
        return body.get("re")
    if isinstance(body, str):
        return next((word[3:] for word in body.split()[1:] if word.startswith("re:")), None)
    return None


def canonical(value):
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def seconds(text):
    """The time in a message, as seconds since 1970."""
    whole = text.split(".")[0].rstrip("Z")
    return calendar.timegm(time.strptime(whole, "%Y-%m-%dT%H:%M:%S"))


class Message:
    """A file."""

    def __init__(self, mailbox, path, fields):
        self.mailbox = mailbox
        self.path = path
        self.id = fields["id"]
        self.origin = fields.get("origin_id") or fields["id"]
        self.body = fields["body"]
        self.marker = marker(self.body)
        self.re = answered(self.body)
        self.reply_to = fields.get("reply_to")
        self.reply_hash = fields.get("reply_hash")
        self.reply_origin = fields.get("reply_origin")
        self.time = seconds(fields["time"])
        self.sender = fields["from"]
        self.to = fields["to"]
        self.identity = (self.origin, self.sender, self.to, fields["time"], canonical(self.body))


class Host:
    """What one host holds."""

    def __init__(self, number, project, wrong):
        self.name = f"host {number}"
        self.number = number
        self.store = os.path.join(project, ".fmail")
        self.messages = []
        self.wrong = wrong
        self.read_mailboxes("topics", "", None)
        self.read_mailboxes("dm", "@", 0o600)
        self.read_temporaries()
        self.by_marker = defaultdict(list)
        self.by_id = defaultdict(list)
        for message in self.messages:
            self.by_marker[message.marker].append(message)
            self.by_id[message.id].append(message)

    def read_mailboxes(self, kind, prefix, mode):
        top = os.path.join(self.store, kind)
        for name in sorted(os.listdir(top)) if os.path.isdir(top) else []:
            directory = os.path.join(top, name)
            if mode is not None:
                self.expect_mode(directory, 0o700)
            for file in sorted(os.listdir(directory)):
                self.read_message(prefix + name, os.path.join(directory, file), mode)

    def read_message(self, mailbox, path, mode):
        stem, end = os.path.splitext(os.path.basename(path))
        if end != ".json" or not ID.match(stem):
            self.wrong.append(f"{self.name}: {path} is no message")
            return
        try:
            with open(path, encoding="utf-8") as file:
                fields = json.load(file)
            message = Message(mailbox, path, fields)
        except FileNotFoundError:
            return
        except (ValueError, KeyError, TypeError) as error:
            self.wrong.append(f"{self.name}: {path} is broken: {error!r}")
            return
        if message.id != stem:
            self.wrong.append(f"{self.name}: {path} says that it is {message.id}")
        if mode is not None:
            self.expect_mode(path, mode)
        self.messages.append(message)

    def expect_mode(self, path, mode):
        try:
            found = stat.S_IMODE(os.stat(path).st_mode)
        except FileNotFoundError:
            return
        if found != mode:
            self.wrong.append(f"{self.name}: wrong mode: {path} has {found:04o}, not {mode:04o}")

    def read_temporaries(self):
        directory = os.path.join(self.store, "tmp")
        for name in os.listdir(directory) if os.path.isdir(directory) else []:
            self.wrong.append(f"{self.name}: left over: tmp/{name}")

    def states(self, agent):
        """What an agent has done with its messages, by their ids here."""
        found = {}
        directory = os.path.join(self.store, "records", "mailbox", agent)
        for name in os.listdir(directory) if os.path.isdir(directory) else []:
            if name == "tally.json" or not name.endswith(".json"):
                continue
            try:
                with open(os.path.join(directory, name), encoding="utf-8") as file:
                    states = json.load(file)
            except FileNotFoundError:
                continue
            found.update({key: state for key, state in states.items() if isinstance(state, dict)})
        return found


class Ledger:
    """What was done, and what has to follow from it."""

    def __init__(self, path):
        with open(path, encoding="utf-8") as file:
            self.lines = [json.loads(line) for line in file]
        self.sent, self.perhaps, self.lost = {}, {}, set()
        self.sent_at, self.marks, self.swept, self.unsure = {}, [], [], set()
        for number, line in enumerate(self.lines):
            operation = line["op"]
            if operation == "sent":
                self.sent[marker(line["body"])] = line
                self.sent_at[marker(line["body"])] = number
            elif operation == "perhaps":
                self.perhaps[marker(line["body"])] = line
            elif operation in ("acked", "read", "deleted"):
                self.marks.append((number, line))
            elif operation == "unsure":
                self.unsure.add(line["marker"])
            elif operation == "swept":
                self.swept.append((number, line))
            elif operation == "restored":
                self.lost.update(line["lost"])
            else:
                raise ValueError(f"the ledger's line {number + 1} has the unknown op {operation}")
        self.deleted = {line["marker"] for number, line in self.marks if line["op"] == "deleted" and not self.undone(number, line)}
        undone = {line["marker"] for _, line in self.marks if line["op"] == "deleted"} - self.deleted
        self.uncertain = (undone | self.unsure) - self.deleted
        self.swept = [(number, line) for number, line in self.swept if not self.undone(number, line)]
        self.horizon = max((line["before"] for _, line in self.swept), default=None)

    def undone(self, number, line):
        """Whether the host on which this was done got back a disk from before it."""
        return any(
            other["op"] == "restored" and other["host"] == line["host"] and other["length"] <= number
            for other in self.lines[number:]
        )

    def swept_on(self, host):
        """When a host last removed what is old, and before which time."""
        return max(((number, line["before"]) for number, line in self.swept if line["host"] == host), default=None)

    def below_horizon(self, message):
        return self.horizon is not None and message.time < self.horizon


def check_each(host, ledger, wrong, counts):
    """What can be said of one host alone."""
    for (mailbox, identity), number in Counter((m.mailbox, m.identity) for m in host.messages).items():
        if number > 1:
            wrong.append(f"{host.name}: doubled: {identity[0]} is in {mailbox} {number} times")
    markers = Counter((m.mailbox, m.marker) for m in host.messages)
    for (mailbox, name), number in markers.items():
        if number > 1 and name is not None:
            wrong.append(f"{host.name}: doubled: {name} is in {mailbox} {number} times")
    swept = ledger.swept_on(host.number)
    for message in host.messages:
        line = ledger.sent.get(message.marker) or ledger.perhaps.get(message.marker)
        if line is None:
            wrong.append(f"{host.name}: nobody sent {message.path} ({message.marker})")
            continue
        said = (line["from"], line["to"], canonical(line["body"]))
        if said != (message.sender, message.to, canonical(message.body)):
            wrong.append(f"{host.name}: changed: {message.path} is not what was sent as {message.marker}")
        if line.get("id", message.origin) != message.origin:
            wrong.append(f"{host.name}: {message.marker} was born as {line['id']}, and {message.path} says {message.origin}")
        if message.marker in ledger.deleted:
            wrong.append(f"{host.name}: resurrected: {message.marker} was deleted")
        if swept and message.time < swept[1]:
            here_later = line["host"] == host.number and ledger.sent_at.get(message.marker, -1) > swept[0]
            if not here_later:
                wrong.append(f"{host.name}: resurrected: {message.marker} is older than what was swept away here")
        check_reply(host, message, wrong, counts)


def check_reply(host, message, wrong, counts):
    """Whether a reply points to what it answers, whatever id that has here."""
    if message.re is None:
        return
    parents = host.by_marker.get(message.re, [])
    if message.reply_to is None and message.reply_origin is not None:
        # Another message had the parent's id when the reply came; what it answers is said aside.
        counts["replies aside"] += 1
        swept = set(message.reply_hash or "0") == {"0"}
        if parents and not swept and message.reply_origin not in [parent.origin for parent in parents]:
            wrong.append(f"{host.name}: wrong reply_to: {message.marker} answers {message.re}, not {message.reply_origin}")
    elif message.reply_to is None:
        wrong.append(f"{host.name}: wrong reply_to: {message.marker} answers {message.re} and says nothing of it")
    elif not parents:
        counts["parents gone"] += 1
        if host.by_id.get(message.reply_to):
            other = host.by_id[message.reply_to][0].marker
            wrong.append(f"{host.name}: wrong reply_to: {message.marker} answers {message.re}, which is gone, not {other}")
    elif message.reply_hash is not None:
        # The parent came later. It has the id of its birth, which was kept for it, or that id is nobody's.
        counts["replies unresolved"] += 1
        if message.reply_to not in [parent.origin for parent in parents]:
            wrong.append(f"{host.name}: wrong reply_to: {message.marker} answers {message.re}, not {message.reply_to}")
        others = [other.marker for other in host.by_id.get(message.reply_to, []) if other.marker != message.re]
        if others:
            wrong.append(f"{host.name}: wrong reply_to: {message.marker} answers {message.re}, and {message.reply_to} is {others}")
    elif message.reply_to not in [parent.id for parent in parents]:
        others = [other.marker for other in host.by_id.get(message.reply_to, [])]
        wrong.append(f"{host.name}: wrong reply_to: {message.marker} answers {message.re}, not {message.reply_to} ({others})")
    else:
        counts["replies"] += 1


def check_missing(hosts, ledger, wrong, counts):
    """Whether everything that was acknowledged is everywhere."""
    for name, line in ledger.sent.items():
        if name in ledger.deleted:
            counts["deleted"] += 1
            continue
        lacking = [host for host in hosts if not host.by_marker.get(name)]
        if not lacking:
            continue
        old = ledger.horizon is not None and seconds(id_time(line["id"])) < ledger.horizon
        if old:
            counts["swept"] += 1
        elif name in ledger.uncertain:
            counts["deleted perhaps"] += 1
        elif name in ledger.lost:
            counts["lost with a disk"] += 1
        else:
            names = ", ".join(host.name for host in lacking)
            wrong.append(f"missing: {name} ({line['id']} to {line['to']}), acknowledged by host {line['host']}, on {names}")


def id_time(name):
    day, clock = name.split("-")[:2]
    return f"{day[:4]}-{day[4:6]}-{day[6:]}T{clock[:2]}:{clock[2:4]}:{clock[4:]}"


def check_same(hosts, ledger, wrong):
    """Whether all hosts hold the same."""
    held = [{(m.mailbox, m.identity) for m in host.messages if not ledger.below_horizon(m)} for host in hosts]
    everything = set().union(*held)
    for host, own in zip(hosts, held):
        for mailbox, identity in sorted(everything - own):
            wrong.append(f"{host.name} lacks {identity[0]} in {mailbox}, which another host holds: {identity[4][:80]}")


def check_receipts(hosts, ledger, wrong, counts):
    """Whether every host knows what agents have done, under the id that the message has there."""
    done = {}
    for number, line in ledger.marks:
        if line["op"] != "deleted" and not ledger.undone(number, line):
            done[(line["agent"], line["marker"], line["op"])] = line
    for host in hosts:
        known = {}
        for agent, name, operation in done:
            if agent not in known:
                known[agent] = host.states(agent)
            for message in host.by_marker.get(name, []):
                if ledger.below_horizon(message):
                    continue
                state = known[agent].get(message.id, {})
                field = "acknowledged" if operation == "acked" else "first_read"
                counts["receipts"] += 1
                if not state.get(field):
                    wrong.append(f"{host.name} does not know that {agent} has {operation} {name} ({message.id})")


def main(arguments):
    wrong, counts = [], Counter({"messages": 0, "replies": 0, "receipts": 0, "swept": 0, "deleted": 0})
    ledger = Ledger(arguments[0])
    hosts = [Host(number, project, wrong) for number, project in enumerate(arguments[1:])]
    for host in hosts:
        check_each(host, ledger, wrong, counts)
    check_missing(hosts, ledger, wrong, counts)
    check_same(hosts, ledger, wrong)
    check_receipts(hosts, ledger, wrong, counts)
    counts["acknowledged"] = len(ledger.sent)
    counts["messages"] = max((len(host.messages) for host in hosts), default=0)
    counts["relocated"] = sum(m.origin != m.id for host in hosts for m in host.messages)
    print(json.dumps({"wrong": wrong, "counts": counts}))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
