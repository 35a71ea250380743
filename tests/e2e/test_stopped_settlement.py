"""Finished work is never given to a worker again, wherever between its verdict and its rest the task was stopped."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.world import World, marked, script, scripted_world, started, until

WORK = [{"write": {"path": "a.txt", "content": "a"}}, {"commit": "the work"}, {"text": "Done."}]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    yield scripted_world(tmp_path)
    assert marked(str(tmp_path)) == [], "a process was left behind"


def checked(world: World, task: int) -> list[int]:
    sql = "select c.passed from check_result c join attempt a on a.id = c.attempt_id where a.task_id = ?"
    return [row["passed"] for row in world.rows(sql, task)]


def gated(world: World) -> tuple[str, Path, Path]:
    """A check that says when it runs, and passes when it is let."""
    ready, go = world.root / "ready", world.root / "go"
    return f"touch {ready}; while [ ! -e {go} ]; do sleep 0.05; done; test -e a.txt", ready, go


def killed_in_checks(world: World, name: str) -> tuple[int, Path]:
    """A task whose run was killed while its check ran, and the file that lets the check pass."""
    verify, ready, go = gated(world)
    task = world.add(world.brief(name, script({"steps": WORK}), verify=[verify]))
    with started(world) as running:
        until(ready.exists, "the check")
        running.kill()
        running.wait()
    return task, go


def rests_after_one_attempt(world: World, task: int, status: str = "needs_review") -> None:
    row, attempts = world.task(task), world.attempts(task)
    assert row["status"] == status, world.story(task)
    assert [(a["prompt"], a["outcome"], a["verdict"]) for a in attempts] == [("first", "completed", "review")]
    assert json.loads(row["counters"])["starts"] <= 1, "no worker was started again"
    assert world.branch_log(task) == ["the work"]


# --- a person stops it --------------------------------------------------------------------------------------------


def test_paused_in_the_middle_of_checks(world: World) -> None:
    """The check is ended at once; resumed, the task goes on at the checks of the same commit."""
    verify, ready, go = gated(world)
    task = world.add(world.brief("paused", script({"steps": WORK}), verify=[verify]))
    with started(world) as running:
        until(ready.exists, "the check")
        world.run("pause", str(task), check=True)
        assert running.wait(timeout=60) == 0
    assert world.task(task)["status"] == "paused", world.story(task)
    assert checked(world, task) == []
    assert world.attempts(task)[0]["verdict"] == "check"
    assert world.attempts(task)[0]["ended_at"] is not None
    commit = world.attempts(task)[0]["result_commit"]
    go.touch()
    world.run("resume", str(task), check=True)
    assert "its work is there, its checks go on" in world.run("show", str(task), check=True).stdout
    ready_rows = json.loads(world.run("ready", "--json", check=True).stdout)
    assert [(row["state"], row["candidate"]) for row in ready_rows] == [("ready", None)]
    assert "its checks go on" in world.run("run", "--dry-run", check=True).stdout
    world.run("run", check=True)
    rests_after_one_attempt(world, task)
    assert checked(world, task) == [1]
    assert commit in world.git("log", "--format=%H", "refs/dispatcher/1/1").splitlines()


def test_paused_and_resumed_while_no_run_is_alive(world: World) -> None:
    """The dispatcher is killed in the checks; a person pauses, and resumes, before the next run looks."""
    task, go = killed_in_checks(world, "both")
    world.run("pause", str(task), check=True)
    go.touch()
    world.run("resume", str(task), check=True)
    world.run("run", check=True)
    rests_after_one_attempt(world, task)
    assert checked(world, task) == [1]


def test_a_paused_task_is_not_checked_by_a_later_run(world: World) -> None:
    """Killed, paused, and a run looks: it closes the attempt, runs nothing, and the task stays paused."""
    task, go = killed_in_checks(world, "later")
    world.run("pause", str(task), check=True)
    go.touch()
    world.run("run", check=True)
    assert world.task(task)["status"] == "paused"
    assert world.attempts(task)[0]["verdict"] == "check"
    assert checked(world, task) == []
    world.run("resume", str(task), check=True)
    world.run("run", check=True)
    rests_after_one_attempt(world, task)


def test_paused_before_work_without_checks_could_rest(world: World) -> None:
    """No check runs, but the worker is done and nobody has settled it when the pause comes."""
    ready, go = world.root / "ready", world.root / "go"
    steps = [*WORK[:-1], {"shell": f"touch {ready}; while [ ! -e {go} ]; do sleep 0.05; done"}, WORK[-1]]
    task = world.add(world.brief("plain", script({"steps": steps})))
    with started(world) as running:
        until(ready.exists, "the worker")
        running.kill()
        running.wait()
    go.touch()
    folder = Path(world.attempts(task)[0]["folder"])
    until((folder / "exit.json").exists, "the end of the worker")
    world.run("pause", str(task), check=True)
    world.run("run", check=True)
    assert world.task(task)["status"] == "paused"
    world.run("resume", str(task), check=True)
    world.run("run", check=True)
    rests_after_one_attempt(world, task)


def test_cancelled_in_the_middle_of_checks_and_tried_again(world: World) -> None:
    verify, ready, go = gated(world)
    task = world.add(world.brief("cancelled", script({"steps": WORK}), verify=[verify]))
    with started(world) as running:
        until(ready.exists, "the check")
        world.run("cancel", str(task), check=True)
        running.wait(timeout=60)
    assert world.task(task)["status"] == "cancelled", world.story(task)
    assert world.branch_log(task) == ["the work"], "it is kept and named"
    go.touch()
    world.run("retry", str(task), check=True)
    world.run("run", check=True)
    rests_after_one_attempt(world, task)


def test_checks_that_could_not_run_are_run_when_a_person_has_mended_them(world: World) -> None:
    hidden = world.root / "examination.sh"
    task = world.do(world.brief("mended", script({"steps": WORK}), hidden_checks=f"{hidden} --all"), expect_exit=1)
    assert world.task(task)["status"] == "needs_human"
    assert "could not be run" in world.task(task)["status_reason"]
    hidden.write_text("#!/bin/sh\ntest -e a.txt\n")
    hidden.chmod(0o755)
    world.run("retry", str(task), check=True)
    world.run("run", check=True)
    rests_after_one_attempt(world, task)
    assert checked(world, task) == [1]


# --- kill -9 ------------------------------------------------------------------------------------------------------

KILLED_AT = """
import os, signal, sys
from dispatcher import checks, notify, pull_request
from dispatcher.repository import copies, delivery
from dispatcher.runner import settle, walk
from dispatcher.store import batches, history, reviews
module, name, when = sys.argv.pop(1).split(":")
place = {"checks": checks, "settle": settle, "delivery": delivery, "history": history, "pull_request": pull_request,
         "walk": walk, "reviews": reviews, "notify": notify, "copies": copies, "batches": batches}[module]
real = getattr(place, name)
def killed(*words, **named):
    if when == "after":
        real(*words, **named)
    os.kill(os.getpid(), signal.SIGKILL)
setattr(place, name, killed)
from dispatcher.cli.entry import main
sys.exit(main())
"""

POINTS = (
    "settle:read_outcome:before",  # the worker is done; nothing was looked at
    "delivery:keep:before",
    "delivery:keep:after",  # its state is on a ref, no row says so
    "checks:find_hidden:before",
    "checks:result_of:before",  # the first check has ended
    "checks:red_on:before",  # all checks on the commit have ended, the base was not asked
    "checks:overlay:after",  # the hidden checks lie in the checkout
    "delivery:deliver:before",
    "delivery:deliver:after",  # the branch is there, no row says so
    "pull_request:open_one:before",
    "pull_request:open_one:after",  # the pull request is there, no row says so
    "history:save_checks:after",  # inside of the last transaction
    "history:end_attempt:after",
    "reviews:write:after",
)


def stand_in(world: World) -> Path:
    """A `gh` that remembers what it was asked, and has a branch's pull request only once."""
    folder = world.root / "bin"
    folder.mkdir()
    calls = folder / "calls"
    gh = folder / "gh"
    gh.write_text(
        f"""#!/bin/sh
echo "$@" >> {calls}
if [ -e {folder}/made ]; then
    echo 'a pull request for branch "x" into branch "main" already exists:' >&2
    echo https://github.invalid/a/b/pull/7 >&2
    exit 1
fi
touch {folder}/made
echo https://github.invalid/a/b/pull/7
"""
    )
    gh.chmod(0o755)
    return calls


def origin(world: World) -> Path:
    bare = world.root / "origin.git"
    world.git("init", "-q", "--bare", str(bare))
    world.git("remote", "add", "origin", str(bare))
    return bare


@pytest.mark.parametrize("point", POINTS)
def test_kill_9_at_each_point_of_a_settlement(world: World, point: str) -> None:
    """One attempt, one branch, one pull request, one judgement, whatever instruction it died at."""
    calls, bare = stand_in(world), origin(world)
    hidden = world.root / "hidden"
    hidden.mkdir()
    (hidden / "check").write_text("#!/bin/sh\ntest -e a.txt\n")
    (hidden / "check").chmod(0o755)
    red = "checks:red_on" in point
    verify = ["test -e a.txt", *(["./check.sh"] if red else [])]
    front: dict[str, Any] = {"verify": verify, "hidden_checks": str(hidden), "deliver": "pr"}
    task = world.add(world.brief("killed", script({"steps": WORK}), auto_accept="checks", **front))
    environment = {**world.environment, "PATH": f"{calls.parent}:{world.environment['PATH']}"}
    words = [sys.executable, "-c", KILLED_AT, point, "run"]
    died = subprocess.run(words, env=environment, cwd=world.root, capture_output=True, check=False, timeout=120)
    assert died.returncode == -signal.SIGKILL, (died.returncode, died.stdout, died.stderr)
    assert world.task(task)["status"] == "running", "it was killed before it could rest"

    done = world.run("run", env=environment)
    assert done.returncode == 0, (done.stdout, done.stderr)
    rests_after_one_attempt(world, task, "needs_review" if red else "accepted")
    assert checked(world, task) == [1, 0, 1] if red else [1, 1]
    branch = world.task(task)["branch"]
    assert world.git("for-each-ref", "--format=%(refname:short)", "refs/heads/dispatcher") == branch
    assert world.git("rev-parse", branch, cwd=bare) == world.task(task)["result_commit"]
    said = [row["text"] for row in world.rows("select text from event where text like '%pull request%' order by id")]
    assert said[-1:] == ["pull request https://github.invalid/a/b/pull/7"]
    assert "no pull request" not in " ".join(said)
    assert 1 <= len(calls.read_text().splitlines()) <= 2
    assert len(world.rows("select * from review where decision = 'accepted'")) == (0 if red else 1)
    left = [str(path) for path in (world.user_home / ".local/state").rglob("check-*")]
    assert left == [], "a checkout was left behind"


@pytest.mark.parametrize("point", ["notify:send:before", "batches:end:after"])
def test_who_is_killed_before_it_could_tell_is_stood_in_for(world: World, point: str) -> None:
    """The task rests and the run is dead: the next run, with nothing to do, tells it once."""
    messages = world.root / "messages"
    messages.mkdir()
    world.extra_config = f"notify: 'cat > {messages}/$$; mv {messages}/$$ {messages}/$$.json'\n"
    world.write_config()
    steps = [{"text": "I cannot."}] if point.startswith("notify") else WORK
    task = world.add(world.brief("told", script({"steps": steps})))
    world.run("add", "--again", "--batch", "night", str(world.home / "briefs/told.md"), check=True)
    world.run("cancel", str(task), check=True)
    words = [sys.executable, "-c", KILLED_AT, point, "run"]
    died = subprocess.run(words, env=world.environment, cwd=world.root, capture_output=True, check=False, timeout=120)
    assert died.returncode == -signal.SIGKILL, (died.stdout, died.stderr)
    rested = world.task(task + 1)["status"]
    assert rested == ("needs_human" if point.startswith("notify") else "needs_review")
    assert list(messages.glob("*.json")) == []

    world.run("run", check=True)
    wanted = ["batch_end", "needs_human"] if point.startswith("notify") else ["batch_end"]
    until(lambda: len(list(messages.glob("*.json"))) == len(wanted), "the message")
    assert sorted(json.loads(file.read_text())["event"] for file in messages.glob("*.json")) == wanted
    world.run("run", check=True)
    assert len(list(messages.glob("*.json"))) == len(wanted), "only once"
    assert world.rows("select value from meta where key = 'in_hand'") == [{"value": "{}"}]
