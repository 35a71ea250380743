"""A home, a repository, and the command line in this process with its output in hand."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from dispatcher.cli.entry import main

ROOT = Path(__file__).resolve().parents[2]

MODELS = """\
credentials:
  zen: {billing: free}
  plan: {billing: subscription}
candidates:
  small: {harness: scripted, model: demo/free-small, credential: zen}
  large: {harness: scripted, model: demo/free-large, credential: zen}
  strong: {harness: scripted, model: demo/strong, credential: plan}
routes:
  trivial: [small, large]
  easy: [small, large]
  medium: [strong]
  hard: [strong]
difficulty:
  - {match: {title: typo}, is: trivial}
limits: {max_load_per_core: 1000, min_free_memory: 1MiB, min_free_disk: 1MiB}
"""


@dataclass(frozen=True)
class Said:
    """What one command line did."""

    code: int
    out: str
    err: str


Run = Callable[..., Said]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A trusted home; the current folder is an empty one outside any repository."""
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "user" / name.lower()))
    monkeypatch.setenv("DISPATCHER_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))  # for commands in a process of their own, installed or not
    folder = tmp_path / "home"
    folder.mkdir()
    (folder / "models.yaml").write_text(MODELS, encoding="utf-8")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    from dispatcher.config import trust

    trust(folder)
    return folder


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    folder.mkdir()
    for words in (
        ["init", "-q", "-b", "main"],
        ["config", "user.name", "Somebody"],
        ["config", "user.email", "somebody@example.invalid"],
        ["commit", "-q", "--allow-empty", "-m", "start"],
    ):
        subprocess.run(["git", "-C", str(folder), *words], check=True)
    return folder


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str]) -> Run:
    """`run("status", "--json")` in this process."""

    def call(*words: str) -> Said:
        capfd.readouterr()
        code = main(list(words))
        out, err = capfd.readouterr()
        return Said(code, out, err)

    return call


@pytest.fixture
def brief(tmp_path: Path) -> Callable[..., Path]:
    """Write a brief file: `brief("# Fix it\\n", name="fix.md")`."""

    def write(text: str | bytes, name: str = "brief.md") -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write
