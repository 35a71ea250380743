"""Stories from the field about cron, batches and storage that need the whole program. The numbers count the stories."""

from __future__ import annotations

import os
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from dispatcher import store
from dispatcher.task import TERMINAL, Status
from tests.e2e.world import World, fork_servers, gate, marked, script, scripted_world, supervisors, until

WORK = [{"write": {"path": "a.txt", "content": "a"}}, {"commit": "the work"}, {"text": "Done."}]
LIMITED = {"steps": [{"error": {"status": 429, "message": "Rate limit exceeded", "retry_after": 3600}}]}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    yield scripted_world(tmp_path)
    assert marked(str(tmp_path)) == [], "a process was left behind"


def change(world: World, sql: str, *values: object) -> None:
    with store.open(world.home / "logs/dispatcher.db") as db, db.write() as transaction:
        transaction.execute(sql, values)


def test_58_a_list_that_a_shell_loop_reads_is_not_eaten(world: World) -> None:
    """while read brief; do dispatcher ...; done < list"""
    for name in ("a", "b"):
        world.brief(name, f"Brief {name}.\n" + script({"steps": WORK}))
    names = world.root / "list"
    names.write_text("a\nb\n")
    add, run = world.command("add"), world.command("run")
    loop = f'while read name; do {" ".join(add)} "{world.home}/briefs/$name.md" && {" ".join(run)}; done < {names}'
    subprocess.run(["sh", "-c", loop], env=world.environment, cwd=world.root, check=True, capture_output=True)
    assert [row["status"] for row in world.rows("select status from task")] == ["needs_review"] * 2


def test_120_cancel_works_in_every_state_that_is_not_final(world: World) -> None:
    """What is finished is accepted or rejected instead."""
    states = [one for one in Status if one not in TERMINAL | {Status.NEEDS_REVIEW}]
    ids = [world.add(world.brief(str(one), f"{one}.\n" + script({"steps": WORK}))) for one in states]
    for task, status in zip(ids, states, strict=True):
        owner = "gone-1-00000000" if status is Status.RUNNING else None
        change(world, "update task set status = ?, owner = ? where id = ?", str(status), owner, task)
    world.run("cancel", *map(str, ids), check=True)
    assert {row["status"] for row in world.rows("select status from task")} == {"cancelled"}
    world.run("run", check=True)
    assert world.rows("select * from attempt") == []


def test_120_121_and_125_a_task_that_waits(world: World) -> None:
    """Every model is parked: no process, the time is told, another zone changes nothing, and in the end it expires."""
    task = world.add(world.brief("waits", script(LIMITED), limits={"max_wait": "2h"}))
    first = world.run("run")
    assert first.returncode == 75, (first.stderr, world.story(task))
    row, tried = world.task(task), len(world.attempts(task))
    assert row["status"] == "waiting"
    held = world.rows("select until from hold where lifted_at is null")
    assert row["not_before"] == min(one["until"] for one in held)
    for zone in ("Pacific/Kiritimati", "America/Los_Angeles"):
        again = world.run("run", env={**world.environment, "TZ": zone})
        assert again.returncode == 75
        assert "all candidates" in again.stderr or "hold" in again.stderr + again.stdout
    assert len(world.attempts(task)) == tried
    assert world.task(task)["not_before"] == row["not_before"]

    change(world, "update task set not_before = 1 where id = ?", task)
    assert world.run("run").returncode == 75, "looked at again, still held"
    change(world, "update event set at = at - 10000 where task_id = ?", task)
    change(world, "update task set not_before = 1 where id = ?", task)
    assert world.run("run").returncode == 0
    assert world.task(task)["status"] == "expired", world.story(task)
    assert "waited longer" in world.task(task)["status_reason"]
    assert len(world.attempts(task)) == tried


def test_128_and_133_while_a_worker_runs(world: World) -> None:
    """No transaction is open, and nothing that the worker started has the database or a lock in its hands."""
    reached, wait = gate(world.root)
    task = world.add(world.brief("open", script({"steps": [wait, *WORK]})))
    run = world.start("run")
    until(reached.exists, "the worker")
    writer = sqlite3.connect(world.home / "logs/dispatcher.db", timeout=0, isolation_level=None)
    writer.execute("BEGIN IMMEDIATE")
    writer.execute("ROLLBACK")
    writer.close()
    marker = world.attempts(task)[0]["marker"]
    [supervisor] = supervisors(world.home / "logs")
    servers = fork_servers(world.home / "logs")
    tree = [pid for pid in marked(f"DISPATCHER_ATTEMPT={marker}") if pid != run.pid]
    assert len(tree) >= 2  # worker, its shell
    for pid in (*servers, supervisor, *tree):
        names = {os.readlink(fd) for fd in Path(f"/proc/{pid}/fd").iterdir()}
        assert not [name for name in names if "dispatcher.db" in name or "runner-" in name]
        assert pid == supervisor or not [name for name in names if name.endswith("attempt.lock")]
    [worker] = [pid for pid in tree if stat_of(pid)[1] == str(supervisor)]
    started = int(stat_of(worker)[19])
    (world.root / "go").write_text("\n")
    assert run.wait(60) == 0
    assert world.task(task)["status"] == "needs_review", world.story(task)
    row = world.attempts(task)[0]
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert (row["pid"], row["pid_start"], row["boot"]) == (worker, started, boot), "kept after the end"


def stat_of(pid: int) -> list[str]:
    """The fields of /proc/PID/stat after the name: state, parent, ..., the start as the twentieth."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def in_place(world: World) -> None:
    world.extra_config = f"repositories: {{'{world.repo}': {{copy: in_place}}}}\n"
    world.write_config()


def made(name: str) -> list[dict[str, object]]:
    return [{"write": {"path": f"{name}.txt", "content": name}}, {"commit": f"add {name}"}, {"text": "Done."}]


def test_118_two_tasks_never_share_one_checkout(world: World) -> None:
    """In place, two at a time: the second one waits until the first has ended, and is not a person's business. A third
    one later has its turn, too."""
    in_place(world)
    reached, wait = gate(world.root)
    one = world.add(world.brief("one", "One.\n" + script({"steps": [wait, *made("one")]})))
    run = world.start("run", "-j", "2")
    until(reached.exists, "the first worker")
    two = world.add(world.brief("two", "Two.\n" + script({"steps": made("two")})))
    until(lambda: "works in the same checkout" in (world.root / "run.out").read_text(), "the second one")
    assert world.attempts(two) == []
    (world.root / "go").write_text("\n")
    assert run.wait(60) == 0, (world.root / "run.out").read_text()
    first, second = world.attempts(one)[0], world.attempts(two)[0]
    assert first["ended_at"] <= second["started_at"]
    assert world.git("log", "--format=%s").splitlines() == ["add two", "add one", "start"]
    assert world.git("log", "-1", "--format=%s", world.task(two)["branch"]) == "add two"
    three = world.do(world.brief("three", "Three.\n" + script({"steps": made("three")})))
    assert {world.task(task)["status"] for task in (one, two, three)} == {"needs_review"}


def test_118_a_checkout_whose_task_needs_a_person_is_named(world: World) -> None:
    """What lies there is that task's: the next one is not let at it, and says what to do."""
    in_place(world)
    stuck = world.do(world.brief("stuck", "Stuck.\n" + script({"steps": [{"text": "Done."}]})), expect_exit=1)
    assert world.task(stuck)["status"] == "needs_human"
    later = world.do(world.brief("later", "Later.\n" + script({"steps": made("later")})), expect_exit=1)
    assert f"in use by task {stuck}, which is needs_human" in world.task(later)["status_reason"]
    world.run("cancel", str(stuck), check=True)
    world.run("retry", str(later), check=True)
    world.run("run", check=True)
    assert world.task(later)["status"] == "needs_review", world.story(later)


def test_118_a_checkout_whose_task_waits_is_asked_for_later(world: World) -> None:
    in_place(world)
    waits = world.add(world.brief("waits", "Waits.\n" + script(LIMITED), candidates=["first"]))
    assert world.run("run").returncode == 75
    later = world.add(world.brief("later", "Later.\n" + script({"steps": made("later")}), candidates=["second"]))
    assert world.run("run").returncode == 75
    row = world.task(later)
    assert (row["status"], world.attempts(later)) == ("waiting", []), world.story(later)
    assert f"task {waits} works in the same checkout" in row["status_reason"]
    assert row["not_before"] == world.task(waits)["not_before"]
