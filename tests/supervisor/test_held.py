"""A worker whose prompt waits for its gate, and one that comes to its end without any."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from dispatcher import approving, policy
from dispatcher.task import EndReason, ExitRecord, OutcomeClass
from tests.supervisor.support import Attempt

CAPTURES = Path(__file__).parents[1] / "captures"
PROMPT = "x" * 300_000 + "\n"  # more than a pipe takes at once


@pytest.fixture
def gated(attempt: Attempt) -> dict[str, Any]:
    """The fields of an attempt with a gate and a prompt that waits for it."""
    (attempt.folder / "prompt.jsonl").write_text(PROMPT)
    folder = attempt.folder / "approvals"
    folder.mkdir()
    plan = {
        "folder": str(folder),
        "number": 1,
        "rules": [policy.to_plain(rule) for rule in policy.rules([], [])],
        "grants": [],
        "answers": [],
        "park_after": 2.0,
        "inside": [],
    }
    stdin = str(attempt.folder / "prompt.jsonl")
    return {"harness": "claude", "stdin": stdin, "gate": plan, "gate_required": True, "held": True}


def report(attempt: Attempt) -> None:
    subprocess.run([*approving.hook(), "ready", str(attempt.folder)], input=b"{}", check=True, env={})


def test_the_prompt_comes_when_the_gate_has_reported_itself(attempt: Attempt, gated: dict[str, Any]) -> None:
    attempt.write("echo > $F/ready; head -c 1 > $F/first; echo > $F/begun; cat > $F/rest", **gated)
    attempt.launch()
    attempt.ready()
    assert attempt.text("first") == ""
    report(attempt)
    record = attempt.wait()
    assert record.reason is EndReason.EXITED, record.detail
    assert attempt.text("first") + attempt.text("rest") == PROMPT


def test_a_gate_that_does_not_report_itself(attempt: Attempt, gated: dict[str, Any]) -> None:
    """Whatever else the worker says meanwhile."""
    record = attempt.run('while :; do echo \'{"type":"system"}\'; sleep 0.1; done', **{**gated, "start": 1.0})
    assert (record.reason, record.kind) == (EndReason.GATE, OutcomeClass.PERMISSION_DENIED)
    assert "the prompt was not given" in record.detail
    assert attempt.alive() == []


def test_a_worker_that_reads_no_prompt(attempt: Attempt, gated: dict[str, Any]) -> None:
    attempt.write("exec <&-; echo > $F/ready; while ! [ -e $F/end ]; do sleep 0.05; done", **gated)
    attempt.launch()
    attempt.ready()
    report(attempt)
    (attempt.folder / "end").touch()
    assert attempt.wait().reason is EndReason.EXITED


def test_a_supervisor_that_dies_leaves_an_empty_input(attempt: Attempt, gated: dict[str, Any]) -> None:
    attempt.write("echo > $F/ready; cat > $F/got; echo > $F/over", **gated)
    process = attempt.launch()
    attempt.ready()
    process.kill()
    process.wait()
    attempt.process = None
    attempt.ready("over")
    assert attempt.text("got") == ""


@pytest.mark.parametrize("name", ["claude", "opencode"])
def test_a_run_that_ended_without_a_gate(attempt: Attempt, gated: dict[str, Any], name: str) -> None:
    """Before anybody looked: its own end proves nothing."""
    capture = "ok-stream" if name == "claude" else "ok"
    said = (CAPTURES / name / f"{capture}.stdout").read_text()
    (attempt.folder / "stdout.in").write_text(said)
    record = attempt.run("cat $F/stdout.in", **{**gated, "harness": name, "held": False})
    assert (record.reason, record.kind) == (EndReason.GATE, OutcomeClass.PERMISSION_DENIED), record.detail


def test_an_error_at_the_start_is_no_matter_of_the_gate(attempt: Attempt, gated: dict[str, Any]) -> None:
    """claude names a session that is gone in a result of its own, before any hook."""
    result = {"type": "result", "subtype": "error_during_execution", "is_error": True, "errors": ["No conversation"]}
    (attempt.folder / "stdout.in").write_text(json.dumps(result) + "\n")
    record = attempt.run("cat $F/stdout.in; exit 1", **{**gated, "held": False})
    assert record.reason is EndReason.EXITED


HOLDS = """
    import json, socket
    connection = socket.socket(socket.AF_UNIX)
    connection.connect("gate.sock")
    call = {"tool": "bash", "input": {"command": "git push"}, "mode": "hold"}
    connection.sendall(json.dumps(call).encode() + b"\\n")
    print(connection.recv(1000))
"""


def test_a_call_that_is_held_is_no_stall_and_costs_no_time(attempt: Attempt, gated: dict[str, Any]) -> None:
    (attempt.folder / "holds.py").write_text(textwrap.dedent(HOLDS))
    fields = {**gated, "harness": "opencode", "gate_required": False, "held": False, "stall": 0.8}
    record: ExitRecord = attempt.run(f"exec {sys.executable} -I -S $F/holds.py", **fields)
    assert (record.reason, record.kind) == (EndReason.APPROVAL, OutcomeClass.AWAITING_APPROVAL), record.detail
    assert "git push" in record.detail
    assert any(note.startswith("waited ") for note in record.notes), record.notes
