"""Logs that were put aside for another attempt of their number: they go by their age, unless somebody needs them."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path

import pytest

from dispatcher.supervisor import spec
from tests.cli.conftest import Run
from tests.cli.story import Story

DAY = 86400


def put_aside(home: Path, name: str, marker: str, days: float) -> Path:
    """What `logs/<task>/<number>` was, before another attempt of that number needed its place."""
    folder = home / "logs" / f"{name}.before-{time.time() - days * DAY:.0f}"
    folder.mkdir(parents=True)
    (folder / "stdout").write_text("said\n", encoding="utf-8")
    spec.write(spec.AttemptSpec(marker=marker, argv=("true",), cwd="/", stdin="/dev/null", folder=str(folder)))
    return folder


@pytest.fixture
def queue(home: Path) -> None:
    story = Story(home)
    story.begin(story.task(), marker="1-known")
    story.store.close()


def removed(run: Run, *words: str) -> set[str]:
    said = run("prune", "--json", *words)
    assert said.code == 0, said.err
    return {row["what"] for row in json.loads(said.out)}


def test_logs_of_nobody_go_when_they_are_old(home: Path, queue: None, run: Run) -> None:
    old, young = put_aside(home, "1/1", "1-lost", 40), put_aside(home, "1/2", "1-lost-too", 20)
    alone, known = put_aside(home, "7/1", "7-lost", 40), put_aside(home, "9/1", "1-known", 40)
    assert removed(run, "--dry-run") == {str(old), str(alone)}
    assert old.exists()
    assert removed(run) == {str(old), str(alone)}
    assert [folder.exists() for folder in (old, alone, young, known)] == [False, False, True, True]
    assert not alone.parent.exists(), "nothing is left in it"
    assert (home / "logs/1/1/stdout").exists(), "the attempt that took the place"
    assert removed(run, "--older", "10d") == {str(young)}


def test_what_cannot_be_told_is_kept(
    home: Path, queue: None, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torn, empty = put_aside(home, "1/1", "1-a", 40), put_aside(home, "1/2", "1-b", 40)
    (torn / "attempt.json").write_text("{")
    (empty / "attempt.json").unlink()
    shutil.move(put_aside(home, "1/3", "1-c", 40), elsewhere := tmp_path / "elsewhere-of-mine")
    (home / "logs/1/3.before-5").symlink_to(elsewhere)
    (home / "logs/mine").mkdir()
    shutil.move(put_aside(home, "1/4", "1-d", 40), home / "logs/mine/4.before-5")
    lives = put_aside(home, "1/5", "1-e", 40)
    monkeypatch.setattr(spec, "alive", lambda folder: folder == lives)
    assert removed(run) == set()
