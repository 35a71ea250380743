"""Bad input, through the installed program: one clear line and a hint, exit 2, no traceback, nothing lost."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.world import World, scripted_world

GOOD = "Do nothing much.\n\n```script\n[]\n```\n"


@pytest.fixture
def world(tmp_path: Path) -> World:
    return scripted_world(tmp_path)


def refused(done: subprocess.CompletedProcess[str], *words: str) -> None:
    """One line that says what is wrong, one hint, exit 2."""
    assert done.returncode == 2, (done.returncode, done.stdout, done.stderr)
    lines = done.stderr.strip().splitlines()
    assert [line.partition(":")[0] for line in lines] == ["error", "hint"], done.stderr
    assert not done.stdout.strip()
    for word in words:
        assert word in done.stderr, (word, done.stderr)


BRIEFS: dict[str, tuple[bytes, tuple[str, ...]]] = {
    "empty": (b"", ("brief.md", "empty")),
    "only front matter": (b"---\ntitle: x\n---\n", ("brief.md",)),
    "not UTF-8": (b"# Title\n\nbad \xff\xfe bytes\n", ("brief.md:3", "UTF-8")),
    "NUL": (b"# Title\n\nbad \x00 byte\n", ("brief.md:3", "NUL")),
    "unknown difficulty": (b"---\ndifficulty: brutal\n---\nx\n", ("brief.md:2", "brutal", "hard")),
    "unknown key": (b"---\nverifi: [make]\n---\nx\n", ("brief.md:2", "verifi", "verify")),
    "duplicate key": (b"---\ntitle: a\ntitle: b\n---\nx\n", ("brief.md:3", "title")),
    "tab": (b"---\nlimits:\n\tstall: 4m\n---\nx\n", ("brief.md:3",)),
}


@pytest.mark.parametrize("case", BRIEFS)
def test_a_bad_brief(world: World, case: str) -> None:
    raw, words = BRIEFS[case]
    path = world.home / "briefs/brief.md"
    path.write_bytes(raw)
    refused(world.run("add", "--repo", str(world.repo), str(path)), *words)
    assert world.rows("select * from task") == [] if (world.home / "logs/dispatcher.db").exists() else True


def test_a_missing_brief(world: World) -> None:
    refused(world.run("add", str(world.home / "briefs/none.md")), "none.md")


CONFIGS: dict[str, tuple[Callable[[str], str], tuple[str, ...]]] = {
    "unknown key": (lambda text: text + "limitz: {}\n", ("models.yaml", "limitz", "limits")),
    "duplicate key": (lambda text: text + "limits: {}\n", ("models.yaml", "limits")),
    "YAML boolean as a name": (
        lambda text: text.replace("  second:", "  yes:").replace("first, second, third", "first, yes, third"),
        ("models.yaml:5", "yes"),
    ),
    "a route names nobody": (lambda text: text.replace("[first, second", "[first, secnod"), ("secnod", "second")),
    "no model": (lambda text: text.replace(", model: scripted/s2", ""), ("models.yaml:5", "model")),
    "not YAML": (lambda text: text + "{[\n", ("models.yaml",)),
}


@pytest.mark.parametrize("case", CONFIGS)
def test_a_bad_configuration_loses_no_task(world: World, case: str) -> None:
    """What is queued stays queued while models.yaml is broken, and runs when it is mended."""
    task = world.add(world.brief("good", GOOD, expect="report"))
    good = (world.home / "models.yaml").read_text()
    change, words = CONFIGS[case]
    (world.home / "models.yaml").write_text(change(good))
    refused(world.run("run"), *words)
    assert world.task(task)["status"] == "queued"
    (world.home / "models.yaml").write_text(good)
    world.run("run")
    assert world.task(task)["status"] != "queued"


def test_a_folder_that_is_no_repository(world: World) -> None:
    plain = world.root / "plain"
    plain.mkdir()
    refused(world.run("add", str(world.brief("x", GOOD, repo=str(plain)))), str(plain))


def test_a_bare_repository(world: World) -> None:
    bare = world.root / "bare.git"
    world.git("init", "-q", "--bare", str(bare))
    refused(world.run("add", str(world.brief("x", GOOD, repo=str(bare)))), "bare")


def test_an_untrusted_home(world: World) -> None:
    """A home that somebody copied here may run commands: it is looked at first."""
    other = world.root / "other"
    shutil.copytree(world.home, other)
    done = world.run("run", env={**world.environment, "DISPATCHER_HOME": str(other)})
    refused(done, "other", "dispatcher trust")


def test_a_log_folder_that_cannot_be_written(world: World) -> None:
    shutil.rmtree(world.home / "logs", ignore_errors=True)
    (world.home / "logs").write_text("a file in the way\n")
    refused(world.run("add", str(world.brief("x", GOOD))), "logs")


def test_a_newer_database(world: World) -> None:
    world.add(world.brief("x", GOOD))
    connection = sqlite3.connect(world.home / "logs/dispatcher.db")
    connection.execute("pragma user_version = 9999")
    connection.close()
    before = (world.home / "logs/dispatcher.db").read_bytes()
    refused(world.run("run"), "newer")
    refused(world.run("status"), "newer")
    assert (world.home / "logs/dispatcher.db").read_bytes() == before


def test_a_missing_cli_needs_a_person_and_nothing_is_lost(world: World) -> None:
    """No model is punished, no other harness is tried in its place: the task says what to install."""
    text = world.config_text() + "harnesses: {scripted: {path: /nowhere/worker}}\n"
    (world.home / "models.yaml").write_text(text)
    task = world.add(world.brief("x", GOOD))
    done = world.run("run")
    row = world.task(task)
    assert done.returncode in (1, 75), done.stderr
    assert row["status"] == "needs_human", row
    assert "not installed" in row["status_reason"] or "/nowhere/worker" in row["status_reason"]
    assert world.rows("select * from hold") == []


def test_an_unborn_head_works(world: World) -> None:
    """A fresh `git init` as target: the first commit is the result."""
    fresh = world.root / "fresh"
    fresh.mkdir()
    world.git("init", "-q", "-b", "main", cwd=fresh)
    steps = '[{"steps": [{"write": {"path": "a.txt", "content": "a"}}, {"commit": "begin"}, {"text": "Done."}]}]'
    task = world.do(world.brief("unborn", f"Begin.\n\n```script\n{steps}\n```", repo=str(fresh)))
    row = world.task(task)
    assert row["status"] == "needs_review", world.story(task)
    assert world.git("log", "--format=%s", row["branch"], cwd=fresh) == "begin"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("show", "99"), "99"),
        (("cancel", "99"), "99"),
        (("run", "--task", "99"), "99"),
        (("run", "-j", "0"), "0"),
        (("nonsense",), "nonsense"),
        (("log", "--nonsense"), "nonsense"),
    ],
)
def test_bad_arguments(world: World, words: tuple[str, ...], said: str) -> None:
    world.add(world.brief("x", GOOD))
    refused(world.run(*words), said)
