"""A home folder of its own for each test, so that nobody's git configuration decides a result."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.repository.kit import Task, commit, init, start

CONFIG = """
[user]
    name = Pat
    email = pat@example.org
[init]
    defaultBranch = main
[protocol "file"]
    allow = always
"""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    (folder / ".gitconfig").write_text(CONFIG)
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    return folder


@pytest.fixture
def target(tmp_path: Path) -> Path:
    root = init(tmp_path / "target")
    commit(root, "a.txt", "one\n", "first")
    return root


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    return tmp_path / "copies" / "7"


@pytest.fixture
def task(target: Path, copy: Path) -> Task:
    return start(target, copy)
