"""The stories that the rules come from, played by the built-in scripted worker under real supervisors and git."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.world import World, marked, script, scripted_world

LIMITED = {"error": {"status": 429, "message": "Rate limit exceeded. Please try again later.", "retry_after": 7200}}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    yield scripted_world(tmp_path)
    assert marked(str(tmp_path)) == [], "a process was left behind"


def test_three_free_models_limited_then_the_next_does_all_three_tasks(world: World) -> None:
    """Three tasks came back within a minute: rate limit at the first call. The next model of the list did them all."""
    fourth = "  fourth: {harness: scripted, model: scripted/s4, credential: test}\nroutes:"
    text = (
        world.config_text()
        .replace("routes:", fourth)
        .replace("[first, second, third]", "[first, second, third, fourth]")
    )
    (world.home / "models.yaml").write_text(text)
    tasks = []
    for name in ("a", "b", "c"):
        done = [{"write": {"path": f"{name}.txt", "content": name}}, {"commit": f"add {name}"}, {"text": "Done."}]
        body = script({"model": "scripted/s[123]", "steps": [LIMITED]}, {"steps": done})
        tasks.append(world.add(world.brief(name, body)))
    ran = world.run("run", "-j", "1")
    assert ran.returncode == 0, ran.stderr

    for task in tasks:
        assert world.task(task)["status"] == "needs_review", world.story(task)
        assert json.loads(world.task(task)["counters"])["attempts"] == 0
    outcomes = [(row["candidate"], row["outcome"]) for row in world.rows("select * from attempt order by id")]
    limits = [(name, "rate_limited") for name in ("first", "second", "third")]
    assert outcomes == [*limits, ("fourth", "completed"), ("fourth", "completed"), ("fourth", "completed")]
    assert len(world.rows("select * from hold where lifted_at is null")) == 3


def test_exit_1_after_a_late_tool_argument_error_with_one_commit(world: World) -> None:
    """765 s of work, one good commit, and a late "Invalid arguments for tool edit": confirmed, never run again."""
    late = {"tool_error": {"tool": "edit", "input": {}, "error": "Invalid arguments for tool edit"}}
    first = [{"write": {"path": "a.txt", "content": "a"}}, {"commit": "the work"}, late, {"exit": 1}]
    confirm = [{"text": "Nothing is left to do."}]
    body = script({"prompt": "Prompt: confirm", "steps": confirm}, {"prompt": "Prompt: first", "steps": first})
    task = world.do(world.brief("late", body))

    attempts = world.attempts(task)
    assert world.task(task)["status"] == "needs_review", world.story(task)
    assert [a["prompt"] for a in attempts] == ["first", "confirm"]
    assert attempts[0]["exit_code"] == 1
    assert attempts[0]["session_id"] == attempts[1]["session_id"]
    assert world.branch_log(task) == ["the work"]


def test_socket_closed_after_the_work_was_done(world: World) -> None:
    """Exit 125, "socket closed", but the checks pass on the commit: it is done."""
    closed = {"error": {"name": "UnknownError", "message": "The socket connection was closed unexpectedly."}}
    steps = [{"shell": "echo 2 > value.txt"}, {"commit": {"message": "set it", "files": ["value.txt"]}}, closed]
    task = world.do(world.brief("closed", script({"steps": steps}), verify=["./check.sh"]))

    attempts = world.attempts(task)
    assert world.task(task)["status"] == "needs_review", world.story(task)
    assert [(a["prompt"], a["outcome"]) for a in attempts] == [("first", "network")]


def test_hard_cap_with_an_uncommitted_change_of_eleven_files(world: World) -> None:
    """Complete, formatted, tests passing, lint was slow, nothing committed: lint and commit, nothing else."""
    files = [{"write": {"path": f"src/{n}.txt", "content": str(n)}} for n in range(11)]
    names = [f"src/{n}.txt" for n in range(11)]
    finish = [{"commit": {"message": "eleven files", "files": names}}, {"text": "Linted and committed."}]
    body = script(
        {"prompt": "Prompt: finish", "steps": finish},
        {"prompt": "Prompt: first", "steps": [*files, {"text": "930 tests pass."}, {"hang": True}]},
    )
    task = world.do(world.brief("eleven", body, limits={"hard_cap": "4s"}))

    attempts = world.attempts(task)
    assert world.task(task)["status"] == "needs_review", world.story(task)
    assert [(a["prompt"], a["outcome"]) for a in attempts] == [("first", "timed_out"), ("finish", "completed")]
    assert attempts[0]["candidate"] == attempts[1]["candidate"]
    prompt = (Path(attempts[1]["folder"]) / "prompt.md").read_text()
    assert "src/10.txt" in prompt
    assert world.branch_log(task) == ["eleven files"]
    changed = world.git("diff", "--name-only", f"main..{world.task(task)['branch']}").splitlines()
    assert sorted(changed) == sorted(names)


def test_tests_passed_then_silence(world: World) -> None:
    """471 tests passed, then a long silence in lint, and a build daemon that went on: ended, finished by prompt."""
    steps = [
        {"write": {"path": "a.txt", "content": "a"}},
        {"daemon": 600},
        {"text": "471 tests pass."},
        {"hang": True},
    ]
    finish = [{"commit": {"message": "the work", "files": ["a.txt"]}}, {"text": "Committed."}]
    body = script({"prompt": "Prompt: finish", "steps": finish}, {"prompt": "Prompt: first", "steps": steps})
    task = world.do(world.brief("silence", body, limits={"stall": "3s"}))

    attempts = world.attempts(task)
    assert world.task(task)["status"] == "needs_review", world.story(task)
    assert [(a["prompt"], a["outcome"]) for a in attempts] == [("first", "stalled"), ("finish", "completed")]
    assert attempts[0]["survivors"] == 0


def test_an_unpinned_run_is_refused(world: World) -> None:
    """A run without a model id is about whatever default the CLI had stored."""
    text = world.config_text().replace(", model: scripted/s1", "")
    (world.home / "models.yaml").write_text(text)
    refused = world.run("run")
    assert refused.returncode == 2
    assert "models.yaml:4" in refused.stderr
    assert "model" in refused.stderr
    assert "hint:" in refused.stderr
    assert not (world.home / "logs/dispatcher.db").exists() or not world.rows("select * from attempt")
