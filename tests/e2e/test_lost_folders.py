"""Folders that vanish, and homes that meet in one repository: nothing of a worker is lost, and the words are plain."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.world import World, marked, script, scripted_world

LIMITED = {"error": {"status": 429, "message": "Rate limit exceeded", "retry_after": 3600}}
DONE = {"text": "Done."}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    yield scripted_world(tmp_path)
    assert marked(str(tmp_path)) == [], "a process was left behind"


def work(text: str) -> list[dict[str, Any]]:
    return [{"write": {"path": "a.txt", "content": text}}, {"commit": f"the work of {text}"}, DONE]


def refs(world: World) -> dict[str, str]:
    lines = world.git("for-each-ref", "--format=%(refname) %(objectname)").splitlines()
    return dict(line.split(" ") for line in lines)


def do_in(world: World, home: Path, text: str) -> dict[str, Any]:
    """One task in a home of its own on the same repository."""
    if not (home / "models.yaml").exists():
        home.mkdir()
        shutil.copy(world.home / "models.yaml", home)
        world.run("trust", "--home", str(home), check=True)
    brief = world.brief(text, script({"steps": work(text)}), title="Same title")
    world.run("add", str(brief), "--home", str(home), check=True)
    world.run("run", "--home", str(home), check=True)
    shown: dict[str, Any] = json.loads(world.run("show", "1", "--json", "--home", str(home), check=True).stdout)["task"]
    return shown


def test_two_homes_on_one_repository(world: World) -> None:
    first = do_in(world, world.home, "here")
    before = refs(world)
    second = do_in(world, world.root / "other", "there")
    after = refs(world)
    assert {name: after.get(name) for name in before} == before, "nothing was moved or removed"
    assert second["branch"] == f"{first['branch']}-2"
    assert world.git("show", f"{first['branch']}:a.txt") == "here"
    assert world.git("show", f"{second['branch']}:a.txt") == "there"
    assert world.git("show", "refs/dispatcher/1/1:a.txt") == "here"
    assert world.git("show", "refs/dispatcher/1/1.2:a.txt") == "there"


@pytest.mark.parametrize("copies", ["kept", "deleted"])
def test_a_home_made_again(world: World, copies: str) -> None:
    """The logs are deleted, with the copies or without: a new task 1 leaves all of the old task 1 where it is."""
    first = do_in(world, world.home, "old")
    before = refs(world)
    copy = Path(world.task(1)["copy_path"])
    shutil.rmtree(world.home / "logs")
    if copies == "deleted":
        shutil.rmtree(copy.parent)
    second = do_in(world, world.home, "new")
    after = refs(world)
    assert {name: after.get(name) for name in before} == before
    assert second["branch"] == f"{first['branch']}-2"
    assert world.git("show", f"{second['branch']}:a.txt") == "new"
    if copies == "kept":
        assert (copy / "a.txt").read_text() == "old"
        assert world.task(1)["copy_path"] == str(copy.with_name("work.2"))


def test_a_repository_that_vanishes_while_a_worker_is_in_its_copy(world: World) -> None:
    task = world.add(world.brief("gone", script({"steps": [{"shell": f"mv {world.repo} {world.root}/away"}, DONE]})))
    world.run("run")
    row = world.task(task)
    assert (row["status"], row["status_reason"]) == ("needs_human", f"the repository {world.repo} is gone")
    told = world.run("explain", str(task), check=True).stdout
    assert "It ended by itself with exit code 0." in told
    assert "supervisor was killed" not in told
    world.run("retry", str(task), check=True)
    world.run("run")
    assert f"the repository {world.repo} is gone" in world.task(task)["status_reason"]
    assert len(world.attempts(task)) == 1, "no worker is started for it"


def test_a_copy_that_vanishes_while_a_worker_is_in_it(world: World) -> None:
    """With earlier work, the reason names the ref that has it; the next copy is a new one, and `retry` says so."""
    kept = [{"write": {"path": "a.txt", "content": "half"}}, {"commit": "half of it"}, LIMITED]
    vanish = {"shell": 'rm -rf "$PWD"'}
    rules: list[dict[str, Any]] = [
        {"model": "scripted/s1", "times": 1, "steps": kept},
        {"model": "scripted/s2", "times": 1, "steps": [vanish, DONE]},
        {"steps": work("again")},
    ]
    task = world.add(world.brief("gone", script(*rules)))
    world.run("run")
    row = world.task(task)
    copy = row["copy_path"]
    words = f"the task copy {copy} is gone; what it last held is kept on refs/dispatcher/1/1 of {world.repo}"
    assert (row["status"], row["status_reason"]) == ("needs_human", words), world.story(task)
    said = world.run("retry", str(task), check=True).stdout
    assert f"in a new copy ({copy} is gone)" in said
    assert "goes on in" not in said
    world.run("run", check=True)
    assert world.task(task)["status"] == "needs_review", world.story(task)
    assert world.git("show", "refs/dispatcher/1/1:a.txt") == "half"


def test_an_exit_record_is_told_though_nobody_judged_the_attempt(world: World) -> None:
    """An error of ours while it was settled leaves the row without it; the folder has it."""
    task = world.do(world.brief("one", script({"steps": work("one")})))
    folder = Path(world.attempts(task)[0]["folder"])
    with sqlite3.connect(world.home / "logs/dispatcher.db") as connection:
        connection.execute("update attempt set end_reason = null, exit_code = null")
    connection.close()
    assert "It ended by itself with exit code 0." in world.run("explain", str(task), check=True).stdout
    (folder / "exit.json").write_text("{")
    assert "Its exit record cannot be read." in world.run("explain", str(task), check=True).stdout
    (folder / "exit.json").unlink()
    assert "It left no exit record" in world.run("explain", str(task), check=True).stdout
    shutil.rmtree(folder)
    assert "its folder is gone" in world.run("explain", str(task), check=True).stdout
