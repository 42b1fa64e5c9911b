"""What every client in Python does with the server, whichever library it is.

A program of a library says how that library connects, and calls `main`. It is given one argument, a JSON object: where the
server is (`url` and perhaps `token`, or `command`), the path of a project, and the protocols to speak. For each it prints
one line of JSON with what it did. Anything that is not as it has to be ends it.
"""

import asyncio
import contextlib
import json
import sys
import urllib.parse
from dataclasses import dataclass
from typing import Any, AsyncContextManager, Callable

CONTRACT = {
    "health_check", "ensure_project", "register_agent", "send_message", "reply_message", "fetch_inbox",
    "mark_message_read", "acknowledge_message", "search_messages", "summarize_thread", "file_reservation_paths",
    "release_file_reservations", "renew_file_reservations", "macro_start_session", "macro_prepare_thread",
}
BEYOND = {"whois", "wait_for_message"}

# How long a single thing may take on a busy machine before it is a failure.
PATIENCE = 30


@dataclass
class Answer:
    """The result of a tool, without the library's own types."""

    structured: dict[str, Any] | None
    texts: list[str]
    is_error: bool


class Client:
    """What the scenario asks of a library."""

    protocol: str

    async def tools(self) -> list[dict[str, Any]]:
        raise NotImplementedError

    async def call(self, name: str, arguments: dict[str, Any]) -> Answer:
        raise NotImplementedError

    async def resources(self) -> list[str]:
        raise NotImplementedError

    async def templates(self) -> list[str]:
        raise NotImplementedError

    async def read(self, uri: str) -> str:
        raise NotImplementedError

    def updates(self, uri: str) -> AsyncContextManager[Callable[[], Any]]:
        """Subscribes to a resource; gives what waits for the URI of the next change."""
        raise NotImplementedError


def need(condition: Any, what: str, found: Any) -> None:
    if not condition:
        raise AssertionError(f"{what}, but: {json.dumps(found, default=str, ensure_ascii=False)}")


class Session:
    """One client that works through the contract, and keeps a list of what it did."""

    def __init__(self, client: Client, project: str, suffix: str) -> None:
        self.client = client
        self.project = project
        self.green, self.blue = f"GreenDog{suffix}", f"BlueMountain{suffix}"
        self.thread = f"RS-20251230-{suffix}"
        self.did: list[str] = []

    async def ok(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Calls a tool that has to succeed. What it says as text is what it says as an object."""
        answer = await asyncio.wait_for(self.client.call(tool, arguments), PATIENCE)
        need(not answer.is_error, f"{tool} succeeds", answer.texts)
        need(isinstance(answer.structured, dict), f"{tool} gives an object", answer.structured)
        if answer.texts:
            said = json.loads(answer.texts[0])
            need(said in (answer.structured, answer.structured.get("result")), f"{tool} says one thing twice", said)
        self.did.append(tool)
        return answer.structured

    async def refused(self, tool: str, parts: list[str], **arguments: Any) -> dict[str, Any] | None:
        """Calls a tool that has to refuse, and to say this."""
        answer = await asyncio.wait_for(self.client.call(tool, arguments), PATIENCE)
        need(answer.is_error, f"{tool} refuses", answer.structured)
        for part in parts:
            need(part in " ".join(answer.texts), f"{tool} says {part!r}", answer.texts)
        return answer.structured

    async def read(self, uri: str) -> Any:
        text = await asyncio.wait_for(self.client.read(uri), PATIENCE)
        self.did.append("resources/read")
        return json.loads(text)

    def inbox_uri(self, agent: str) -> str:
        return f"resource://inbox/{agent}?project={urllib.parse.quote(self.project, safe='')}&limit=20"

    async def send(self, sender: str, to: str, subject: str, **more: Any) -> int:
        sent = await self.ok(
            "send_message", project_key=self.project, sender_name=sender, to=[to], subject=subject,
            body_md=f"# {subject}\n\nthe body of {subject}", **more,
        )
        need(sent["count"] == 1, "one delivery", sent)
        number = sent["deliveries"][0]["payload"]["id"]
        need(type(number) is int and 0 < number < 2**53, "the id is a number that JavaScript keeps", number)
        return number

    async def everything(self) -> None:
        await self.lists()
        await self.begins()
        await self.reserves()
        await self.writes()
        await self.searches()
        await self.resources()
        await self.macros()
        await self.hears()
        await self.waits()
        await self.errs()
        await self.ends()

    async def lists(self) -> None:
        tools = await self.client.tools()
        names = {tool["name"] for tool in tools}
        need(CONTRACT | BEYOND <= names, "every tool is listed", sorted(names))
        for tool in tools:
            need(tool["description"], "a tool says what it does", tool)
            need(tool["inputSchema"]["type"] == "object", "arguments are an object", tool)
        self.did.append("tools/list")

    async def begins(self) -> None:
        health = await self.ok("health_check")
        need(health["status"] == "ready", "the server is ready", health)
        project = await self.ok("ensure_project", human_key=self.project)
        need(project["human_key"] == self.project and project["created_at"], "the project", project)
        self.slug = project["slug"]
        for name in (self.green, self.blue):
            agent = await self.ok(
                "register_agent", project_key=self.project, name=name, program="claude-code", model="opus-4.5",
                task_description="Protocol kernel development",
            )
            need(agent["name"] == name and type(agent["id"]) is int, "the name that was asked for", agent)
        who = await self.ok("whois", project_key=self.project, agent_name=self.green)
        need(who["name"] == self.green and who["program"] == "claude-code", "who it is", who)

    async def reserves(self) -> None:
        path = f"apps/{self.green}/src/**"
        held = await self.ok(
            "file_reservation_paths", project_key=self.project, agent_name=self.green, paths=[path],
            ttl_seconds=3600, exclusive=True,
        )
        need([one["path_pattern"] for one in held["granted"]] == [path], "granted", held)
        inside = f"apps/{self.green}/src/lib/agentMail.ts"
        conflict = await self.refused(
            "file_reservation_paths", ["FILE_RESERVATION_CONFLICT", self.green], project_key=self.project,
            agent_name=self.blue, paths=[inside], ttl_seconds=3600, exclusive=True,
        )
        need(conflict is None or conflict["granted"] == [], "nothing is granted in a conflict", conflict)
        renewed = await self.ok(
            "renew_file_reservations", project_key=self.project, agent_name=self.green, paths=[path],
            new_ttl_seconds=7200,
        )
        need(renewed["renewed"] == 1, "renewed", renewed)
        self.path = path

    async def writes(self) -> None:
        number = await self.send(
            self.green, self.blue, "KICKOFF: Cell fate investigation", thread_id=self.thread, ack_required=True,
        )
        inbox = await self.ok(
            "fetch_inbox", project_key=self.project, agent_name=self.blue, limit=20, unread_only=True,
            include_bodies=True,
        )
        need([row["id"] for row in inbox["result"]] == [number], "the message is in the inbox", inbox)
        row = inbox["result"][0]
        need(row["from"] == self.green and row["ack_required"] is True, "as it was sent", row)
        need("the body of KICKOFF" in row["body_md"], "with its body", row)
        reply = await self.ok(
            "reply_message", project_key=self.project, message_id=number, sender_name=self.blue,
            body_md="## Response\n\n- TODO look at the hypothesis slate",
        )
        need(reply["reply_to"] == number and reply["thread_id"] == self.thread, "the reply is in the thread", reply)
        here = {"project_key": self.project, "agent_name": self.blue, "message_id": number}
        read = await self.ok("mark_message_read", **here)
        need(read["read"] is True and read["message_id"] == number, "read", read)
        acknowledged = await self.ok("acknowledge_message", ack_body="Received and understood", **here)
        need(acknowledged["acknowledged"] is True, "acknowledged", acknowledged)
        rest = await self.ok("fetch_inbox", project_key=self.project, agent_name=self.blue, unread_only=True)
        need(rest["result"] == [], "nothing is unread", rest)
        self.first, self.reply = number, reply["id"]

    async def searches(self) -> None:
        found = await self.ok("search_messages", project_key=self.project, query='"hypothesis slate"', limit=10)
        need(self.reply in [row["id"] for row in found["result"]], "the reply is found by its words", found)
        summary = await self.ok("summarize_thread", project_key=self.project, thread_id=self.thread)
        need(set(summary["summary"]["participants"]) == {self.green, self.blue}, "who took part", summary)
        need(summary["summary"]["total_messages"] >= 2, "both messages", summary)

    async def resources(self) -> None:
        listed = await self.client.resources() + await self.client.templates()
        for kind in ("agents", "inbox", "thread"):
            need(any(uri.startswith(f"resource://{kind}/") for uri in listed), f"{kind} is listed", listed)
        self.did += ["resources/list", "resources/templates/list"]
        agents = await self.read(f"resource://agents/{self.slug}")
        names = {agent["name"] for agent in agents["agents"]}
        need({self.green, self.blue} <= names, "the agents", agents)
        inbox = await self.read(self.inbox_uri(self.green))
        need(inbox["agent"] == self.green and inbox["count"] == len(inbox["messages"]), "the inbox", inbox)
        need(self.reply in [row["id"] for row in inbox["messages"]], "the reply is there", inbox)
        project = urllib.parse.quote(self.project, safe="")
        thread = await self.read(f"resource://thread/{self.thread}?project={project}&include_bodies=true")
        need([row["id"] for row in thread["messages"]][:2] == [self.first, self.reply], "oldest first", thread)

    async def macros(self) -> None:
        started = await self.ok(
            "macro_start_session", project_key=self.project, agent_name=self.blue, program="codex-cli",
            model="gpt-5.2", task_description="Review", reserve_paths=[f"docs/{self.blue}/**"],
        )
        need(started["agent"]["name"] == self.blue and started["project"]["slug"] == self.slug, "started", started)
        need(len(started["file_reservations"]["granted"]) == 1, "with its reservation", started)
        prepared = await self.ok(
            "macro_prepare_thread", project_key=self.project, agent_name=self.green, thread_id=self.thread,
        )
        need(prepared["thread"]["thread_id"] == self.thread, "prepared", prepared)

    async def hears(self) -> None:
        """A change of the inbox is told to who has subscribed to it."""
        uri = self.inbox_uri(self.green)
        async with self.client.updates(uri) as updated:
            await self.send(self.blue, self.green, "INFO: something changed")
            changed = await asyncio.wait_for(updated(), PATIENCE)
        need(changed == uri, "the resource that was subscribed to", changed)
        self.did.append("notifications/resources/updated")

    async def waits(self) -> None:
        """Who waits gets what comes; who waits in vain gets nothing, and no error."""
        await self.drain(self.green)
        waiting = asyncio.create_task(
            self.ok("wait_for_message", project_key=self.project, agent_name=self.green, timeout_seconds=PATIENCE)
        )
        number = await self.send(self.blue, self.green, "INFO: the one that is waited for")
        came = await waiting
        need([row["id"] for row in came["messages"]] == [number], "what was waited for", came)
        await self.drain(self.green)
        nothing = await self.ok(
            "wait_for_message", project_key=self.project, agent_name=self.green, timeout_seconds=1
        )
        need(nothing["messages"] == [] and nothing["timed_out"] is True, "nothing came", nothing)

    async def drain(self, agent: str) -> None:
        unread = await self.ok("fetch_inbox", project_key=self.project, agent_name=agent, unread_only=True)
        for row in unread["result"]:
            await self.ok("mark_message_read", project_key=self.project, agent_name=agent, message_id=row["id"])

    async def errs(self) -> None:
        """What is refused is refused as a result that says why, so that a model can read it."""
        await self.refused("no_such_tool", ["no_such_tool"])
        typo = self.green.replace("Dog", "Dogg")
        await self.refused(
            "send_message", [typo, "Did you mean", self.green], project_key=self.project, sender_name=self.blue,
            to=[typo], subject="lost", body_md="lost",
        )
        await self.refused("fetch_inbox", ["not found"], project_key="/nope/x", agent_name=self.green)
        await self.refused("ensure_project", ["absolute"], human_key="brenner_bot")
        self.did.append("errors")

    async def ends(self) -> None:
        released = await self.ok(
            "release_file_reservations", project_key=self.project, agent_name=self.green, paths=[self.path]
        )
        need(released["released"] == 1, "released", released)


async def visit(connect: Callable[..., Any], where: dict[str, Any], place: int, asked: str) -> dict[str, Any]:
    async with connect(where, asked) as client:
        session = Session(client, where["project"], "ABCDEFGHIJ"[place])
        await session.everything()
        need(asked in ("auto", client.protocol), f"{asked} is spoken", client.protocol)
        return {"asked": asked, "protocol": client.protocol, "did": session.did, "thread": session.thread}


async def turned_away(connect: Callable[..., Any], where: dict[str, Any], asked: str) -> dict[str, Any]:
    """With a wrong token, nothing works."""
    try:
        async with asyncio.timeout(PATIENCE), connect(where, asked) as client:
            await client.tools()
    except TimeoutError:
        raise
    except BaseException as error:  # what a library raises is its own affair; some raise groups
        if isinstance(error, KeyboardInterrupt | asyncio.CancelledError):
            raise
        return {"asked": asked, "refused": described(error)}
    raise AssertionError("a wrong token was let in")


def described(error: BaseException) -> str:
    inner = getattr(error, "exceptions", None)
    return "; ".join(map(described, inner)) if inner else f"{type(error).__name__}: {error}"


def main(name: str, connect: Callable[..., Any]) -> None:
    where = json.loads(sys.argv[1])

    async def run() -> None:
        for place, asked in enumerate(where["protocols"]):
            try:
                if where.get("refused"):
                    line = await turned_away(connect, where, asked)
                else:
                    line = await visit(connect, where, place, asked)
            except BaseException as error:
                error.add_note(f"{name} with {asked}: {described(error)}")
                raise
            print(json.dumps({"client": name, **line}), flush=True)

    asyncio.run(run())


@contextlib.contextmanager
def replaced(place: Any, name: str, value: Any) -> Any:
    """A constant of a library with another value: the version that it offers is not to be chosen otherwise."""
    before = getattr(place, name)
    setattr(place, name, value)
    try:
        yield
    finally:
        setattr(place, name, before)
