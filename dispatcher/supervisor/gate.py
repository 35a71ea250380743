"""The gate of one worker: every tool call is asked here before it runs, over a socket that the worker can reach.

The worker sends a call and gets allow, deny or defer; it can give no answer. Those come from outside: in attempt.json
when the attempt starts, and as lines of `<number>.answers` in a folder that no sandbox shows to a worker. There lie
also `<number>.asked`, what waits for a person, and `<approval>.used`, made before a call is let through and never
twice: whatever is killed and started again, an approval lets one call through once.
"""

from __future__ import annotations

import os
import socket
import time
from collections import Counter
from typing import Any

from dispatcher import policy
from dispatcher.policy import Call, Do
from dispatcher.supervisor import attempt_files as files
from dispatcher.supervisor import plain_json
from dispatcher.supervisor.follow import Follower

LONGEST = 16 * 1024 * 1024  # bytes of one request
WAITS = "another call waits for a person; ask again after it"
SUB_AGENT = "a sub-agent cannot wait for a person: let the main conversation make this call"
OUTSIDE = "this is outside of the folders that you may use"
CHANGED = "this is not the call that was asked about, or the gate was not asked: it may not run"


class Client:
    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.received = b""


class Waiting:
    """The one call that waits. `client` None: it was deferred, and the worker ends."""

    def __init__(self, digest: str, words: str, client: Client | None, parked_at: float) -> None:
        self.digest = digest
        self.words = words
        self.client = client
        self.parked_at = parked_at


class Gate:
    """`plan` is `gate` of attempt.json: rules, grants, answers, folder, number, park_after, inside."""

    def __init__(self, plan: dict[str, Any], folder: str, cwd: str) -> None:
        self.plan = plan
        self.cwd = cwd
        self.folder = str(plan["folder"])
        self.rules = tuple(policy.from_plain(rule) for rule in plan["rules"])
        self.grants = frozenset(plan["grants"])
        self.answers: dict[str, dict[str, Any]] = {answer["digest"]: answer for answer in plan["answers"]}
        self.waiting: Waiting | None = None
        self.session: str | None = None
        self.proved = False  # the worker's hook has called: it is active
        self.opened: Counter[str] = Counter()  # digests of calls that were let through and did not run yet
        self.clients: dict[int, Client] = {}
        self.incoming = Follower(f"{self.folder}/{plan['number']}.answers")
        self.listening = _listen(folder)

    # --- the worker's side ---

    def fds(self) -> list[int]:
        return [self.listening.fileno(), *self.clients]

    def serve(self) -> None:
        """Take what has arrived. Never waits."""
        while True:
            try:
                connection, _ = self.listening.accept()
            except OSError:
                break
            connection.setblocking(False)
            self.clients[connection.fileno()] = Client(connection)
        for number, client in list(self.clients.items()):
            if not self._receive(client):
                self._drop(number)

    def _receive(self, client: Client) -> bool:
        """False when the connection is over."""
        while True:
            try:
                data = client.connection.recv(65536)
            except BlockingIOError:
                return True
            except OSError:
                return False
            if not data:
                return False
            client.received += data
            line, end, rest = client.received.partition(b"\n")
            if end:
                client.received = rest
                self._request(client, line)
            elif len(line) > LONGEST:
                return False

    def _drop(self, number: int) -> None:
        client = self.clients.pop(number)
        client.connection.close()
        if self.waiting is not None and self.waiting.client is client:
            self.waiting = None  # the call was given up; the question stays for whoever answers it

    def _request(self, client: Client, line: bytes) -> None:
        try:
            request = plain_json.loads(line.decode())
            if request.get("ready") is True:
                self.proved = True
                _send(client, "none", "")
                return
            call = Call(
                str(request["tool"]),
                dict(request["input"]),
                str(request.get("cwd") or self.cwd),
                str(request.get("agent") or ""),
            )
        except (ValueError, KeyError, TypeError, AttributeError):
            _send(client, "deny", "the gate did not understand the call")
            return
        try:
            confirms = request.get("mode") == "confirm"
            answer = self._confirm(call) if confirms else self._decide(call, request, client)
        except Exception as error:  # a fault of ours must not open anything
            answer = ("deny", f"the gate failed: {type(error).__name__}: {error}")
        if answer is not None:
            if answer[0] == "allow" and request.get("mode") == "defer":
                self.opened[policy.digest(call)] += 1
            _send(client, *answer)

    def _confirm(self, call: Call) -> tuple[str, str]:
        """A call as it is about to run: one that was let through, or that the rules allow. Never asks."""
        digest = policy.digest(call)
        if self.opened[digest] > 0:
            self.opened[digest] -= 1
            return "allow", ""
        found = policy.decide(call, self.rules)
        if found.do is not Do.ALLOW:
            return "deny", CHANGED
        return ("allow", "") if self._open(call)[0] == "allow" else ("deny", OUTSIDE)

    def _decide(self, call: Call, request: dict[str, Any], client: Client) -> tuple[str, str] | None:
        """(answer, reason), or None while the call is held."""
        found = policy.decide(call, self.rules)
        if found.do is Do.DENY:
            return "deny", _structured("denied", found.reason, by="policy")
        if found.do is Do.ALLOW:
            return self._open(call)
        if call.agent:
            return "deny", SUB_AGENT
        digest = policy.digest(call)
        if (known := self._answered(digest)) is not None:
            return known
        if found.rule.remember and policy.digest(call, anywhere=True) in self.grants:
            return "allow", ""
        if self.waiting is not None:
            return "deny", WAITS
        self._ask(call, request, digest, found)
        hold = request.get("mode") == "hold"
        parked_at = time.monotonic() + float(self.plan["park_after"]) if hold else float("inf")
        self.waiting = Waiting(digest, f"{call.tool}: {found.reason}", client if hold else None, parked_at)
        return None if hold else ("defer", "")

    def _open(self, call: Call) -> tuple[str, str]:
        """Allowed by the rules. File tools work in the worker's folders; what it may read is left to the CLI."""
        kind = policy.kind_of(call.tool)
        if self.plan["inside"] is None or kind not in ("read", "edit"):
            return "allow", ""
        if kind == "read":
            return "none", ""
        roots = [os.path.realpath(root) for root in self.plan["inside"]]
        paths = [os.path.realpath(os.path.join(call.folder, path)) for path in policy.parts(call)[0].writes]
        if paths and all(policy.inside(path, roots, call.folder) for path in paths):
            return "allow", ""
        return "deny", OUTSIDE

    def _answered(self, digest: str) -> tuple[str, str] | None:
        """The answer of a person to exactly this call. An approval that was used up is none."""
        answer = self.answers.get(digest)
        if answer is None:
            return None
        if answer["do"] == "deny":
            return "deny", _structured("denied", answer["reason"], by=answer["by"], approval=answer["id"])
        return ("allow", "") if self._claim(int(answer["id"])) else None

    def _claim(self, approval: int) -> bool:
        """Use up an approval, on disk before the call runs."""
        try:
            fd = os.open(f"{self.folder}/{approval}.used", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            return False
        try:
            os.write(fd, f"{time.time():.3f}\n".encode())
            os.fsync(fd)
        finally:
            os.close(fd)
        _sync_folder(self.folder)
        return True

    def _ask(self, call: Call, request: dict[str, Any], digest: str, found: policy.Decision) -> None:
        """On disk before the worker is told, so that the question outlives everything."""
        record = {
            "at": time.time(),
            "tool": call.tool,
            "input": dict(call.input),
            "folder": call.folder,
            "digest": digest,
            "call": request.get("call"),
            "session": self.session or request.get("session"),
            "transcript": request.get("transcript"),
            "rule": found.rule.name,
            "reason": found.reason,
            "remember": found.rule.remember,
        }
        fd = os.open(f"{self.folder}/{self.plan['number']}.asked", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.write(fd, plain_json.dumps(record).encode() + b"\n")
            os.fsync(fd)
        finally:
            os.close(fd)
        _sync_folder(self.folder)

    # --- the person's side ---

    def tick(self) -> str | None:
        """Read answers. The words of a call that has waited long enough to be parked, else None."""
        for line in self.incoming.lines(LONGEST):
            try:
                answer = plain_json.loads(line.decode())
                self.answers[answer["digest"]] = answer
            except (ValueError, KeyError, TypeError):
                continue
        waiting = self.waiting
        if waiting is None or waiting.client is None:
            return None
        known = self._answered(waiting.digest)
        if known is not None:
            self.waiting = None
            _send(waiting.client, *known)
            return None
        return waiting.words if time.monotonic() >= waiting.parked_at else None

    @property
    def holds(self) -> bool:
        return self.waiting is not None and self.waiting.client is not None

    def close(self) -> None:
        for number in list(self.clients):
            self._drop(number)
        self.listening.close()


def _structured(decision: str, reason: str, **more: object) -> str:
    """What the model reads: an answer with its fields, and what to do with it."""
    advice = "do not try it in another way; go on with the rest, and say at the end what was left out"
    return plain_json.dumps({"decision": decision, "reason": reason, **more, "advice": advice})


def _send(client: Client, do: str, reason: str) -> None:
    try:
        client.connection.sendall(plain_json.dumps({"do": do, "reason": reason}).encode() + b"\n")
    except OSError:
        return


def _listen(folder: str) -> socket.socket:
    """The socket in the attempt folder, bound from there: an address may be no longer than 107 bytes."""
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.getcwd()
    os.chdir(folder)
    try:
        listening.bind(files.GATE)
    finally:
        os.chdir(before)
    os.chmod(f"{folder}/{files.GATE}", 0o600)
    listening.listen(16)
    listening.setblocking(False)
    return listening


def _sync_folder(path: str) -> None:
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
