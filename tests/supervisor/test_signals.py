"""What the supervisor does while the worker still runs: small programs that print what the real CLIs printed."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import pytest

from dispatcher import harness
from dispatcher.harness.base import Signal, SignalKind
from dispatcher.supervisor import client
from dispatcher.supervisor.clocks import Clocks
from dispatcher.supervisor.listener import Listener
from dispatcher.task import EndReason, HoldScope, OutcomeClass
from tests.supervisor.support import PYTHON, Attempt, until
from tests.supervisor.test_crash import kill_dispatcher, start_dispatcher

CAPTURES = Path(__file__).parents[1] / "captures"
OPENCODE = {"harness": "opencode", "model": "fake/m1", "grace": 0.3}
CLAUDE = {"harness": "claude", "model": "claude-sonnet-4-5", "billing": "subscription", "grace": 0.3}


def bridge(*records: dict[str, object]) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


def retry(seconds: float, message: str) -> dict[str, object]:
    """As the plugin reports opencode 1.18's session.status; both times in epoch milliseconds."""
    now = time.time() * 1000
    return {"type": "retry", "attempt": 1, "message": message, "at": now, "next": now + seconds * 1000}


def prints(attempt: Attempt, **texts: str) -> None:
    """Files of what the worker will append to its output and to the bridge."""
    for name, text in texts.items():
        (attempt.folder / f"{name}.in").write_text(text)


SAY = "cat $F/stdout.in; cat $F/stderr.in >&2; cat $F/bridge.in >> $F/bridge.jsonl; "


def test_a_quota_seen_by_the_plugin(attempt: Attempt) -> None:
    """Free limit, an hour away: the worker sleeps on it, the supervisor does not."""
    prints(attempt, stdout="", stderr="", bridge=bridge({"type": "started"}, retry(3600, "Free usage exceeded")))
    record = attempt.run(SAY + "exec sleep 1000", **OPENCODE, others_free=True)
    assert (record.reason, record.kind) == (EndReason.QUOTA, OutcomeClass.QUOTA_EXHAUSTED)
    assert (record.detection, record.timed_out, record.survivors) == ("plugin", False, 0)
    assert record.hold is not None
    assert record.hold.until is not None
    assert record.hold.until - record.started_at == pytest.approx(3600, abs=30)
    assert "Free usage exceeded" in record.proof


def test_a_quota_seen_in_the_log_alone(attempt: Attempt) -> None:
    log = (CAPTURES / "opencode" / "429errlog.stderr").read_text()
    prints(attempt, stdout="", stderr=log, bridge="")
    record = attempt.run(SAY + "exec sleep 1000", **OPENCODE, others_free=True, detection="log")
    assert (record.reason, record.detection, record.observed_model) == (EndReason.QUOTA, "log", "fake/m1")
    assert "free-models-per-day" in record.proof


def test_a_short_stated_wait_is_left_to_the_harness(attempt: Attempt) -> None:
    prints(attempt, stdout="", stderr="", bridge=bridge({"type": "started"}, retry(4.5, "Rate limit exceeded")))
    record = attempt.run(SAY + "sleep 1; exit 0", **OPENCODE, others_free=True)
    assert (record.reason, record.exit_code, record.hold) == (EndReason.EXITED, 0, None)


def test_the_supervisor_alone_sees_the_limit(attempt: Attempt) -> None:
    """The dispatcher is killed first, then the limit comes: exit.json carries class and reset."""
    prints(attempt, stdout="", stderr="", bridge=bridge({"type": "started"}, retry(3600, "Free usage exceeded")))
    attempt.write("echo up > $F/ready; until [ -e $F/go ]; do sleep 0.02; done;" + SAY + "exec sleep 1000", **OPENCODE)
    dispatcher, _ = start_dispatcher(attempt)
    attempt.ready()
    kill_dispatcher(dispatcher)
    (attempt.folder / "go").touch()
    record = anyio.run(client.wait, attempt.folder, None)
    assert record is not None
    assert (record.reason, record.kind) == (EndReason.QUOTA, OutcomeClass.QUOTA_EXHAUSTED)
    assert record.hold is not None
    assert record.hold.until is not None
    assert attempt.alive() == []


def test_a_result_and_then_no_exit(attempt: Attempt) -> None:
    """The success is not lost: it is no time-out and no class of failure."""
    prints(attempt, stdout=(CAPTURES / "claude" / "ok-stream.stdout").read_text(), stderr="", bridge="")
    record = attempt.run(SAY + "exec sleep 1000", **{**CLAUDE, "billing": "metered"})
    assert (record.reason, record.kind, record.timed_out) == (EndReason.FINISHED, None, False)
    assert record.observed_model == "claude-sonnet-4-5"
    assert record.session_id
    assert record.survivors == 0


def test_a_deferred_call_ends_as_an_approval(attempt: Attempt) -> None:
    prints(attempt, stdout=(CAPTURES / "claude" / "df-1.stdout").read_text(), stderr="", bridge="")
    record = attempt.run(SAY + "exec sleep 1000", **{**CLAUDE, "billing": "metered"})
    assert (record.reason, record.kind) == (EndReason.APPROVAL, OutcomeClass.AWAITING_APPROVAL)


def test_money_that_the_credential_does_not_allow(attempt: Attempt) -> None:
    prints(attempt, stdout=(CAPTURES / "claude" / "rl-oa-200over.stdout").read_text(), stderr="", bridge="")
    record = attempt.run(SAY + "exec sleep 1000", **CLAUDE)
    assert (record.reason, record.kind) == (EndReason.MISMATCH, OutcomeClass.BILLING_MISMATCH)
    assert record.hold is not None
    assert (record.hold.scope, record.hold.until) == (HoldScope.CREDENTIAL, None)


def test_a_question_that_nobody_answers(attempt: Attempt) -> None:
    prints(attempt, stdout="", stderr=(CAPTURES / "opencode" / "ask.stderr").read_text(), bridge="")
    record = attempt.run(SAY + "exec sleep 1000", **OPENCODE)
    assert (record.reason, record.kind) == (EndReason.PERMISSION, OutcomeClass.PERMISSION_DENIED)


def test_an_endless_loop(attempt: Attempt) -> None:
    """opencode's overflow and compaction, without end and never silent."""
    prints(attempt, stdout=(CAPTURES / "opencode" / "400ctx.stdout").read_text(), stderr="", bridge="")
    record = attempt.run("while :; do cat $F/stdout.in; sleep 0.1; done", **OPENCODE)
    assert (record.reason, record.kind, record.timed_out) == (EndReason.RUNAWAY, OutcomeClass.RUNAWAY, False)
    assert record.proof


def test_huge_and_broken_lines_disturb_nothing(attempt: Attempt) -> None:
    """A line of 8 MiB, bytes that are not UTF-8, NULs, and a last line without its end; then the limit is seen."""
    script = """
import os, sys, time
os.write(1, b'{"type":"text","part":{"text":"' + b"x" * (8 << 20) + b'"}}\\n')
os.write(1, b'{"type":"te\\xff\\x94xt"}\\n\\x00\\x00\\n' + "🦊".encode()[:2])
os.write(2, open(sys.argv[1], "rb").read())
time.sleep(1000)
"""
    log = str(CAPTURES / "opencode" / "429errlog.stderr")
    record = attempt.run((PYTHON, "-c", script, log, attempt.token), **OPENCODE, others_free=True)
    assert record.reason is EndReason.QUOTA
    assert (attempt.folder / "stdout").stat().st_size > 8 << 20


def test_an_unknown_harness_costs_the_detection_only(attempt: Attempt) -> None:
    record = attempt.run("sleep 1; exit 3", harness="of-tomorrow", model="x/y")
    assert (record.reason, record.exit_code) == (EndReason.EXITED, 3)
    assert any("live detection is off" in note for note in record.notes)


def test_silence_on_an_open_call_that_works(attempt: Attempt) -> None:
    """The tool uses CPU, says nothing, and takes longer than the stall limit; then it sleeps and is not spared."""
    busy = "import time; end = time.monotonic() + 3\nwhile time.monotonic() < end: pass"
    attempt.write(
        'echo \'{"type": "tool_started", "call": "c1"}\' >> $F/bridge.jsonl; sleep 0.5;'
        f"{PYTHON} -c '{busy}' $TOKEN; echo done > $F/ready; exec sleep 1000",
        **OPENCODE,
        stall=1.2,
    )
    attempt.launch()
    attempt.ready()
    record = attempt.wait()
    assert record.reason is EndReason.STALLED
    assert record.active_seconds > 3


BEATS = """
import json, subprocess, sys, time
call = {"id": "m", "content": [{"type": "tool_use", "id": "toolu_1", "name": "Bash"}]}
print(json.dumps({"type": "assistant", "message": call}, separators=(",", ":")), flush=True)
subprocess.Popen(["sleep", "1000", *sys.argv[1:]], start_new_session=True)
while True:
    print('{"type":"tool_progress","tool_use_id":"toolu_1","heartbeat":true}', flush=True)
    time.sleep(0.2)
"""


def test_heartbeats_of_a_hung_call_do_not_keep_it_alive(attempt: Attempt) -> None:
    """claude beats for ever while its Bash hangs: CPU and writes of the tool decide, and there are none."""
    (attempt.folder / "beats.py").write_text(BEATS)
    record = attempt.run(f"exec {PYTHON} -I -S $F/beats.py $TOKEN", **CLAUDE, stall=2.0, hard_cap=30.0)
    assert (record.reason, record.survivors) == (EndReason.STALLED, 0)


# --- the listener by itself ---------------------------------------------------------------------------------------


class Script:
    """A translator that answers each line with the signals named in it, and skims over lines of dots."""

    def skim(self, channel: str, block: bytes, start: int, end: int, now: float) -> tuple[int, Sequence[Signal]]:
        if block.startswith(b"broken", start):
            raise RuntimeError("not understood")
        begun = start
        while start < end and block.startswith(b"...\n", start):
            start += 4
        return start, [Signal(SignalKind.PROGRESS, now)] if start > begun else []

    def feed(self, channel: str, line: bytes, now: float) -> Sequence[Signal]:
        if line == b"boom":
            raise RuntimeError("not understood")
        return [Signal(SignalKind(word), now, "text") for word in line.decode().split()]


def listener(monkeypatch: pytest.MonkeyPatch, **fields: Any) -> tuple[Listener, Clocks]:
    monkeypatch.setattr(harness, "get", lambda name, zone: SimpleNamespace(watch=lambda *_, **__: Script()))
    wants = {
        "harness": "x",
        "model": "m",
        "billing": "free",
        "gate_required": False,
        "detection": "stream",
        "overage": False,
    }
    spec: Any = SimpleNamespace(**{**wants, "others_free": True, "switch_after": 5.0, **fields})
    clocks = Clocks(start=20, stall=60, hard_cap=300, grace=10, mono=0, wall=0, plain=False)
    return Listener(spec, []), clocks


def test_a_tool_before_the_gate_is_proved(monkeypatch: pytest.MonkeyPatch) -> None:
    ear, clocks = listener(monkeypatch, gate_required=True)
    assert ear.feed("stdout", b"session progress", 0, clocks) is None
    reason = ear.feed("stdout", b"tool_started", 0, clocks)
    assert reason is not None
    assert reason.reason == EndReason.GATE


def test_a_tool_after_the_gate_is_proved(monkeypatch: pytest.MonkeyPatch) -> None:
    ear, clocks = listener(monkeypatch, gate_required=True)
    assert ear.feed("bridge.jsonl", b"started gate_ready tool_started", 0, clocks) is None
    assert (ear.detection, clocks.tool_open) == ("plugin", True)


def test_a_translator_that_fails_on_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    ear, clocks = listener(monkeypatch)
    for _ in range(100):
        assert ear.feed("stdout", b"boom", 0, clocks) is None
    ear.feed("stdout", b"model", 0, clocks)
    assert ear.model == "text"
    assert 0 < len(ear.notes) <= 20


def test_a_block_is_skimmed_and_read_where_it_must_be(monkeypatch: pytest.MonkeyPatch) -> None:
    ear, clocks = listener(monkeypatch, gate_required=True)
    block = b"...\nsession\n...\n...\nboom\ntool_started\nmodel\n... of a line that is still being written"
    reason = ear.feed_block("stdout", block, block.rindex(b"\n") + 1, 0, clocks)
    assert reason is not None
    assert reason.reason == EndReason.GATE
    assert (ear.session, ear.model, len(ear.notes)) == ("text", "text", 1)


def test_a_translator_that_cannot_skim_is_given_line_by_line(monkeypatch: pytest.MonkeyPatch) -> None:
    ear, clocks = listener(monkeypatch)
    block = b"broken\nsession\nbroken\nmodel\n"
    assert ear.feed_block("stdout", block, len(block), 0, clocks) is None
    assert (ear.session, ear.model) == ("text", "text")
    assert len(ear.notes) == 3  # that it cannot, and two lines that mean nothing


def test_the_first_reason_of_a_line_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    ear, clocks = listener(monkeypatch)
    reason = ear.feed("stdout", b"runaway quota", 0, clocks)
    assert reason is not None
    assert reason.reason == EndReason.RUNAWAY


def test_cancel_wins_over_what_comes_after_it(attempt: Attempt) -> None:
    prints(attempt, stdout="", stderr="", bridge=bridge(retry(3600, "Free usage exceeded")))
    attempt.write(f"trap '{SAY}' TERM; echo up > $F/ready; while :; do sleep 0.05; done", **{**OPENCODE, "grace": 1.0})
    attempt.launch()
    attempt.ready()
    until(lambda: (attempt.folder / "attempt.lock").read_text() != "")
    client.send(attempt.folder, {"do": "cancel", "by": "ada"})
    record = attempt.wait()
    assert (record.reason, record.hold) == (EndReason.CANCELLED, None)
