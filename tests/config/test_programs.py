"""Programs are found where installers put them, also with the PATH of cron."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from dispatcher.config import find_program, search_path
from dispatcher.errors import BadInput
from tests.config.samples import LEAST, environ_of, load_text


def install(path: Path) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n", encoding="utf-8")
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize(
    "below",
    [
        ".local/bin", ".opencode/bin", ".bun/bin", ".npm-global/bin", ".volta/bin", ".claude/local",
        ".nvm/versions/node/v22.1.0/bin", ".local/share/fnm/node-versions/v22.1.0/installation/bin",
    ],
)  # fmt: skip
def test_below_home_with_the_path_of_cron(tmp_path: Path, below: str) -> None:
    expected = install(tmp_path / "person" / below / "claude")
    assert find_program("claude", None, environ_of(tmp_path)) == (expected,)


def test_system_folders_are_looked_through() -> None:
    assert {"/opt/homebrew/bin", "/usr/local/bin"} <= set(search_path({}))


def test_path_wins_over_the_usual_places(tmp_path: Path) -> None:
    install(tmp_path / "person/.local/bin/opencode")
    first = install(tmp_path / "first/opencode")
    environ = {**environ_of(tmp_path), "PATH": f"/nowhere:{tmp_path}/first/:/usr/bin"}
    assert find_program("opencode", None, environ) == (first,)


def test_the_newest_node_wins(tmp_path: Path) -> None:
    for version in ("v9.11.2", "v22.1.0", "v22.0.9", "system"):
        install(tmp_path / f"person/.nvm/versions/node/{version}/bin/claude")
    newest = str(tmp_path / "person/.nvm/versions/node/v22.1.0/bin/claude")
    assert find_program("claude", None, environ_of(tmp_path)) == (newest,)


def test_a_shim_is_not_resolved(tmp_path: Path) -> None:
    target = Path(install(tmp_path / "lib/cli.js"))
    shim = tmp_path / "person/.local/bin/claude"
    shim.parent.mkdir(parents=True)
    shim.symlink_to(target)
    assert find_program("claude", None, environ_of(tmp_path)) == (str(shim),)


def test_relative_entries_of_path_are_not_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They would run a file of whatever folder the program was started in."""
    install(tmp_path / "claude")
    install(tmp_path / "bin/claude")
    monkeypatch.chdir(tmp_path)
    assert find_program("claude", None, {**environ_of(tmp_path), "PATH": ".::bin:/usr/bin"}) is None


def test_what_cannot_be_executed_is_not_found(tmp_path: Path) -> None:
    Path(install(tmp_path / "person/.local/bin/claude")).chmod(0o644)
    (tmp_path / "person/.bun/bin/claude").mkdir(parents=True)
    assert find_program("claude", None, environ_of(tmp_path)) is None


def test_a_configured_path_is_the_only_one(tmp_path: Path) -> None:
    install(tmp_path / "person/.local/bin/opencode")
    there = install(tmp_path / "there/opencode")
    config = load_text(tmp_path, LEAST + f"harnesses: {{opencode: {{path: [{there}, --flag]}}}}\n")
    assert find_program("opencode", config, environ_of(tmp_path)) == (there, "--flag")
    Path(there).unlink()
    assert find_program("opencode", config, environ_of(tmp_path)) is None  # never another one than the one named


def test_the_scripted_worker_is_started_by_file() -> None:
    command = find_program("scripted", None, {})
    assert command is not None
    assert command[:2] == (sys.executable, "-P")
    assert command[2].endswith("/dispatcher/demo/worker.py")


def test_an_unknown_harness() -> None:
    with pytest.raises(BadInput, match="no harness called 'codex'"):
        find_program("codex", None, {})
