"""Briefs that come after others: a chain that runs alone, and what stands in the way of one that does not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dispatcher.demo.model_server import ModelServer
from tests.clis import Cli
from tests.e2e.test_checks import work
from tests.e2e.world import World, marked, real_world, script, scripted_world


@pytest.fixture(params=["opencode", "claude"])
def real(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    cli: Cli = request.param
    with ModelServer() as server:
        yield real_world(tmp_path, cli, server)
    assert marked(str(tmp_path)) == [], "a process was left behind"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    yield scripted_world(tmp_path)
    assert marked(str(tmp_path)) == [], "a process was left behind"


def base_of(world: World, task: int) -> str:
    return str(json.loads(world.task(task)["task_base"])["base"])


def queued(world: World) -> dict[str, int]:
    """Queue the folder of briefs; task numbers by the first word of their titles."""
    world.run("add", str(world.home / "briefs"), check=True)
    return {row["title"].split()[0]: row["id"] for row in world.rows("select id, title from task")}


def ready(world: World) -> dict[int, tuple[str, str]]:
    rows: list[dict[str, Any]] = json.loads(world.run("ready", "--json", check=True).stdout)
    return {row["id"]: (row["state"], row["why"]) for row in rows}


@pytest.mark.real_cli
def test_three_briefs_in_a_chain_run_without_a_person(real: World) -> None:
    """Named out of order in their folder; each starts from the commit of the one before, checks accept the first."""
    real.brief("a-last", "Write three.", title="three", after="two", verify=["test -e one.txt -a -e two.txt"])
    real.brief("b-middle", "Write two.", title="two", after=["c-first.md"], verify=["test -e one.txt"])
    real.brief("c-first", "Write one.", title="one", verify=["true"], auto_accept="checks")
    steps = []
    for name in ("one", "two", "three"):
        step = {"shell": f"ls; echo {name} > {name}.txt && git add {name}.txt && git commit -qm 'write {name}'"}
        steps.append({"when": f"Write {name}.", "steps": [step, {"text": f"Wrote {name}."}]})
    real.script(0, steps)
    tasks = queued(real)
    assert tasks == {"one": 1, "two": 2, "three": 3}
    ran = real.run("run", "-j", "2")
    assert ran.returncode == 0, ran.stderr

    assert [real.task(task)["status"] for task in (1, 2, 3)] == ["accepted", "needs_review", "needs_review"]
    assert len({row["batch"] for row in real.rows("select batch from task")}) == 1
    for later, earlier in ((2, 1), (3, 2)):
        assert base_of(real, later) == real.task(earlier)["result_commit"]
    assert real.branch_log(3) == ["write three", "write two", "write one"]
    assert real.git("log", "--format=%s", "main") == "start"
    starts = [row["task_id"] for row in real.rows("select task_id from attempt order by started_at")]
    assert starts == [1, 2, 3]


def test_what_waits_for_what_and_why(world: World) -> None:
    world.brief("1", script({"steps": [{"text": "I cannot."}]}), title="stuck")
    world.brief("2", script({"steps": work("b.txt")}), title="behind", after="stuck")
    world.brief("3", script({"steps": work("c.txt")}), title="free")
    world.brief("4", script({"steps": work("d.txt")}), title="patient", after_accepted="free")
    tasks = queued(world)
    seen = ready(world)
    assert seen[tasks["stuck"]] == ("ready", "would go to first")
    assert seen[tasks["free"]] == ("ready", "would go to first")
    assert seen[tasks["behind"]] == ("blocked", f"waits for task {tasks['stuck']} (queued)")
    assert world.run("run").returncode == 1, "one task needs a person"

    seen = ready(world)
    assert set(seen) == {tasks["behind"], tasks["patient"]}
    state, why = seen[tasks["behind"]]
    assert state == "blocked"
    assert f"task {tasks['stuck']}, which it comes after, is needs_human: said done, changed nothing" in why
    assert seen[tasks["patient"]][1].startswith(f"waits for task {tasks['free']} to be accepted")
    again = world.run("run")
    assert again.returncode == 0
    assert world.task(tasks["patient"])["status"] == "queued"

    world.run("review", str(tasks["free"]), "--accept", "--into", "main", check=True)
    assert ready(world)[tasks["patient"]][0] == "ready"
    assert world.run("run").returncode == 0
    assert world.task(tasks["patient"])["status"] == "needs_review", world.story(tasks["patient"])
    assert base_of(world, tasks["patient"]) == world.git("rev-parse", "main")
    world.run("cancel", str(tasks["stuck"]), check=True)
    assert "is cancelled" in ready(world)[tasks["behind"]][1]


def test_a_squashed_predecessor_is_built_upon_as_it_landed(world: World) -> None:
    """The result became another commit on main; the next task starts from main, not from the old branch."""
    world.brief("1", script({"steps": [*work("a.txt")[:2], *work("b.txt")]}), title="first")
    world.brief("2", script({"steps": work("c.txt")}), title="second", after_accepted="1.md")
    tasks = queued(world)
    world.run("run", check=True)
    world.run("review", str(tasks["first"]), "--accept", "--into", "main", "--how", "squash", check=True)
    (world.repo / "later.txt").write_text("x\n")
    world.git("add", "later.txt")
    world.git("commit", "-qm", "later")
    world.run("run", check=True)
    assert world.task(tasks["second"])["status"] == "needs_review", world.story(tasks["second"])
    assert base_of(world, tasks["second"]) == world.git("rev-parse", "main")


def test_circles_and_unknown_names_queue_nothing(world: World) -> None:
    world.brief("1", "Do it.", title="one", after="2.md")
    world.brief("2", "Do it.", title="two", after="one")
    refused = world.run("add", str(world.home / "briefs"))
    assert refused.returncode == 2
    assert "wait for each other" in refused.stderr
    world.brief("3", "Do it.", title="three")
    by_cron = world.run("run", "--add", str(world.home / "briefs"), "--max-tasks", "1", "--dry-run")
    assert by_cron.returncode == 2
    assert "wait for each other" in by_cron.stderr
    assert [row["title"] for row in world.rows("select title from task")] == ["three"], "the others are queued"
    world.brief("1", "Do it.", title="one")
    world.brief("2", "Do it.", title="two", after="nobody")
    refused = world.run("add", str(world.home / "briefs"))
    assert refused.returncode == 2
    assert "2.md: there is no task 'nobody', which it comes after" in refused.stderr
    assert len(world.rows("select * from task")) == 1


def test_a_task_after_several_starts_from_a_merge_of_all_of_them(world: World) -> None:
    """Also of three; the same results give the same commit again; the merge is ours and no hook of the target ran."""
    for name in ("pre-merge-commit", "pre-commit", "post-merge", "post-commit", "reference-transaction"):
        hook = world.repo / ".git/hooks" / name
        hook.write_text(f'#!/bin/sh\ncase "$PWD" in {world.repo}*) touch {world.root}/hook-ran ;; esac\n')
        hook.chmod(0o755)
    for name in ("one", "two", "three"):
        world.brief(name, script({"steps": work(f"{name}.txt")}), title=name)
    seen = "test -e one.txt -a -e two.txt -a -e three.txt"
    world.brief("z", script({"steps": work("z.txt")}), title="last", after=["one", "two", "three"], verify=[seen])
    tasks = queued(world)
    world.run("run", "-j", "1", check=True)
    assert world.task(tasks["last"])["status"] == "needs_review", world.story(tasks["last"])
    base = base_of(world, tasks["last"])
    said = world.git("log", "-1", "--format=%cn %ce %s", base)
    assert said == "dispatcher dispatcher@localhost Merge the results of task 1 and task 2 and task 3"
    for name in ("one", "two", "three"):
        result = world.task(tasks[name])["result_commit"]
        assert world.git("merge-base", base, result) == result
    assert world.branch_log(tasks["last"])[0] == "add z.txt"
    refs = world.git("for-each-ref", "--format=%(objectname)", f"refs/dispatcher/{tasks['last']}").split()
    assert base in refs, "the merge stays on a ref"
    assert world.git("status", "--porcelain") == ""
    assert not (world.root / "hook-ran").exists()


def test_results_that_conflict_are_for_a_person(world: World) -> None:
    """No worker is started; the files are named; with a `base` of the person's own it goes on."""
    for name in ("one", "two"):
        steps = [{"write": {"path": "value.txt", "content": f"{name}\n"}}, {"commit": f"say {name}"}, {"text": "Done."}]
        world.brief(name, script({"steps": steps}), title=name)
    world.brief("z", script({"steps": work("z.txt")}), title="last", after=["one", "two"])
    tasks = queued(world)
    ran = world.run("run", "-j", "1")
    assert ran.returncode == 1
    row = world.task(tasks["last"])
    assert row["status"] == "needs_human"
    assert "the results of task 1 and task 2 conflict in value.txt" in row["status_reason"]
    assert f"dispatcher edit {tasks['last']}" in row["status_reason"]
    assert world.attempts(tasks["last"]) == []
    branch = world.task(tasks["one"])["branch"]
    path = world.brief("z", script({"steps": work("z.txt")}), title="last", after=["one", "two"], base=branch)
    editor = world.root / "editor"
    editor.write_text(f'#!/bin/sh\ncp {path} "$1"\n')
    editor.chmod(0o755)
    world.run("edit", str(tasks["last"]), check=True, env={**world.environment, "EDITOR": str(editor)})
    world.run("retry", str(tasks["last"]), check=True)
    world.run("run", check=True)
    assert world.task(tasks["last"])["status"] == "needs_review", world.story(tasks["last"])
    assert base_of(world, tasks["last"]) == world.task(tasks["one"])["result_commit"]
