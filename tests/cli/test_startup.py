"""What a command imports is what it costs: heavy libraries stay off the commands that people and cron start all day.

Seen with `-X importtime`, in a process of its own, on a home with a task in it. No time is measured here.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Said

HEAVY = frozenset({"sqlmodel", "sqlalchemy", "alembic", "pydantic", "rich", "git", "anyio", "asyncio", "psutil"})
LOOKS = HEAVY | {"typer", "yaml", "dataclasses"}
QUICK = HEAVY | {"typer", "yaml"}


def imported(*words: str, environment: dict[str, str] | None = None) -> frozenset[str]:
    """The top-level packages that a command line imports, in a pipe."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "dispatcher.cli", *words],
        capture_output=True,
        stdin=subprocess.DEVNULL,
        text=True,
        check=False,
        env={**os.environ, **(environment or {})},
    )
    assert done.returncode == 0, done.stderr.splitlines()[-2:]
    names = re.findall(r"^import time:.*\|\s*([\w.]+)$", done.stderr, re.MULTILINE)
    return frozenset(name.partition(".")[0] for name in names)


@pytest.fixture
def queued(home: Path, run: Callable[..., Said], brief: Callable[..., Path]) -> Path:
    """A brief that is queued, in a home whose configuration was parsed before."""
    path = brief("# Say what this is\n\nIn one line.\n")
    text = "---\nexpect: report\n---\n" + path.read_text(encoding="utf-8")
    path.write_text(text, encoding="utf-8")
    assert run("add", str(path)).code == 0
    return path


def loaded(*words: str) -> frozenset[str]:
    """Every module in memory after a command line, beyond those of a bare start."""
    code = (
        "import sys; before = set(sys.modules)\n"
        "from dispatcher.cli.entry import main\n"
        "main(sys.argv[1:]); sys.stdout.write('\\n' + ' '.join(set(sys.modules) - before))"
    )
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=True)
    return frozenset(done.stdout.splitlines()[-1].split())


def test_version_loads_nothing_but_itself() -> None:
    ours = {"dispatcher", "dispatcher.cli", "dispatcher.cli.entry", "dispatcher.cli.streams"}
    assert loaded("--version") == {*ours, "__future__"}


@pytest.mark.parametrize(
    "words", [["--help"], ["status"], ["status", "--json"], ["log"], ["log", "--json"], ["log", "--csv"], ["report"]]
)
def test_a_look_costs_sqlite_and_ourselves(queued: Path, words: list[str]) -> None:
    assert not imported(*words) & LOOKS


def test_queueing_stays_light(queued: Path, repository: Path, brief: Callable[..., Path]) -> None:
    plain = brief("# Rename it\n\nEverywhere.\n", "plain.md")
    assert not imported("add", str(plain), "--repo", str(repository)) & QUICK


def test_an_idle_run_stays_light(queued: Path, run: Callable[..., Said]) -> None:
    """cron starts it every minute: it must not load an event loop to find that there is nothing to do."""
    assert run("pause", "1").code == 0
    assert not imported("run") & QUICK


@pytest.mark.parametrize("words", [["status", "--home={home}"], ["add", "--help"], ["run", "--help"]])
def test_typers_own_way_stays_off_the_heavy_ones_too(queued: Path, home: Path, words: list[str]) -> None:
    assert not imported(*(word.format(home=home) for word in words)) & HEAVY


@pytest.mark.parametrize("words", [["re"], ["show", ""], ["hold", "s"], ["log", "--status", "pa"], ["status", "--j"]])
def test_a_tab_is_light(queued: Path, words: list[str]) -> None:
    assert not imported("__complete", "bash", str(len(words)), *words) & QUICK


def test_a_tab_where_there_is_no_home_offers_nothing(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "dispatcher.cli", "__complete", "bash", "2", "show", ""],
        capture_output=True,
        text=True,
        env={**os.environ, "DISPATCHER_HOME": str(tmp_path)},
        check=True,
    )
    assert (done.stdout, done.stderr) == ("", "")


def test_only_the_named_commands_module_is_imported(queued: Path, home: Path) -> None:
    commands = "dispatcher.cli.commands."
    assert {name for name in loaded("holds", f"--home={home}") if name.startswith(commands)} == {commands + "roster"}
