"""The exact argv and environment of `command()`, run on the real opencode and the real claude, unmodified.

What they print is read back by the same watch and read that judge every run. The server is scripted, the homes are
empty, and nothing leaves the machine.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dispatcher.harness.base import SignalKind
from dispatcher.task import EndReason, HoldScope, ModelEvidence, OutcomeClass, Tools

from ..clis import Cli
from .real import INSTRUCTIONS, MODEL, PROMPT, SERVED, Bench, end_marked

pytestmark = pytest.mark.real_cli

FREE_LIMIT = {
    "type": "error",
    "error": {"type": "FreeUsageLimitError", "message": "Rate limit exceeded. Please try again later."},
    "metadata": {},
}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(params=["opencode", "claude"])
def bench(request: pytest.FixtureRequest, tmp_path: Path, home: Path) -> Iterator[Bench]:
    yield from _bench(request.param, tmp_path, home)


@pytest.fixture
def opencode(tmp_path: Path, home: Path) -> Iterator[Bench]:
    yield from _bench("opencode", tmp_path, home)


def _bench(cli: Cli, root: Path, home: Path) -> Iterator[Bench]:
    bench = Bench(cli, root, home)
    bench.server.start()
    try:
        yield bench
    finally:
        bench.close()


def web(bench: Bench) -> dict[str, Any]:
    if bench.cli == "opencode":
        return {"tool": {"name": "webfetch", "input": {"url": "http://127.0.0.1:9/", "format": "text"}}}
    return {"tool": {"name": "WebFetch", "input": {"url": "http://127.0.0.1:9/", "prompt": "x"}}}


def test_the_ordinary_work_runs_and_what_would_ask_is_refused_to_the_model(bench: Bench) -> None:
    outside = bench.outside
    bench.script(
        {"text": "I begin.", "write": {"path": "new.txt", "content": "one\n"}},
        {"edit": {"path": "a.txt", "old": "hello", "new": "bye"}},
        {"shell": "echo note > $TMPDIR/note.txt && git add new.txt a.txt && git commit -qm 'add new'"},
        {"write": {"path": str(bench.tmp / "scratch.txt"), "content": "mine\n"}},
        {"read": {"path": str(outside / "o.txt")}},
        {"write": {"path": str(outside / "planted.txt"), "content": "no\n"}},
        {"read": {"path": ".env"}},
        web(bench),
        {"shell": "git log -1 --format=%s"},
        {"text": "All done."},
    )
    outcome = bench.start().outcome()
    assert (outcome.kind, outcome.positive, outcome.final_text) == (OutcomeClass.COMPLETED, True, "All done.")
    assert (outcome.observed_model, outcome.model_evidence) == (MODEL[bench.cli], ModelEvidence.CONFIRMED)
    assert outcome.tool_calls == 9
    assert (outcome.usage.input or 0) >= 12_000
    assert outcome.usage.cost_usd is not None
    assert bench.git("log", "--format=%s").split("\n")[0] == "add new"
    assert sorted(path.name for path in outside.iterdir()) == ["o.txt"]
    assert (bench.tmp / "note.txt").read_text() == "note\n"
    assert (bench.tmp / "scratch.txt").read_text() == "mine\n"
    *_, read_outside, write_outside, secret, network, still_works = bench.tool_results()
    for refused in (read_outside, write_outside, secret):
        assert "prevents you from using" in refused or "denied" in refused
    assert "unavailable tool" in network or "No such tool available" in network
    assert "add new" in still_works
    assert "swordfish" not in "".join(bench.tool_results())
    assert len(outcome.denials) == 3
    main = [request for request in bench.server.requests if request.main]
    assert {request.model for request in bench.server.requests if request.protocol} == {SERVED[bench.cli]}
    assert all(INSTRUCTIONS in request.text and PROMPT.split("\n")[0] in request.text for request in main)
    assert all("written by the repository itself" not in request.text for request in main)


def test_read_withholds_everything_that_writes(bench: Bench) -> None:
    bench.script({"read": {"path": "a.txt"}}, {"write": {"path": "x.txt", "content": "x"}}, {"text": "The report."})
    outcome = bench.start(Tools.READ).outcome()
    assert (outcome.kind, outcome.final_text) == (OutcomeClass.COMPLETED, "The report.")
    offered = {tool.lower() for request in bench.server.requests if request.main for tool in request.tools}
    assert {"read", "glob", "grep"} <= offered
    assert not offered & {"write", "edit", "bash", "patch", "notebookedit", "task", "webfetch", "websearch"}
    assert bench.git("status", "--porcelain") == ""


def test_full_adds_the_network_and_asks_nothing(bench: Bench) -> None:
    bench.script(
        {"read": {"path": str(bench.outside / "o.txt")}},
        {"write": {"path": str(bench.outside / "w.txt"), "content": "yes\n"}},
        {"text": "Done."},
    )
    outcome = bench.start(Tools.FULL).outcome()
    assert (outcome.kind, outcome.denials) == (OutcomeClass.COMPLETED, ())
    assert (bench.outside / "w.txt").read_text() == "yes\n"
    assert "webfetch" in {tool.lower() for request in bench.server.requests for tool in request.tools}


def test_a_bad_request_after_work_and_the_same_session_again(bench: Bench) -> None:
    bench.script(
        {"write": {"path": "new.txt", "content": "one\n"}},
        {"error": {"status": 400, "message": "odd bad request"}, "repeat": True},
    )
    first = bench.start().outcome()
    assert (first.kind, first.positive) == (OutcomeClass.UNKNOWN, False)
    assert "odd bad request" in first.reason
    assert first.session_id is not None
    bench.script({"shell": "git add new.txt && git commit -qm finished"}, {"text": "Finished."})
    second = bench.start(resume=first.session_id, prompt="Headless run. Prompt: finish.\n\nFinish it.").outcome()
    assert (second.kind, second.session_id) == (OutcomeClass.COMPLETED, first.session_id)
    last = bench.server.requests[-1].text
    assert "Do what the brief says." in last
    assert "Prompt: finish." in last
    assert bench.git("log", "-1", "--format=%s").strip() == "finished"


def test_a_session_that_does_not_exist(bench: Bench) -> None:
    missing = "ses_dd8af2486ffeoK8bx56FF7KW6k" if bench.cli == "opencode" else "0a2fa7ab-0ace-4a59-8c87-d96a1d592772"
    outcome = bench.start(resume=missing).outcome()
    assert outcome.session_gone
    assert not bench.server.requests


def test_a_429_without_a_header_is_seen_while_the_cli_sleeps(bench: Bench) -> None:
    bench.script({"error": {"status": 429, "message": "Rate limit exceeded."}, "repeat": True})
    run = bench.start()
    signal = run.wait_for(SignalKind.RETRY)
    assert (signal.outcome, signal.wait) == (OutcomeClass.RATE_LIMITED, None)
    assert signal.hold is not None
    assert run.watch.detection == ("plugin" if bench.cli == "opencode" else "stream")
    end_marked(run.marker)
    outcome = run.outcome(EndReason.QUOTA, kind=signal.outcome, hold=signal.hold)
    assert (outcome.kind, outcome.hold) == (OutcomeClass.RATE_LIMITED, signal.hold)
    killed = run.outcome()
    assert killed.kind is OutcomeClass.RATE_LIMITED  # without the supervisor's word the files still say so


@pytest.mark.parametrize("seconds", [5, 3600])
def test_a_stated_wait(bench: Bench, seconds: int) -> None:
    bench.script(
        {"error": {"status": 429, "message": "Slow down.", "headers": {"retry-after": str(seconds)}}}, {"text": "ok"}
    )
    run = bench.start()
    if bench.cli == "claude" and seconds == 3600:
        assert run.outcome().kind is OutcomeClass.RATE_LIMITED  # it gives up at once and does not say for how long
        return
    signal = run.wait_for(SignalKind.RETRY)
    assert signal.wait == pytest.approx(seconds, abs=2)
    assert signal.hold is not None
    assert signal.hold.until == pytest.approx(time.time() + seconds, abs=10)
    end_marked(run.marker)


def test_the_free_allowance_is_held_to_its_reset(opencode: Bench) -> None:
    opencode.script({"error": {"status": 429, "body": FREE_LIMIT, "headers": {"retry-after": "7200"}}, "repeat": True})
    run = opencode.start()
    signal = run.wait_for(SignalKind.RETRY)
    assert signal.outcome is OutcomeClass.QUOTA_EXHAUSTED
    assert signal.hold is not None
    assert (signal.hold.scope, signal.hold.window) == (HoldScope.MODEL, "day")
    assert signal.hold.until == pytest.approx(time.time() + 7200, abs=10)
    end_marked(run.marker)


@pytest.mark.parametrize(
    "steps",
    [
        [{"error": {"status": 400, "message": "This model's maximum context length is 100000 tokens"}, "repeat": True}],
        [{"write": {"path": "b.txt", "content": "x"}}, {"text": "half", "finish": False, "repeat": True}],
    ],
    ids=["overflow", "no-finish"],
)
def test_the_endless_loops_are_seen_within_40_requests(opencode: Bench, steps: list[dict[str, Any]]) -> None:
    opencode.script(*steps)
    run = opencode.start()
    signal = run.wait_for(SignalKind.RUNAWAY)
    assert signal.text
    assert len(opencode.server.requests) <= 40
    end_marked(run.marker)


def test_an_unknown_model(bench: Bench) -> None:
    outcome = bench.start().outcome()  # the server knows no script for it and answers 404
    assert outcome.kind is OutcomeClass.MODEL_NOT_FOUND
    assert outcome.hold is not None
    assert (outcome.hold.scope, outcome.hold.until) == (HoldScope.MODEL, None)


def test_a_bad_key(bench: Bench) -> None:
    bench.script({"error": {"status": 401, "message": "Invalid API key"}, "repeat": True})
    outcome = bench.start().outcome()
    assert outcome.kind is OutcomeClass.AUTH


def test_settings_of_an_untrusted_repository_are_not_used(bench: Bench) -> None:
    bench.write(
        "opencode.json", '{"permission": {"bash": "deny"}, "agent": {"build": {"permission": {"bash": "deny"}}}}'
    )
    bench.write(".claude/settings.json", '{"permissions": {"deny": ["Bash"]}, "disableAllHooks": true}')
    bench.write(".mcp.json", '{"mcpServers": {"planted": {"command": "touch", "args": ["planted.txt"]}}}')
    bench.script({"shell": "echo ran > ran.txt"}, {"text": "Done."})
    assert bench.start().outcome().positive
    assert (bench.copy / "ran.txt").exists()
    assert not (bench.copy / "planted.txt").exists()


def test_a_prompt_of_300_kilobytes_with_hostile_beginnings(bench: Bench) -> None:
    prompt = PROMPT + "\n--- -x /clear\n" + "word " * 60_000 + "THE-END"
    bench.script({"text": "Read."})
    assert bench.start(prompt=prompt).outcome().positive
    assert "THE-END" in bench.server.requests[-1].text
