#!/usr/bin/env python3
"""Finds out whether everything that was acknowledged is there, once, whole and in order, on one host or on several.

It reads the files below `.fmail/` by itself, as SPEC.md lays them out, and shares no code with fmail: what is examined is not
asked. Only the standard library is used.

    checker.py LEDGER STORE...

The stores are the `.fmail` directories of the hosts 0, 1, … The ledger has a line of JSON for each thing that happened; the lines
of one sender and of one watch stand in their order:

    {"op": "sent", "sender": 3, "origin": "…", "host": 0, "id": "…", "from": "…", "to": ["…"], "marker": "…", "sum": 7}
    {"op": "watch", "watch": 2, "name": "…", "host": 0, "agent": "…", "target": "…" or null}
    {"op": "seen", "watch": 2, "id": "…", "from": "…", "marker": "…", "sum": 7}
    {"op": "marked", "host": 0, "agent": "…", "what": "read" | "acked" | "archived", "marker": "…"}
    {"op": "listed", "host": 0, "agent": "…", "folder": "unread" | "open" | "archived", "markers": ["…"]}

`to` names every mailbox of a message: a topic, or `@` and an agent. The body of a message has a `marker`, which no other body has.
`sum` is the CRC-32 of the body as JSON without spaces. The origin says what is promised about a message:

    acknowledged      a program said `ok`. Of one sender, ids ascend; every watch shows it, those of its own host in this order
    by_hand           written into a directory, with an id of its time; every watch shows it
    dated_back        written with an id of the past; a watch that has to go on behind an id does not show it
    outdated          so old that gc has to remove it
    farewell          as acknowledged, but the last of its host: watches of other hosts may have ended before it came

Printed is one JSON object: `wrong`, a list of sentences, and `counts`. The exit code is 1 when something is wrong.
"""

import json
import os
import re
import stat
import sys
import zlib
from collections import Counter, defaultdict

ID = re.compile(r"^\d{8}-\d{6}-\d{4,}$")

# Temporaries with one name for all: whoever is killed while it replaces a record or the index leaves one, and the next
# replacement takes it away.
REPLACED = {"record", "index"}

ORIGINS = {"acknowledged", "by_hand", "dated_back", "outdated", "farewell"}


def checksum(body):
    return zlib.crc32(json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode())


class Ledger:
    """What was sent, what was seen, what was done with it."""

    def __init__(self, path, wrong):
        self.sent, self.senders, self.watches = {}, defaultdict(list), {}
        self.marks, self.listed = [], []
        with open(path, encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                self.read(number, json.loads(line), wrong)

    def read(self, number, line, wrong):
        operation = line["op"]
        if operation == "sent":
            if line["origin"] not in ORIGINS:
                raise ValueError(f"line {number} of the ledger has the unknown origin {line['origin']}")
            if line["marker"] in self.sent:
                raise ValueError(f"line {number} of the ledger sends {line['marker']} a second time")
            self.sent[line["marker"]] = line
            self.senders[line["sender"]].append(line)
        elif operation == "watch":
            self.watches[line["watch"]] = (line, [])
        elif operation == "seen":
            self.watches[line["watch"]][1].append(line)
        elif operation == "marked":
            self.marks.append(line)
        elif operation == "listed":
            self.listed.append(line)
        else:
            raise ValueError(f"line {number} of the ledger has the unknown op {operation}")

    def check_ids(self, wrong):
        """An id is given once on a host; whoever waits for each answer gets ascending ones."""
        given = {}
        for line in self.sent.values():
            other = given.setdefault((line["host"], line["id"]), line)
            if other is not line:
                wrong.append(f"{line['id']} was acknowledged for two messages: {other['marker']} and {line['marker']}")
        for lines in self.senders.values():
            for before, after in zip(lines, lines[1:]):
                if before["origin"] == after["origin"] == "acknowledged" and before["id"] >= after["id"]:
                    wrong.append(f"disordered: {after['from']} got {before['id']} and then {after['id']}")


class Host:
    """What one host holds."""

    def __init__(self, number, store, wrong):
        self.number, self.store, self.wrong = number, store, wrong
        self.name = f"host {number}"
        # By marker: the mailboxes in which it is, and the id that it has here.
        self.places, self.ids, self.markers = defaultdict(list), {}, {}
        self.files = 0
        for kind, prefix, private in (("topics", "", False), ("dm", "@", True)):
            for name in self.names(kind):
                if private:
                    self.expect_mode(f"{kind}/{name}", 0o700)
                for file in self.names(f"{kind}/{name}"):
                    self.read_message(f"{kind}/{name}/{file}", prefix + name, file, private)
        for name in self.names("tmp"):
            if name not in REPLACED:
                self.say(f"left behind: tmp/{name}")
        self.read_records(os.path.join(store, "records"))

    def say(self, what):
        self.wrong.append(f"{self.name}: {what}")

    def names(self, directory):
        """A directory that is missing is empty: a project without direct messages has no `dm`."""
        path = os.path.join(self.store, directory)
        return sorted(os.listdir(path)) if os.path.isdir(path) else []

    def expect_mode(self, place, mode):
        found = stat.S_IMODE(os.stat(os.path.join(self.store, place)).st_mode)
        if found != mode:
            self.say(f"wrong mode: {place} has {found:04o}, not {mode:04o}")

    def read_message(self, place, mailbox, file, private):
        stem, end = os.path.splitext(file)
        if end != ".json" or not ID.match(stem):
            self.say(f"{place} is no message")
            return
        try:
            with open(os.path.join(self.store, place), encoding="utf-8") as text:
                fields = json.load(text)
            marker = fields["body"]["marker"]
            found = (fields["id"], fields.get("origin_id") or fields["id"], fields["from"], checksum(fields["body"]))
        except (ValueError, KeyError, TypeError) as error:
            self.say(f"{place} is not whole: {error!r}")
            return
        if found[0] != stem:
            self.say(f"{place} holds the id {found[0]}")
        named = [fields.get("to")] + (fields.get("recipients") or []) + (fields.get("cc") or [])
        # What is in a topic too is one file with two names, and anybody's to read.
        if private and all(str(name).startswith("@") for name in named):
            self.expect_mode(place, 0o600)
        if mailbox not in named:
            self.say(f"{place} is addressed to {', '.join(map(str, named))}")
        self.files += 1
        if mailbox in self.places[marker]:
            self.say(f"doubled: {marker} is in {mailbox} twice, as {place} too")
        self.places[marker].append(mailbox)
        known = self.ids.setdefault(marker, found)
        if known != found:
            self.say(f"doubled: {marker} is {known} and in {place} {found}")
        other = self.markers.setdefault(found[0], marker)
        if other != marker:
            self.say(f"doubled: one id for {other} and for {marker} in {place}")

    def read_records(self, directory):
        for top, _, files in os.walk(directory):
            for name in files:
                try:
                    with open(os.path.join(top, name), encoding="utf-8") as text:
                        json.load(text)
                except ValueError as error:
                    self.say(f"the record {os.path.relpath(os.path.join(top, name), self.store)} is not whole: {error}")

    def check(self, ledger, counts):
        for marker, mailboxes in self.places.items():
            line = ledger.sent.get(marker)
            if line is None:
                self.say(f"nobody sent {marker}, which is in {', '.join(mailboxes)}")
                continue
            identity, origin, sender, total = self.ids[marker]
            if (sender, total) != (line["from"], line["sum"]) or set(mailboxes) - set(line["to"]):
                self.say(f"changed: {identity} is {sender}, {mailboxes}, {total}, and sent was {line}")
            if origin != line["id"]:
                self.say(f"{marker} was sent as {line['id']} and says that it was {origin}")
            if line["host"] == self.number and identity != line["id"]:
                self.say(f"{marker} was acknowledged as {line['id']} and is {identity}")
            if line["origin"] == "outdated":
                self.say(f"gc left {identity} in {', '.join(mailboxes)}")
            counts["under another id"] += identity != origin
        for marker, line in ledger.sent.items():
            lacking = set(line["to"]) - set(self.places.get(marker, []))
            if line["origin"] != "outdated" and lacking:
                where = ", ".join(sorted(lacking))
                self.say(f"lost: {line['id']} ({marker}, {line['origin']}) from {line['from']}, in {where}")
        counts["files"] += self.files


def covers(watch, mailboxes):
    """A watch is of one mailbox, or of all topics and the agent's own mail."""
    if watch["target"] is not None:
        return watch["target"] in mailboxes
    return any(not mailbox.startswith("@") or mailbox[1:] == watch["agent"] for mailbox in mailboxes)


def check_watch(watch, seen, host, ledger, wrong, counts):
    """Each message exactly once, as it was sent, and what was sent on the same host in ascending order."""
    name, shown, newest = watch["name"], set(), ""
    for message in seen:
        marker = message["marker"]
        if marker in shown:
            wrong.append(f"{name} showed {marker} ({message['id']}) twice")
            continue
        shown.add(marker)
        line = ledger.sent.get(marker)
        if line is None:
            wrong.append(f"{name} showed {marker} ({message['id']}), which nobody sent")
            continue
        if not covers(watch, line["to"]):
            wrong.append(f"{name} showed {marker}, which is for {', '.join(line['to'])}")
        if (message["from"], message["sum"]) != (line["from"], line["sum"]):
            wrong.append(f"{name} showed {message}, and sent was {line}")
        own = line["host"] == watch["host"]
        here = line["id"] if own else host.ids.get(marker, (message["id"],))[0]
        if message["id"] != here:
            wrong.append(f"{name} showed {marker} as {message['id']}, and it is {here}")
        if own and line["origin"] in ("acknowledged", "farewell"):
            if message["id"] < newest:
                wrong.append(f"disordered: {name} showed {newest} and then {message['id']} ({marker})")
            newest = max(newest, message["id"])
    for marker, line in ledger.sent.items():
        own = line["host"] == watch["host"]
        due = line["origin"] in ("acknowledged", "by_hand") or (line["origin"] == "farewell" and own)
        if due and marker not in shown and covers(watch, line["to"]):
            wrong.append(f"{name} missed {marker} ({line['id']}, {line['origin']}) from {line['from']} to {line['to']}")
    counts["seen"] += len(seen)


def check_listed(listed, ledger, wrong, counts):
    """What an agent's folders show is what was sent to it and what it has done with it."""
    name = f"{listed['folder']} of {listed['agent']} on host {listed['host']}"
    mail = {
        marker
        for marker, line in ledger.sent.items()
        if "@" + listed["agent"] in line["to"] and line["origin"] != "outdated"
    }
    done = defaultdict(set)
    for mark in ledger.marks:
        if mark["agent"] == listed["agent"]:
            done[mark["what"]].add(mark["marker"])
    open_ones = mail - done["archived"]
    expected = {
        "unread": open_ones - done["read"] - done["acked"],
        "open": open_ones,
        "archived": mail & done["archived"],
    }[listed["folder"]]
    for marker, number in Counter(listed["markers"]).items():
        if number > 1:
            wrong.append(f"{name} lists {marker} {number} times")
        if marker not in expected:
            wrong.append(f"{name} lists {marker}, which does not belong there")
    for marker in sorted(expected - set(listed["markers"])):
        wrong.append(f"{name} does not list {marker}")
    counts["listed"] += len(listed["markers"])


def main(arguments):
    wrong = []
    counts = Counter({key: 0 for key in ("sent", "files", "seen", "listed", "marks", "under another id")})
    ledger = Ledger(arguments[0], wrong)
    ledger.check_ids(wrong)
    hosts = [Host(number, store, wrong) for number, store in enumerate(arguments[1:])]
    for host in hosts:
        host.check(ledger, counts)
    for watch, seen in ledger.watches.values():
        check_watch(watch, seen, hosts[watch["host"]], ledger, wrong, counts)
    for listed in ledger.listed:
        check_listed(listed, ledger, wrong, counts)
    counts["sent"] = len(ledger.sent)
    counts["marks"] = len(ledger.marks)
    counts["watches"] = len(ledger.watches)
    print(json.dumps({"wrong": wrong, "counts": counts}))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
