"""Limits and loops with the real CLIs: what a supervisor does alone, what ends a loop, what is left in peace."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dispatcher.demo.model_server import ModelServer
from dispatcher.supervisor import spec
from dispatcher.task import EndReason, OutcomeClass
from tests.clis import Cli
from tests.e2e.world import World, marked, real_world, script, scripted_world, until

FREE_LIMIT = {
    "type": "error",
    "error": {"type": "FreeUsageLimitError", "message": "Rate limit exceeded. Please try again later."},
    "metadata": {},
}
WORK = [{"shell": "echo 2 > value.txt && git add -A && git commit -qm 'set the value to 2'"}, {"text": "Done."}]


@pytest.fixture(params=["opencode", "claude"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    cli: Cli = request.param
    with ModelServer() as server:
        yield real_world(tmp_path, cli, server)
    assert marked(str(tmp_path)) == [], "a process was left behind"


@pytest.mark.real_cli
def test_the_supervisor_alone_sees_the_limit(world: World) -> None:
    """The dispatcher is killed, then the 429 comes: the worker is ended, and the record says why and until when."""
    answer: dict[str, Any] = {"status": 429, "message": "Rate limit exceeded"}
    if world.harness == "opencode":
        answer = {"status": 429, "body": FREE_LIMIT, "headers": {"retry-after": "7200"}}
    gate = {"shell": 'echo 2 > value.txt; mkfifo "$TMPDIR/go"; touch "$TMPDIR/reached"; read line < "$TMPDIR/go"'}
    world.script(0, [gate, {"error": answer, "repeat": True}])
    world.script(1, WORK)
    task = world.add(world.brief("alone", "Make value.txt hold 2."))
    run = world.start("run")
    until(lambda: len(world.prompts(0)) == 1, "the worker", 120)
    tmp = Path(world.task(task)["copy_path"]).parent / "tmp"
    until((tmp / "reached").exists, "the worker's tool", 60)
    run.kill()
    run.wait()
    (tmp / "go").write_text("\n")
    folder = Path(world.attempts(task)[0]["folder"])
    until(lambda: spec.read_exit(folder) is not None, "exit.json", 120)

    record = spec.read_exit(folder)
    assert record is not None
    assert record.reason is EndReason.QUOTA
    assert record.hold is not None
    assert record.hold.until is not None
    limited = world.prompts(0)[1]
    if world.harness == "opencode":
        assert record.kind is OutcomeClass.QUOTA_EXHAUSTED
        assert (record.detection, record.hold.stated) == ("plugin", True)
        assert record.hold.until == pytest.approx(limited.wall + 7200, abs=5)
    else:
        assert record.kind is OutcomeClass.RATE_LIMITED
        assert (record.hold.stated, record.hold.until > limited.wall) == (False, True)
    until(lambda: marked(f"DISPATCHER_ATTEMPT={record.marker}") == [], "the end of the tree")

    told = json.loads(world.run("classify", str(folder), "--json", check=True).stdout)[0]
    assert (told["class"], told["reset"]) == (record.kind, record.hold.until)
    world.run("run")
    attempts = world.attempts(task)
    assert world.task(task)["status"] == "needs_review", world.story(task)
    assert [(a["candidate"], a["prompt"]) for a in attempts] == [("first", "first"), ("second", "continue")]


OVERFLOW = {"status": 400, "message": "This model's maximum context length is 100000 tokens"}


@pytest.mark.real_cli
@pytest.mark.parametrize(
    "steps",
    [
        [{"error": OVERFLOW, "repeat": True}],
        [{"shell": "echo draft > draft.txt"}, {"text": "half", "finish": False, "repeat": True}],
    ],
    ids=["overflow", "no-finish"],
)
def test_an_endless_loop_is_ended_and_another_candidate_does_the_work(
    world: World, steps: list[dict[str, Any]]
) -> None:
    """opencode would ask for ever, several times a second; claude gives up by itself after a few."""
    world.script(0, steps)
    world.script(1, WORK)
    task = world.add(world.brief("loop", "Make value.txt hold 2."))
    world.run("run")

    first, *rest = world.attempts(task)
    assert len(world.prompts(0)) <= 40
    assert first["survivors"] == 0
    if world.harness == "opencode":
        assert first["outcome"] in ("runaway", "context_overflow"), world.story(task)
        assert first["end_reason"] == "runaway"
        assert rest[0]["candidate"] == "second"
        assert rest[0]["session_id"] != first["session_id"], "a fresh session"
    else:
        assert (first["outcome"], first["end_reason"]) != ("completed", "exited"), world.story(task)


def test_a_long_healthy_run_is_left_alone(tmp_path: Path) -> None:
    """400 steps, some with a failing tool, none of them a loop."""
    world = scripted_world(tmp_path)
    failed = {"tool_error": {"tool": "bash", "input": {"command": "make"}, "error": "exit 2"}}
    steps: list[dict[str, Any]] = []
    for number in range(400):
        steps.append(failed if number % 7 == 0 else {"append": {"path": "log.txt", "content": f"{number}\n"}})
    steps += [{"commit": {"message": "the log", "files": ["log.txt"]}}, {"text": "Done."}]
    begin = time.time()
    task = world.do(world.brief("long", script({"steps": steps})))

    [attempt] = world.attempts(task)
    assert (attempt["outcome"], attempt["end_reason"]) == ("completed", "exited"), world.story(task)
    assert attempt["started_at"] >= begin
    assert world.branch_log(task) == ["the log"]
    assert marked(str(tmp_path)) == [], "a process was left behind"
