"""What a crash leaves is settled right: kill -9 at bad moments, two runs at once, cron's environment."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from dispatcher.supervisor import spec
from tests.e2e.world import PROGRAM, World, gate, marked, script, scripted_world, supervisors, until


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    yield scripted_world(tmp_path)
    assert marked(str(tmp_path)) == [], "a process was left behind"


def test_kill_9_of_run_in_the_middle_of_a_worker(world: World) -> None:
    """The supervisor goes on; a second run adopts it: one commit, one task, one attempt, a true history."""
    reached, wait = gate(world.root)
    steps = [wait, {"write": {"path": "a.txt", "content": "a"}}, {"commit": "the work"}, {"text": "Done."}]
    task = world.add(world.brief("killed", script({"steps": steps})))
    first = world.start("run")
    until(reached.exists, "the worker")
    first.kill()
    first.wait()
    second = world.start("run")
    until(
        lambda: (
            world.task(task)["owner"]
            != world.rows("select text from event where kind='claimed'")[0]["text"].split()[-1]
        ),
        "the take-over",
    )
    (world.root / "go").write_text("\n")
    assert second.wait(60) == 0, (world.root / "run.out").read_text()

    assert world.task(task)["status"] == "needs_review", world.story(task)
    assert world.branch_log(task) == ["the work"]
    attempts = world.attempts(task)
    assert [(a["prompt"], a["outcome"]) for a in attempts] == [("first", "completed")]


def test_the_supervisor_alone_keeps_the_hard_cap(world: World) -> None:
    """Dispatcher dead and the cap passes: the tree is ended and exit.json says why."""
    reached, _ = gate(world.root)
    steps = [{"shell": f"(setsid sleep 4321 &); touch {reached}; sleep 4322"}]
    task = world.add(world.brief("alone", script({"steps": steps}), limits={"hard_cap": "4s"}))
    run = world.start("run")
    until(reached.exists, "the worker")
    run.kill()
    run.wait()
    folder = Path(world.attempts(task)[0]["folder"])
    until(lambda: spec.read_exit(folder) is not None, "exit.json")
    record = spec.read_exit(folder)
    assert record is not None
    assert record.reason == "hard_cap"
    assert record.timed_out
    assert record.survivors == 0
    until(lambda: marked(f"DISPATCHER_ATTEMPT={record.marker}") == [], "the end of the tree")
    world.run("cancel", str(task))
    world.run("run")
    assert world.task(task)["status"] == "cancelled", world.story(task)


def test_kill_9_of_the_supervisor_is_lost_and_done_again(world: World) -> None:
    """Supervisor gone, worker alive: the tree is ended, the attempt is `lost` and counts for nobody."""
    reached = world.root / "reached"
    steps = [{"shell": f"touch {reached}; sleep 4323"}]
    done = [{"write": {"path": "a.txt", "content": "a"}}, {"commit": "the work"}, {"text": "Done."}]
    body = script({"times": 1, "steps": steps}, {"steps": done})
    task = world.add(world.brief("lost", body))
    run = world.start("run")
    until(reached.exists, "the worker")
    [supervisor] = supervisors(world.home / "logs")
    os.kill(supervisor, signal.SIGKILL)
    assert run.wait(60) == 0, (world.root / "run.out").read_text()

    attempts = world.attempts(task)
    assert world.task(task)["status"] == "needs_review", world.story(task)
    assert [a["outcome"] for a in attempts] == ["lost", "completed"]
    assert json.loads(world.task(task)["counters"])["attempts"] == 0
    assert world.branch_log(task) == ["the work"]


def test_cancel_reaches_a_worker_whose_dispatcher_is_dead(world: World) -> None:
    reached = world.root / "reached"
    steps = [{"write": {"path": "a.txt", "content": "a"}}, {"shell": f"touch {reached}; sleep 4324"}]
    task = world.add(world.brief("cancelled", script({"steps": steps})))
    run = world.start("run")
    until(reached.exists, "the worker")
    run.kill()
    run.wait()
    done = world.run("cancel", str(task), check=True)
    folder = Path(world.attempts(task)[0]["folder"])
    until(lambda: not spec.alive(folder), "the end of the supervisor")
    assert marked("sleep\x004324") == [], done.stderr
    world.run("run")
    row = world.task(task)
    assert row["status"] == "cancelled", world.story(task)
    assert world.attempts(task)[0]["outcome"] == "cancelled"
    assert (Path(row["copy_path"]) / "a.txt").read_text() == "a", "what the worker made is kept"


def test_two_runs_at_once_over_twenty_tasks(world: World) -> None:
    for number in range(20):
        steps = [{"write": {"path": f"{number}.txt", "content": "x"}}, {"commit": f"add {number}"}, {"text": "Done."}]
        world.brief(f"b{number:02}", script({"steps": steps}))
    world.run("add", str(world.home / "briefs"), check=True)
    first, second = world.start("run", "-j", "4"), world.start("run", "-j", "4")
    assert {first.wait(200), second.wait(200)} == {0}, (world.root / "run.out").read_text()

    said = (world.root / "run.out").read_text()
    assert "locked" not in said
    assert [row["status"] for row in world.rows("select status from task")] == ["needs_review"] * 20, said
    assert len(world.rows("select * from attempt")) == 20
    for row in world.rows("select id from task"):
        assert len(world.branch_log(row["id"])) == 1


def test_cron_environment_with_an_open_pipe_as_stdin(world: World) -> None:
    """`env -i HOME PATH=/usr/bin:/bin`, stdin a pipe that nobody closes."""
    steps = [{"write": {"path": "ä.txt", "content": "✓"}}, {"commit": "the work"}, {"text": "Done ✓."}]
    task = world.add(world.brief("cron", script({"steps": steps})))
    read, write = os.pipe()
    try:
        done = subprocess.run(
            [str(PROGRAM), "run", "--home", str(world.home)],
            env={"HOME": str(world.user_home), "PATH": "/usr/bin:/bin"},
            stdin=read,
            capture_output=True,
            cwd="/",
            timeout=120,
            check=False,
        )
    finally:
        os.close(read)
        os.close(write)
    assert done.returncode == 0, (done.stdout, done.stderr)
    assert world.task(task)["status"] == "needs_review", world.story(task)


def test_ctrl_c_once_drains(world: World) -> None:
    """The worker in flight is finished, nothing new is started, the rest stays queued."""
    reached, wait = gate(world.root)
    steps = [wait, {"write": {"path": "a.txt", "content": "a"}}, {"commit": "the work"}, {"text": "Done."}]
    first = world.add(world.brief("a", script({"steps": steps})))
    second = world.add(world.brief("b", script({"steps": [{"text": "Done."}]})))
    run = world.start("run", "-j", "1")
    until(reached.exists, "the worker")
    run.send_signal(signal.SIGINT)
    (world.root / "go").write_text("\n")
    run.wait(60)
    assert world.task(first)["status"] == "needs_review", world.story(first)
    assert world.task(second)["status"] == "queued"


def test_ctrl_c_twice_stops_now_and_goes_on_later(world: World) -> None:
    reached = world.root / "reached"
    body = script(
        {
            "times": 1,
            "steps": [{"write": {"path": "a.txt", "content": "a"}}, {"shell": f"touch {reached}; sleep 4325"}],
        },
        {"steps": [{"commit": {"message": "the work", "files": ["a.txt"]}}, {"text": "Done."}]},
    )
    task = world.add(world.brief("stop", body))
    run = world.start("run")
    until(reached.exists, "the worker")
    run.send_signal(signal.SIGINT)
    said = "finishing 1 worker; Ctrl-C again ends them now"  # two signals that are pending at once would be one
    until(lambda: said in (world.root / "run.out").read_text(), "the first was taken")
    run.send_signal(signal.SIGINT)
    run.wait(60)
    assert run.returncode == 130
    assert marked("sleep\x004325") == []
    assert world.attempts(task)[0]["outcome"] == "stopped", world.story(task)
    assert world.task(task)["status"] == "queued", world.story(task)
    world.run("run", check=True)
    assert world.task(task)["status"] == "needs_review", world.story(task)
    assert [a["prompt"] for a in world.attempts(task)] == ["first", "continue"]


def half_done(world: World, seconds: int, name: str) -> tuple[int, Path]:
    """A task whose worker has done a half, and then sleeps; whoever is asked to continue does the rest."""
    reached = world.root / "reached"
    half = {"write": {"path": "half.txt", "content": "a"}}
    commit = {"commit": {"message": "the work", "files": ["half.txt", "rest.txt"]}}
    rest = [{"write": {"path": "rest.txt", "content": "b"}}, commit, {"text": "Done."}]
    body = script(
        {"prompt": "Prompt: first", "steps": [half, {"shell": f"touch {reached}; sleep {seconds}"}]},
        {"prompt": "Prompt: continue", "steps": rest},
        {"steps": [{"commit": {"message": "the half", "files": ["half.txt"]}}, {"text": "Done."}]},
    )
    return world.add(world.brief(name, body)), reached


def test_term_stops_now_and_the_half_is_continued(world: World) -> None:
    """Nobody's failure in any listing, and the half is not committed as if it were the whole."""
    task, reached = half_done(world, 4327, "term")
    run = world.start("run")
    until(reached.exists, "the worker")
    run.send_signal(signal.SIGTERM)
    assert run.wait(60) == 143
    assert marked("sleep\x004327") == []
    attempt = world.attempts(task)[0]
    assert (attempt["outcome"], attempt["end_reason"], attempt["counted"]) == ("stopped", "stopped", 0)
    assert json.loads(world.task(task)["counters"])["lost"] == 0
    assert "was told to end it" in world.run("explain", str(task), check=True).stdout
    assert json.loads(world.run("log", "--outcome", "failed", "--json", check=True).stdout) == []
    world.run("run", check=True)
    assert [(a["prompt"], a["outcome"]) for a in world.attempts(task)] == [
        ("first", "stopped"),
        ("continue", "completed"),
    ]
    assert world.task(task)["status"] == "needs_review", world.story(task)
    assert world.branch_log(task) == ["the work"]


def test_hang_up_drains(world: World) -> None:
    """The terminal goes; the worker in flight is finished, whatever becomes of what is said."""
    reached, wait = gate(world.root)
    steps = [wait, {"write": {"path": "a.txt", "content": "a"}}, {"commit": "the work"}, {"text": "Done."}]
    first = world.add(world.brief("a", script({"steps": steps})))
    second = world.add(world.brief("b", script({"steps": [{"text": "Done."}]})))
    run = world.start("run", "-j", "1")
    until(reached.exists, "the worker")
    run.send_signal(signal.SIGHUP)
    said = "finishing 1 worker"
    until(lambda: said in (world.root / "run.out").read_text(), "it was taken")
    (world.root / "go").write_text("\n")
    assert run.wait(60) == 0
    assert world.task(first)["status"] == "needs_review", world.story(first)
    assert world.task(second)["status"] == "queued"


def test_a_paused_task_whose_worker_was_not_told_stays_paused(world: World) -> None:
    """No word reached the supervisor: the next run stops the worker, and the task goes on when a person says so."""
    task, reached = half_done(world, 4328, "paused")
    run = world.start("run")
    until(reached.exists, "the worker")
    run.kill()
    run.wait()
    control = Path(world.attempts(task)[0]["folder"]) / "control"
    aside = control.rename(control.with_name("aside"))
    control.symlink_to("/dev/null")
    world.run("pause", str(task), check=True)
    aside.replace(control)
    world.run("run")
    assert marked("sleep\x004328") == []
    assert world.task(task)["status"] == "paused", world.story(task)
    assert world.attempts(task)[0]["outcome"] == "stopped", world.story(task)
    world.run("resume", str(task), check=True)
    world.run("run", check=True)
    assert [a["prompt"] for a in world.attempts(task)] == ["first", "continue"]


def test_pause_and_resume(world: World) -> None:
    reached = world.root / "reached"
    body = script(
        {
            "times": 1,
            "steps": [{"write": {"path": "a.txt", "content": "a"}}, {"shell": f"touch {reached}; sleep 4326"}],
        },
        {"steps": [{"commit": {"message": "the work", "files": ["a.txt"]}}, {"text": "Done."}]},
    )
    task = world.add(world.brief("pause", body))
    run = world.start("run")
    until(reached.exists, "the worker")
    world.run("pause", str(task), check=True)
    run.wait(60)
    assert world.task(task)["status"] == "paused", world.story(task)
    world.run("resume", str(task), check=True)
    world.run("run", check=True)
    assert world.task(task)["status"] == "needs_review", world.story(task)
    assert [a["prompt"] for a in world.attempts(task)] == ["first", "continue"]
