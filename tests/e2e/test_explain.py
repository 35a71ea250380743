"""`explain`: the story of a task that met a hold, a limit and unfinished work, told from what is stored."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.world import World, marked, script, scripted_world


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    yield scripted_world(tmp_path)
    assert marked(str(tmp_path)) == [], "a process was left behind"


def test_the_story_of_a_task(world: World) -> None:
    limited = {"error": {"status": 429, "message": "Rate limit exceeded. Try again later.", "retry_after": 7200}}
    work = [{"shell": "echo 2 > value.txt"}, {"text": "I stop here."}]
    finish = [{"commit": {"message": "set the value", "files": ["value.txt"]}}, {"text": "Done."}]
    body = script(
        {"model": "scripted/s2", "steps": [limited]},
        {"prompt": "Prompt: first", "steps": work},
        {"prompt": "Prompt: finish", "steps": finish},
    )
    world.brief("story", body, verify=["./check.sh"])
    task = world.add(world.home / "briefs" / "story.md")
    world.run("hold", "first", "--for", "3h", "--reason", "it is being repaired", check=True)
    world.run("run", check=True)

    told = world.run("explain", str(task), check=True).stdout
    in_order = (
        f"Task {task}: Do what the script says.",
        "It counts as medium: ",
        "Attempt 1,",
        "second (scripted, scripted/s2) was given the brief",
        "Skipped first: on hold (candidate): it is being repaired, until 20",
        "Seen: rate_limited, ",
        "In git: nothing changed.",
        "Decided: the brief is given out once more, because",
        "It does not count against the candidate.",
        "Held: model test/scripted/s2 until 20",
        "Attempt 2,",
        "third (scripted, scripted/s3) was given the brief",
        "Skipped first: ",
        "Skipped second: ",
        "Seen: completed",
        "In git: 1 file not committed (value.txt).",
        "Decided: the work is there, so it is finished and not done again",
        "Attempt 3,",
        "was asked to finish the work that was there",
        "In git: 1 commit (set the value).",
        "Decided: the work is ready for review",
        "1 of 1 check passed.",
        "Spent on test (free)",
        "$0.00 billed by plan",
        f"Next: dispatcher review {task}",
    )
    flat = " ".join(told.split())
    place = 0
    for words in in_order:
        found = flat.find(" ".join(words.split()), place)
        assert found >= 0, (words, told)
        place = found
    assert max(map(len, told.splitlines())) <= 100

    story = json.loads(world.run("explain", str(task), "--json", check=True).stdout)
    attempts = [chapter for chapter in story["chapters"] if chapter["kind"] == "attempt"]
    assert [(a["candidate"], a["outcome"], a["verdict"]) for a in attempts] == [
        ("second", "rate_limited", "redispatch"),
        ("third", "completed", "finish"),
        ("third", "completed", "review"),
    ]
    assert [one["name"] for one in attempts[1]["skipped"]] == ["first", "second"]
    assert attempts[0]["skipped"][0]["until"] is not None
    assert story["status"] == "needs_review"


def test_a_wait_says_who_was_skipped_and_a_wrong_number_is_an_error(world: World) -> None:
    task = world.add(world.brief("held", script({"steps": [{"text": "Done."}]})))
    for name in ("first", "second", "third"):
        world.run("hold", name, "--for", "3h", "--reason", f"{name} rests", check=True)
    assert world.run("run").returncode == 75
    told = world.run("explain", str(task), check=True).stdout
    assert "No candidate could be used." in told
    for name in ("first", "second", "third"):
        assert f"Skipped {name}: on hold (candidate): {name} rests" in " ".join(told.split())
    assert "It waits: every candidate is on hold" in told
    assert "Next try 20" in told

    wrong = world.run("explain", "99")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "no task 99" in wrong.stderr
