"""What a crash can leave at any instruction, and what the next `run` makes of it: the rules of .github/RECOVERY.md."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dispatcher import store
from dispatcher.store import history, queue
from dispatcher.supervisor import spec
from dispatcher.task import ON_RESTART, Attempt, Billing, PromptKind, Status
from tests.e2e.world import World, gate, marked, script, scripted_world, until

DEAD = "nowhere-1-00000000"  # an owner without a lock


def brief(world: World, name: str, *rules: dict[str, Any], **front: Any) -> int:
    """Its own words make it a task of its own."""
    return world.add(world.brief(name, f"Task {name}.\n" + script(*rules), **front))


WORK = [{"write": {"path": "a.txt", "content": "a"}}, {"commit": "the work"}, {"text": "Done."}]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    yield scripted_world(tmp_path)
    assert marked(str(tmp_path)) == [], "a process was left behind"


def test_each_status_after_a_restart(world: World) -> None:
    """One task in each status, its owner dead; a task that comes back into the queue is worked on at once."""
    assert set(ON_RESTART) == set(Status)
    ids = {status: brief(world, str(status), {"steps": WORK}) for status in Status}
    with store.open(world.home / "logs/dispatcher.db") as db, db.write() as transaction:
        for status, task in ids.items():
            owner = DEAD if status is Status.RUNNING else None
            due = time.time() - 1 if status is Status.WAITING else None
            sql = "update task set status = ?, owner = ?, not_before = ? where id = ?"
            transaction.execute(sql, (str(status), owner, due, task))
    world.run("run")
    goes_on = {Status.QUEUED, Status.RUNNING, Status.WAITING}
    for status, task in ids.items():
        wanted = Status.NEEDS_REVIEW if status in goes_on else status
        assert world.task(task)["status"] == wanted, world.story(task)
        assert len(world.attempts(task)) == (status in goes_on)


def begun(world: World, db: store.Store, task: int) -> Attempt:
    """The row of an attempt that a dead run began; its folder is not there yet."""
    taken = queue.claim(db, owner=DEAD, now=time.time(), jobs=100, task_id=task)
    assert taken is not None
    return history.begin_attempt(
        db,
        task_id=task,
        prompt=PromptKind.FIRST,
        candidate="first",
        harness="scripted",
        model="scripted/s1",
        credential="test",
        billing=Billing.FREE,
        folder=str(world.home / "logs" / str(task) / "{number}"),
        marker=f"{task}-crashed",
        started_at=time.time(),
    )


def whole(attempt: Attempt) -> Path:
    """An attempt folder as it is the moment before the process is started."""
    folder = Path(attempt.folder)
    folder.mkdir(parents=True)
    (folder / "prompt.md").write_text("Headless run.")
    for name in ("stdout", "stderr"):
        (folder / name).touch()
    spec.write(
        spec.AttemptSpec(
            marker=attempt.marker, argv=("true",), cwd="/", stdin=str(folder / "prompt.md"), folder=str(folder)
        )
    )
    return folder


def exit_of(attempt: Attempt, **other: Any) -> str:
    values = {"marker": attempt.marker, "started_at": 1.0, "ended_at": 2.0, "reason": "exited", "exit_code": 0}
    return json.dumps({**values, **other})


def nothing(attempt: Attempt) -> None:
    """The row alone."""


def empty_folder(attempt: Attempt) -> None:
    Path(attempt.folder).mkdir(parents=True)


def half_before(attempt: Attempt) -> None:
    empty_folder(attempt)
    (Path(attempt.folder) / "before.json").write_text('{"base": "1')


def half_specification(attempt: Attempt) -> None:
    (whole(attempt) / "attempt.json").write_text('{"marker": "x')


def never_launched(attempt: Attempt) -> None:
    whole(attempt)


def strange_lock(attempt: Attempt) -> None:
    (whole(attempt) / "attempt.lock").write_bytes(b"\0\xff{")


def half_exit(attempt: Attempt) -> None:
    (whole(attempt) / "exit.json").write_text(exit_of(attempt)[:40])


def exit_of_another(attempt: Attempt) -> None:
    (whole(attempt) / "exit.json").write_text(exit_of(attempt, marker="9-other"))


LEFT: tuple[Callable[[Attempt], None], ...] = (
    nothing,
    empty_folder,
    half_before,
    half_specification,
    never_launched,
    strange_lock,
    half_exit,
    exit_of_another,
)


def test_each_half_written_attempt_is_lost_and_done_again(world: World) -> None:
    """Nothing proves that a worker ran, so nobody is punished and the brief is given again."""
    ids = {left: brief(world, left.__name__, {"steps": WORK}) for left in LEFT}
    with store.open(world.home / "logs/dispatcher.db") as db:
        for left, task in ids.items():
            left(begun(world, db, task))
    done = world.run("run", "-j", "4")
    assert done.returncode == 0, (done.stdout, done.stderr)
    for left, task in ids.items():
        row = world.task(task)
        assert row["status"] == "needs_review", (left.__name__, world.story(task))
        assert [a["outcome"] for a in world.attempts(task)] == ["lost", "completed"], left.__name__
        assert json.loads(row["counters"])["attempts"] == 0, left.__name__
        assert world.branch_log(task) == ["the work"]


def test_an_open_attempt_of_a_task_that_rests(world: World) -> None:
    """Without its folder, too: it is closed, the task stays as a person left it, and can be run again."""
    ids = [brief(world, name, {"steps": WORK}) for name in ("a", "b")]
    with store.open(world.home / "logs/dispatcher.db") as db:
        attempts = [begun(world, db, task) for task in ids]
        whole(attempts[1])
        for task in ids:
            queue.update(db, task, time.time(), status=Status.PAUSED)
    assert world.run("run").returncode == 0
    for task in ids:
        assert world.task(task)["status"] == "paused"
        assert [a["outcome"] for a in world.attempts(task)] == ["lost"], world.story(task)
    world.run("resume", *map(str, ids), check=True)
    world.run("run", check=True)
    assert {world.task(task)["status"] for task in ids} == {"needs_review"}


def older(values: dict[str, Any]) -> dict[str, Any]:
    """As a supervisor wrote it that knew only the first fields."""
    return {name: values[name] for name in ("marker", "started_at", "ended_at", "reason", "exit_code")}


def newer(values: dict[str, Any]) -> dict[str, Any]:
    return {**values, "invented_later": {"deep": [1]}, "detection": "telepathy"}


@pytest.mark.parametrize("version", [older, newer])
def test_the_program_is_upgraded_while_a_supervisor_is_in_flight(
    world: World, version: Callable[[dict[str, Any]], dict[str, Any]]
) -> None:
    """Its exit record lacks what came later, or holds what we do not know: the work is done all the same."""
    reached, wait = gate(world.root)
    task = world.add(world.brief("upgrade", script({"steps": [wait, *WORK]})))
    run = world.start("run")
    until(reached.exists, "the worker")
    run.kill()
    run.wait()
    (world.root / "go").write_text("\n")
    folder = Path(world.attempts(task)[0]["folder"])
    until(lambda: spec.read_exit(folder) is not None and not spec.alive(folder), "exit.json")
    values = json.loads((folder / "exit.json").read_text())
    (folder / "exit.json").write_text(json.dumps(version(values)))
    given = json.loads((folder / "attempt.json").read_text())
    (folder / "attempt.json").write_text(json.dumps({**given, "invented_later": 1}))
    assert world.run("run").returncode == 0
    assert [a["outcome"] for a in world.attempts(task)] == ["completed"], world.story(task)
    assert world.task(task)["status"] == "needs_review"
    assert world.branch_log(task) == ["the work"]


def test_folders_without_a_row(world: World) -> None:
    """An attempt folder that no row knows (an older database was put back): it is kept beside the new one. A copy that
    was not finished is made again; one that was finished, but not noted, is used."""
    ids = [brief(world, name, {"steps": WORK}) for name in ("half", "made")]
    logs = world.home / "logs"
    for task in ids:
        (logs / str(task) / "1").mkdir(parents=True)
        (logs / str(task) / "1" / "attempt.json").write_text("{}")
        (logs / str(task) / "1" / "stdout").write_text("precious")
    world.run("run", "-j", "1", "--max-tasks", "1", check=True)
    copies = Path(world.task(ids[0])["copy_path"]).parents[1]
    unfinished = copies / str(ids[1]) / ".work.unfinished"
    (unfinished / ".git").mkdir(parents=True)
    (unfinished / "half").write_text("half")
    world.run("run", check=True)
    for task in ids:
        assert world.task(task)["status"] == "needs_review", world.story(task)
        kept = [path for path in (logs / str(task)).iterdir() if path.name.startswith("1.before-")]
        assert [(path / "stdout").read_text() for path in kept] == ["precious"]
    assert not unfinished.exists()


def test_a_copy_that_is_gone_is_made_again(world: World) -> None:
    """A person deleted it while the task waited: the brief is given anew, in a new copy."""
    failing = [{"error": {"status": 429, "message": "Rate limit exceeded", "retry_after": 3600}}]
    rules = [{"times": 1, "model": f"scripted/s{n}", "steps": failing} for n in (1, 2, 3)]
    task = world.add(world.brief("gone", script(*rules, {"steps": WORK})))
    assert world.run("run").returncode == 75
    shutil.rmtree(world.task(task)["copy_path"])
    for hold in world.rows("select key from hold where lifted_at is null"):
        world.run("release", hold["key"], check=True)
    world.run("run")
    assert world.task(task)["status"] == "needs_review", world.story(task)
    assert os.path.isdir(world.task(task)["copy_path"])


def test_a_check_whose_supervisor_was_killed_is_run_once_more(world: World) -> None:
    """Only once: a check that kills its own supervisor each time is for a person."""
    kill = "kill -9 $PPID; sleep 30"
    once = brief(world, "once", {"steps": WORK}, verify=[f"test -e ../../hit || {{ touch ../../hit; {kill}; }}"])
    twice = brief(world, "twice", {"steps": WORK}, verify=[kill])
    world.run("run", "-j", "2")
    assert world.task(once)["status"] == "needs_review", world.story(once)
    assert world.task(twice)["status"] == "needs_human", world.story(twice)
    assert "supervisor of a check was killed" in world.task(twice)["status_reason"]
