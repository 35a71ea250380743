"""The main job with the real opencode and the real claude, unmodified, against the scripted model server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from dispatcher.demo.model_server import ModelServer
from tests.clis import Cli
from tests.e2e.world import World, marked, real_world

pytestmark = pytest.mark.real_cli

EDIT = {"text": "I will set the value.", "shell": "echo 2 > value.txt"}
COMMIT = {"shell": "git add value.txt && git commit -qm 'set the value to 2'"}
DONE = {"text": "The value is 2, committed."}


@pytest.fixture(params=["opencode", "claude"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    cli: Cli = request.param
    with ModelServer() as server:
        yield real_world(tmp_path, cli, server)
    assert marked(str(tmp_path)) == [], "a process was left behind"


def test_edit_test_tmp_commit(world: World) -> None:
    """Everything a worker does on a good day: edit, run the tests, write to its tmp, commit."""
    world.script(0, [EDIT, {"shell": './check.sh && mktemp && echo scratch > "$TMPDIR/x"'}, COMMIT, DONE])
    task = world.do(world.brief("good", "# Set the value\n\nMake value.txt hold 2.", verify=["./check.sh"]))

    row, attempts = world.task(task), world.attempts(task)
    assert row["status"] == "needs_review", world.story(task)
    assert len(attempts) == 1
    assert attempts[0]["outcome"] == "completed"
    assert attempts[0]["tokens_input"] > 0
    assert attempts[0]["tokens_output"] > 0
    assert attempts[0]["cost_usd"] is not None
    assert attempts[0]["survivors"] == 0
    assert world.branch_log(task) == ["set the value to 2"]
    message = world.git("log", "-1", "--format=%B", row["branch"])
    assert f"Dispatcher-Task: {task}" in message
    assert "Dispatcher-Model: " in message
    assert f"Dispatcher-Harness: {world.harness}" in message
    assert world.git("status", "--porcelain") == "", "the person's checkout was touched"
    assert world.git("show", "main:value.txt") == "1"
    seen = world.prompts(0)
    assert len(seen) == 4
    everything = "".join(request.text for request in seen)
    assert "heliotrope" in everything
    assert "vermilion" in everything
    assert "Make value.txt hold 2." in everything


def test_a_rate_limit_moves_on_at_once(world: World) -> None:
    """A 429 is a quota event: the candidate is held, the next one does the work, nobody failed."""
    world.script(
        0,
        [
            {
                "error": {"status": 429, "message": "Rate limit exceeded", "headers": {"retry-after": "3600"}},
                "repeat": True,
            }
        ],
    )
    world.script(1, [EDIT, COMMIT, DONE])
    task = world.do(world.brief("limited", "Make value.txt hold 2."))

    row, attempts = world.task(task), world.attempts(task)
    assert row["status"] == "needs_review", world.story(task)
    assert [a["candidate"] for a in attempts] == ["first", "second"]
    assert attempts[0]["outcome"] == "rate_limited"
    assert attempts[0]["counted"] == 0
    assert json.loads(row["counters"])["attempts"] == 0
    held = world.rows("select * from hold where lifted_at is null")
    assert len(held) == 1
    assert "first" in held[0]["key"] or world.full_id(0) in held[0]["key"]


def test_failed_with_work_done_is_finished_in_the_same_session(world: World) -> None:
    """Files written, then HTTP 400: exit 1, dirty copy. A finish prompt in the same session; never a second run."""
    broken = {"error": {"status": 400, "message": "something broke"}, "repeat": True}
    finish = {"when": "Prompt: finish", "steps": [COMMIT, DONE]}
    world.script(0, [finish, EDIT, broken])
    task = world.do(world.brief("late", "Make value.txt hold 2, a-unique-brief."))

    attempts = world.attempts(task)
    assert world.task(task)["status"] == "needs_review", world.story(task)
    assert [(a["prompt"], a["candidate"]) for a in attempts] == [("first", "first"), ("finish", "first")]
    assert attempts[0]["exit_code"] == 1
    assert attempts[0]["session_id"]
    assert attempts[0]["session_id"] == attempts[1]["session_id"]
    assert world.branch_log(task) == ["set the value to 2"]
    finishing = [request for request in world.prompts(0) if "Prompt: finish" in request.text]
    assert finishing, "the finish prompt reached the model"
    assert "Prompt: first" in finishing[0].text, "in the same session, with its history"


def test_failed_with_nothing_goes_to_the_next_candidate(world: World) -> None:
    world.script(0, [{"error": {"status": 400, "message": "something broke"}, "repeat": True}])
    world.script(1, [EDIT, COMMIT, DONE])
    task = world.do(world.brief("nothing", "Make value.txt hold 2."))

    attempts = world.attempts(task)
    assert world.task(task)["status"] == "needs_review", world.story(task)
    assert [(a["prompt"], a["candidate"]) for a in attempts] == [("first", "first"), ("first", "second")]


def test_failed_after_step_one_was_committed_is_confirmed(world: World) -> None:
    """Exit 1 with a clean commit may be step 1 of 3: a confirm prompt, and the rest gets done."""
    step_one = {"shell": "echo one > one.txt && git add one.txt && git commit -qm 'step 1 of 3'"}
    rest = {"shell": "echo 2 > value.txt && git add value.txt && git commit -qm 'steps 2 and 3'"}
    broken = {"error": {"status": 400, "message": "something broke"}, "repeat": True}
    world.script(0, [{"when": "Prompt: confirm", "steps": [rest, DONE]}, step_one, broken])
    task = world.do(world.brief("three", "Do the three steps."))

    attempts = world.attempts(task)
    assert world.task(task)["status"] == "needs_review", world.story(task)
    assert [a["prompt"] for a in attempts] == ["first", "confirm"]
    assert world.branch_log(task) == ["steps 2 and 3", "step 1 of 3"]


def test_said_done_and_changed_nothing(world: World) -> None:
    """Exit 0 with nothing in git is not done: another candidate, then a person."""
    for number in (0, 1, 2):
        world.script(number, [{"text": "All done, everything works!"}])
    task = world.do(world.brief("talk", "Make value.txt hold 2."), expect_exit=1)

    row, attempts = world.task(task), world.attempts(task)
    assert row["status"] == "needs_human", world.story(task)
    assert [a["candidate"] for a in attempts] == ["first", "second"]
    assert "changed nothing" in row["status_reason"]


def test_hard_cap_ends_the_whole_tree_and_the_work_is_finished(world: World) -> None:
    """The cap is hit while a tool runs: its setsid child and a double fork without environment die with it."""
    world.limits = {"hard_cap": "35s"}  # on a busy machine opencode needs 20 s to come to its first tool
    world.write_config()
    nap = f"sleep 86{len(str(world.root))}"
    tool = (
        f"echo 2 > value.txt; (setsid {nap}1 &) ; (env -i setsid sh -c '{nap}2 & exit 0' &) ; "
        f'echo ready > "$TMPDIR/ready"; true && {nap}3'
    )
    world.script(0, [{"when": "Prompt: finish", "steps": [COMMIT, DONE]}, {"shell": tool}, DONE])
    task = world.do(world.brief("slow", "Make value.txt hold 2."))

    attempts = world.attempts(task)
    assert world.task(task)["status"] == "needs_review", world.story(task)
    assert [(a["prompt"], a["outcome"]) for a in attempts] == [("first", "timed_out"), ("finish", "completed")]
    assert attempts[0]["timed_out"] == 1
    assert attempts[0]["end_reason"] == "hard_cap"
    assert attempts[0]["survivors"] == 0
    assert marked(nap.replace(" ", "\0")) == []
    assert world.branch_log(task) == ["set the value to 2"]


def test_an_unknown_model_is_held_until_a_person(world: World) -> None:
    if world.harness == "opencode":
        text = world.config_text().replace("scripted/m1,", "scripted/no-such-model,")
        (world.home / "models.yaml").write_text(text)
        wanted = "scripted/no-such-model"
    else:
        world.script(
            0, [{"error": {"status": 404, "type": "not_found_error", "message": "model: nope"}, "repeat": True}]
        )
        wanted = world.full_id(0)
    world.script(1, [EDIT, COMMIT, DONE])
    task = world.do(world.brief("gone", "Make value.txt hold 2."))

    attempts = world.attempts(task)
    assert world.task(task)["status"] == "needs_review", world.story(task)
    assert [(a["candidate"], a["outcome"]) for a in attempts] == [("first", "model_not_found"), ("second", "completed")]
    assert wanted.rpartition("/")[2] in attempts[0]["outcome_reason"]
    held = world.rows("select * from hold where lifted_at is null")
    assert len(held) == 1
    assert held[0]["until"] is None


def test_a_report_gets_no_tool_that_writes(world: World) -> None:
    world.script(0, [{"text": "The value is 1 and check.sh wants 2."}])
    task = world.do(world.brief("look", "Say what value.txt holds.", expect="report"))

    row = world.task(task)
    assert row["status"] == "needs_review", world.story(task)
    assert "The value is 1" in row["final_text"]
    offered = {tool.lower() for request in world.prompts(0) for tool in request.tools}
    assert offered
    assert not offered & {"bash", "write", "edit", "notebookedit", "patch", "multiedit"}
