"""The gate: what a worker is told, what it can never do, and that an approval is used up once."""

from __future__ import annotations

import json
import select
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dispatcher import approving, policy
from dispatcher.policy import Call
from dispatcher.supervisor.gate import CHANGED, OUTSIDE, SUB_AGENT, WAITS, Gate

PUSH = {"command": "git push"}


class Worker:
    """The worker's side of one gate, without a supervisor around it."""

    def __init__(self, tmp: Path, **plan: Any) -> None:
        self.folder = tmp / "1"
        self.folder.mkdir(exist_ok=True)
        self.approvals = tmp / "approvals"
        self.approvals.mkdir(exist_ok=True)
        self.plan = {
            "folder": str(self.approvals),
            "number": 1,
            "rules": [policy.to_plain(rule) for rule in policy.rules([], [])],
            "grants": [],
            "answers": [],
            "park_after": 600.0,
            "inside": ["/copy"],
            **plan,
        }
        (self.folder / "gate.sock").unlink(missing_ok=True)
        self.gate = Gate(self.plan, str(self.folder), "/copy")

    def send(self, tool: str = "bash", given: dict[str, Any] | None = None, **more: Any) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.connect(str(self.folder / "gate.sock"))
        request = {"tool": tool, "input": PUSH if given is None else given, "mode": "defer", **more}
        connection.sendall(json.dumps(request).encode() + b"\n")
        self.gate.serve()
        self.gate.serve()
        return connection

    def ask(self, *words: Any, **more: Any) -> dict[str, str]:
        with self.send(*words, **more) as connection:
            return reply(connection)

    @property
    def asked(self) -> list[dict[str, Any]]:
        path = self.approvals / "1.asked"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def reply(connection: socket.socket) -> dict[str, str]:
    connection.settimeout(5)
    answer: dict[str, str] = json.loads(connection.makefile().readline())
    return answer


def answer(do: str, given: dict[str, Any] = PUSH, number: int = 7) -> dict[str, Any]:
    digest = policy.digest(Call("bash", given, "/copy"))
    return {"id": number, "digest": digest, "do": do, "reason": "not today", "by": "alice"}


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Worker]:
    made = Worker(tmp_path)
    yield made
    made.gate.close()


def test_harmless_calls_pass_and_sensitive_ones_wait(worker: Worker) -> None:
    assert worker.ask(given={"command": "ls"})["do"] == "allow"
    assert worker.ask()["do"] == "defer"
    assert [asked["input"] for asked in worker.asked] == [PUSH]


def test_a_second_call_is_told_to_ask_again(worker: Worker) -> None:
    worker.ask()
    assert worker.ask(given={"command": "git push --force"}) == {"do": "deny", "reason": WAITS}
    assert len(worker.asked) == 1


def test_a_sub_agent_is_denied(worker: Worker) -> None:
    assert worker.ask(agent="a1") == {"do": "deny", "reason": SUB_AGENT}
    assert worker.asked == []


def test_an_approval_is_used_once_whoever_starts_again(tmp_path: Path) -> None:
    for expected in ("allow", "defer", "defer"):
        worker = Worker(tmp_path, answers=[answer("approve")])
        assert worker.ask()["do"] == expected
        worker.gate.close()


def test_it_lets_exactly_that_call_through(tmp_path: Path) -> None:
    worker = Worker(tmp_path, answers=[answer("approve")])
    assert worker.ask(given={"command": "git push --force"})["do"] == "defer"
    worker.gate.close()
    worker = Worker(tmp_path, answers=[answer("approve")])
    assert worker.ask(cwd="/elsewhere")["do"] == "defer"
    worker.gate.close()


def test_a_denial_is_structured(tmp_path: Path) -> None:
    worker = Worker(tmp_path, answers=[answer("deny")])
    told = worker.ask()
    worker.gate.close()
    assert told["do"] == "deny"
    words = json.loads(told["reason"])
    assert (words["decision"], words["reason"], words["by"], words["approval"]) == ("denied", "not today", "alice", 7)


def test_denied_after_the_approval_was_used(tmp_path: Path) -> None:
    """Approved, used, asked again, denied: the call never runs a second time, in fifty trials."""
    ran = 0
    for trial in range(50):
        folder = tmp_path / str(trial)
        folder.mkdir()
        told = []
        for answers in ([answer("approve")], [answer("approve")], [answer("deny", number=8)]):
            worker = Worker(folder, answers=answers)
            told.append(worker.ask()["do"])
            worker.gate.close()
        assert told == ["allow", "defer", "deny"]
        assert [one["digest"] for one in worker.asked] == [answer("approve")["digest"]], "asked again, once"
        ran += told.count("allow")
    assert ran == 50


def test_a_held_call_gets_the_answer_that_comes_later(worker: Worker) -> None:
    with worker.send(mode="hold") as connection:
        held = worker.gate.holds
        assert held
        assert worker.gate.tick() is None
        with (worker.approvals / "1.answers").open("a") as file:
            file.write(json.dumps(answer("approve")) + "\n")
        assert worker.gate.tick() is None
        assert reply(connection)["do"] == "allow"
    assert not worker.gate.holds
    assert (worker.approvals / "7.used").exists()


def test_a_call_that_is_held_too_long_is_parked(tmp_path: Path) -> None:
    worker = Worker(tmp_path, park_after=0.0)
    with worker.send(mode="hold"):
        assert "git push" in (worker.gate.tick() or "")
    worker.gate.close()


def test_a_grant_lets_the_same_call_through_again_and_nothing_else(tmp_path: Path) -> None:
    grant = policy.digest(Call("bash", PUSH, "/copy"), anywhere=True)
    worker = Worker(tmp_path, grants=[grant])
    assert [worker.ask()["do"], worker.ask()["do"]] == ["allow", "allow"]
    assert worker.ask(given={"command": "git push origin"})["do"] == "defer"
    worker.gate.close()


def test_a_rule_that_is_never_remembered_ignores_grants(tmp_path: Path) -> None:
    rules = policy.rules([({"command": "git push", "remember": "never"}, "x")], [])
    grant = policy.digest(Call("bash", PUSH, "/copy"), anywhere=True)
    worker = Worker(tmp_path, grants=[grant], rules=[policy.to_plain(rule) for rule in rules])
    assert worker.ask()["do"] == "defer"
    worker.gate.close()


def test_file_tools_change_nothing_outside(tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    copy.mkdir()
    (copy / "away").symlink_to("/etc")
    worker = Worker(tmp_path, inside=[str(copy)])
    assert worker.ask("Edit", {"file_path": f"{copy}/a.txt"})["do"] == "allow"
    for path in ("/etc/passwd", f"{copy}/../passwd", f"{copy}/away/passwd"):
        assert worker.ask("Edit", {"file_path": path}) == {"do": "deny", "reason": OUTSIDE}
    assert worker.ask("Read", {"file_path": "/etc/passwd"})["do"] == "none", "what it may read is the CLI's affair"
    worker.gate.close()


def test_what_is_about_to_run_is_what_was_let_through(worker: Worker) -> None:
    """Another hook changed the call, or ours was not asked: what the rules do not allow by themselves is denied."""
    approved = answer("approve")
    worker.gate.answers[approved["digest"]] = approved
    assert worker.ask(mode="confirm") == {"do": "deny", "reason": CHANGED}, "it was not asked about"
    assert worker.ask()["do"] == "allow"
    assert worker.ask(given={"command": "git push --force"}, mode="confirm") == {"do": "deny", "reason": CHANGED}
    assert [worker.ask(mode="confirm")["do"] for _ in range(2)] == ["allow", "deny"]
    assert worker.ask(given={"command": "ls -l"}, mode="confirm")["do"] == "allow"
    assert worker.ask("Read", {"file_path": "/etc/x"}, mode="confirm") == {"do": "deny", "reason": OUTSIDE}
    assert worker.asked == []


def test_an_answer_from_the_worker_is_none(worker: Worker) -> None:
    """Over its socket it can only ask."""
    worker.ask()
    forged = answer("approve")
    for said in (forged, {**forged, "mode": "answer"}, {"answers": [forged], "ready": True}):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.connect(str(worker.folder / "gate.sock"))
            connection.sendall(json.dumps(said).encode() + b"\n")
            worker.gate.serve()
            assert reply(connection)["do"] in ("deny", "none")
    assert worker.ask()["do"] != "allow"
    assert worker.gate.answers == {}
    assert not (worker.approvals / "7.used").exists()


@pytest.mark.parametrize("line", [b"{}\n", b"no json\n", b"[]\n", b'{"tool": "bash", "input": 3}\n'])
def test_what_is_not_understood_is_denied(worker: Worker, line: bytes) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.connect(str(worker.folder / "gate.sock"))
        connection.sendall(line)
        worker.gate.serve()
        assert reply(connection)["do"] == "deny"


@pytest.mark.parametrize("given", [b"{}", b"no json", json.dumps({"tool_name": "Bash", "tool_input": PUSH}).encode()])
def test_claudes_hook_is_closed_without_a_supervisor(tmp_path: Path, given: bytes) -> None:
    done = subprocess.run(
        [*approving.hook(), "ask", str(tmp_path)], input=given, capture_output=True, check=False, env={}
    )
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"the approval gate is closed" in done.stderr


def test_claudes_hook_reports_that_hooks_run(worker: Worker) -> None:
    before = worker.gate.proved
    hook = subprocess.Popen([*approving.hook(), "ready", str(worker.folder)], stdin=subprocess.DEVNULL, env={})
    while hook.poll() is None:
        select.select(worker.gate.fds(), [], [], 0.1)
        worker.gate.serve()
    assert hook.returncode == 0
    assert (before, worker.gate.proved) == (False, True)
    assert json.loads((worker.folder / "bridge.jsonl").read_text())["type"] == "gate_ready"
    assert sys.executable == approving.hook()[0]
