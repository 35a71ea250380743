"""`compare`: three scripted models of different quality write the same module; checks that they never see tell them
apart."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.world import World, marked, scripted_world

DATA = Path(__file__).with_name("cron")
BRIEF = Path(__file__).parents[2] / "briefs" / "cron-expression-parser.md"
QUALITY = {"scripted/s1": "good", "scripted/s2": "middling", "scripted/s3": "poor"}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    yield scripted_world(tmp_path)
    assert marked(str(tmp_path)) == [], "a process was left behind"


def write(path: str, source: str) -> dict[str, Any]:
    return {"write": {"path": path, "content": (DATA / f"{source}.txt").read_text()}}


def brief(world: World) -> Path:
    """The shipped brief, with hidden checks beside it and the script of its three models at its end."""
    rules: list[dict[str, Any]] = [
        {
            "model": model,
            "prompt": "Prompt: first",
            "steps": [
                {"usage": {"input": 1000 * number, "output": 100, "cost": 0.5}},
                write("cron_expression.py", quality),
                write("test_cron_expression.py", "test"),
                {"commit": f"a {quality} parser"},
                {"text": "Done."},
            ],
        }
        for number, (model, quality) in enumerate(QUALITY.items(), 1)
    ]
    rules.append({"steps": [{"text": "I find nothing more to do."}]})
    text = BRIEF.read_text(encoding="utf-8").replace(
        "---\ntitle", f"---\nrepo: {world.repo}\nhidden_checks: ../exam\ntitle", 1
    )
    path = world.home / "briefs" / "cron.md"
    path.write_text(f"{text}\n```script\n{json.dumps(rules)}\n```\n", encoding="utf-8")
    return path


@dataclass(frozen=True)
class Compared:
    world: World
    found: dict[str, Any]


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Compared]:
    root = tmp_path_factory.mktemp("compared")
    world = scripted_world(root)
    (world.home / "exam").symlink_to(DATA / "hidden")
    done = world.run("compare", str(brief(world)), "--candidates", "first,second,third", "--json")
    assert done.returncode == 0, done.stderr
    yield Compared(world, json.loads(done.stdout))
    assert marked(str(root)) == [], "a process was left behind"


def test_hidden_checks_tell_three_models_apart(compared: Compared) -> None:
    found = compared.found
    rows = found["candidates"]
    assert [row["candidate"] for row in rows] == ["first", "second", "third"], "as named, not ranked"
    assert [(row["delivered"], row["runs"]) for row in rows] == [(1, 1), (0, 1), (0, 1)]
    assert [(row["checks_passed"], row["checks"]) for row in rows] == [(1, 1)] * 3
    assert [(row["hidden_passed"], row["hidden"]) for row in rows] == [(5, 5), (3, 5), (1, 5)]
    assert [row["stalled"] for row in rows] == [0, 0, 0]
    assert rows[0]["attempts"] == 1
    assert rows[0]["tokens"] >= 1100
    assert rows[0]["cost_usd"] >= 0.5
    assert rows[0]["files"] == 2
    assert rows[0]["insertions"] > rows[2]["insertions"] > 0
    assert {run["status"] for run in found["runs"]} == {"needs_review", "needs_human"}

    shown = compared.world.run("compare", "--batch", found["batch"], check=True)
    head, first, second, third = shown.stdout.splitlines()[1:5]
    assert head.split()[:4] == ["candidate", "delivered", "checks", "hidden"]
    assert first.split()[:4] == ["first", "1/1", "1/1", "5/5"]
    assert second.split()[:4] == ["second", "0/1", "1/1", "3/5"]
    assert third.split()[:4] == ["third", "0/1", "1/1", "1/5"]
    assert "rank nobody" in shown.stderr


def test_each_run_is_alone_with_the_same_start_and_the_same_words(compared: Compared) -> None:
    world = compared.world
    tasks = world.rows("select * from task order by id")
    assert len(tasks) == 3
    assert len({task["copy_path"] for task in tasks}) == 3
    start = world.git("rev-parse", "main")
    prompts = set()
    for task in tasks:
        [attempt, *_] = world.attempts(task["id"])
        assert attempt["base_commit"] == start
        text = (Path(attempt["folder"]) / "prompt.md").read_text()
        prompts.add(text.replace(task["copy_path"], "COPY"))
        assert "check_5" not in text, "hidden checks are never told"
    assert len(prompts) == 1, "no word tells a model that it is compared, or with whom"
    assert world.git("log", "--format=%s", "main") == "start"
    [branch] = [task["branch"] for task in tasks if task["status"] == "needs_review"]
    assert world.git("log", "-1", "--format=%s", branch) == "a good parser"
    again = world.run("add", str(world.home / "briefs" / "cron.md"), check=True)
    assert "task 4 added" in again.stdout, "a comparison is not the brief's own task"


def test_what_cannot_be_compared_is_said(world: World) -> None:
    path = world.brief("chained", "Do it.", after=["1"])
    wrong = {
        ("compare", str(path), "--candidates", "first,second"): "comes after others",
        ("compare", str(path), "--candidates", "first,frist"): "no candidate 'frist'",
        ("compare", str(path), "--candidates", "first,first"): "each candidate once",
        ("compare", str(path)): "each candidate once",
        ("compare",): "which brief?",
        ("compare", str(world.root / "no.md"), "--candidates", "first"): "cannot be read",
        ("compare", str(world.home / "briefs"), "--candidates", "first"): "is a folder",
    }
    for words, says in wrong.items():
        done = world.run(*words)
        assert (done.returncode, done.stdout) == (2, ""), words
        assert says in done.stderr, words
    assert world.rows("select count(*) as n from task")[0]["n"] == 0


def test_several_runs_and_a_candidate_on_hold(world: World) -> None:
    rules = [
        {"model": "scripted/s2", "steps": [{"error": {"status": 429, "message": "Rate limit", "retry_after": 7200}}]},
        {"steps": [{"write": {"path": "a.txt", "content": "a"}}, {"commit": "the work"}, {"text": "Done."}]},
    ]
    path = world.brief("twice", f"Do it.\n\n```script\n{json.dumps(rules)}\n```", auto_accept="checks", verify=["true"])
    done = world.run("compare", str(path), "--candidates", "first,second", "--times", "2", "--batch", "b", "--json")
    assert done.returncode == 75, done.stderr
    rows = json.loads(done.stdout)["candidates"]
    assert [(row["candidate"], row["runs"], row["delivered"], row["left"]) for row in rows] == [
        ("first", 2, 2, 0),
        ("second", 2, 0, 2),
    ]
    assert "2 runs left" in done.stderr
    assert {run["status"] for run in json.loads(done.stdout)["runs"]} == {"needs_review", "waiting"}, (
        "accepted by nobody"
    )
    assert {a["candidate"] for a in world.rows("select candidate from attempt where outcome='completed'")} == {"first"}
