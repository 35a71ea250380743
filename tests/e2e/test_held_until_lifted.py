"""Every model is held until a person lifts it: the queue waits, one message is sent, and it goes on by itself."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.world import World, marked, script, scripted_world, until

WORK = [{"write": {"path": "a", "content": "a"}}, {"commit": "a"}]
LOGGED_OUT = [{"error": {"status": 401, "message": "invalid x-api-key"}}]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    yield scripted_world(tmp_path)
    assert marked(str(tmp_path)) == [], "a process was left behind"


def queue(world: World, number: int, *rules: dict[str, Any]) -> list[int]:
    body = script(*(rules or ({"steps": WORK},)))
    return [world.add(world.brief(f"task-{place}", f"Number {place}.\n\n{body}")) for place in range(number)]


def statuses(world: World) -> list[str]:
    return [row["status"] for row in world.rows("select status from task order by id")]


def events(world: World) -> int:
    return int(world.rows("select count(*) as n from event")[0]["n"])


def test_the_queue_waits_and_goes_on_after_the_release(world: World) -> None:
    queue(world, 3)
    world.run("hold", "test", "--reason", "the plan is for the others", check=True)
    ran = world.run("run")
    assert ran.returncode == 1, ran.stderr
    assert "3 tasks wait until you lift a hold" in ran.stderr
    assert statuses(world) == ["waiting"] * 3
    assert "the plan is for the others" in world.task(2)["status_reason"]
    assert world.task(2)["not_before"] is None
    assert world.attempts(2) == []

    before = events(world)
    again = world.run("run", "--json")
    assert again.returncode == 75, "work is left, and every model is on hold"
    assert json.loads(again.stdout)["held"] == 3
    assert events(world) == before, "nothing was looked at once more"
    assert "3 tasks wait until you lift a hold" in world.run("status", check=True).stdout
    assert json.loads(world.run("status", "--json", check=True).stdout)["held"] == 3
    assert "It waits until a hold is lifted" in world.run("explain", "2", check=True).stdout

    world.run("release", "test", check=True)
    assert world.run("run").returncode == 0, world.story(1)
    assert statuses(world) == ["needs_review"] * 3


def test_work_of_a_walk_that_ran_out_is_continued_after_the_release(world: World) -> None:
    """A login that expired holds the credential in the middle of the work; nothing is done twice."""
    begun = [{"write": {"path": "a", "content": "a"}}, *LOGGED_OUT]
    [task] = queue(world, 1, {"times": 1, "steps": begun}, {"steps": [{"commit": {"message": "a", "files": ["a"]}}]})
    assert world.run("run").returncode == 1
    assert (world.task(task)["status"], len(world.attempts(task))) == ("waiting", 1), world.story(task)

    assert "first, second, third: on hold (credential)" in world.task(task)["status_reason"]
    world.run("release", "test", check=True)
    assert world.run("run").returncode == 0, world.story(task)
    assert [attempt["prompt"] for attempt in world.attempts(task)] == ["first", "continue"]


def test_a_changed_models_yaml_is_looked_at_without_a_release(world: World) -> None:
    queue(world, 2)
    for name in ("first", "second", "third"):
        world.run("hold", name, check=True)
    assert world.run("run").returncode == 1
    assert world.run("run").returncode == 75

    text = world.config_text().replace(
        "candidates:", "candidates:\n  fourth: {harness: scripted, model: scripted/s4, credential: test}"
    )
    text = text.replace("[first, second, third]", "[first, second, third, fourth]")
    (world.home / "models.yaml").write_text(text)
    assert world.run("run").returncode == 0, world.story(1)
    assert [attempt["candidate"] for task in (1, 2) for attempt in world.attempts(task)] == ["fourth"] * 2


def test_a_person_hears_of_it_once(world: World) -> None:
    messages = world.root / "messages"
    messages.mkdir()
    world.extra_config = f"notify: 'cat > {messages}/$$; mv {messages}/$$ {messages}/$$.json'\n"
    world.write_config()
    queue(world, 3)
    world.run("hold", "test", "--reason", "no money left", check=True)
    assert world.run("run").returncode == 1
    assert world.run("run").returncode == 75

    until(lambda: bool(list(messages.glob("*.json"))), "the message")
    [told] = [json.loads(file.read_text()) for file in messages.glob("*.json")]
    assert (told["event"], told["task"]["status"]) == ("held", "waiting")
    assert "no money left" in told["task"]["reason"]
