"""`init`: a models.yaml that fits the machine, loads as it is, and was made without reading a secret."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
from pathlib import Path

import pytest

from dispatcher.config import initial, is_trusted, load
from dispatcher.config.initial import FreeModel, Machine
from dispatcher.errors import BadInput
from dispatcher.task import Billing, Difficulty
from tests.clis import need_cli
from tests.config.samples import environ_of, load_text


def entry(cost: float = 0, **changes: object) -> str:
    model = {
        "cost": {"input": cost, "output": cost},
        "capabilities": {"toolcall": True},
        "limit": {"context": 200000},
        "status": "active",
    }
    return json.dumps({**model, **changes}, indent=2)


def listing(*models: tuple[str, str]) -> str:
    return "".join(f"{name}\n{text}\n" for name, text in models)


def install_opencode(folder: Path, script: str) -> None:
    program = folder / "person/.opencode/bin/opencode"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    program.chmod(0o755)


MACHINES = [
    Machine(opencode=opencode, claude=claude, asked=asked, claude_login=login, claude_key=key, opencode_login=stored)
    for opencode, claude, asked, login, key, stored in itertools.product(
        (None, "/x/opencode"), (None, "/x/claude"), (False, True), (None, "a file exists"), (False, True), (False, True)
    )
]


@pytest.mark.parametrize("machine", MACHINES)
def test_every_machine_gets_a_file_that_loads_without_a_warning(tmp_path: Path, machine: Machine) -> None:
    text = initial.compose(machine)
    config = load_text(tmp_path, text)
    assert config.warnings == ()
    assert set(config.roster.routes) == set(Difficulty)
    used = {name for route in config.roster.routes.values() for name in route.candidates}
    harnesses = {config.roster.candidates[name].harness for name in used}
    installed = {name for name in ("opencode", "claude") if getattr(machine, name)}
    assert harnesses == (installed or {"opencode", "claude"})
    metered = any(c.credential.billing is Billing.METERED for c in config.roster.candidates.values())
    assert metered == (machine.claude_key and not machine.claude_login and "claude" in harnesses)


def test_only_free_models_that_can_work_are_listed() -> None:
    text = listing(
        ("opencode/one-preview-free", entry()),
        ("opencode/paid", entry(3)),
        ("opencode/two-free", entry(limit={"context": 0})),
        ("opencode/no-tools-free", entry(capabilities={"toolcall": False})),
        ("opencode/gone-free", entry(status="deprecated")),
        ("opencode/odd-free", entry(cost=0, limit=None)),
        ("openrouter/other:free", entry()),
        ("opencode/three", entry()),
        ("opencode/cut-free", entry()[:-9]),
    )
    assert initial.parse_models(text) == (
        FreeModel("opencode/two-free", None),
        FreeModel("opencode/three", 200000),
        FreeModel("opencode/one-preview-free", 200000),  # a preview comes last
    )


@pytest.mark.parametrize("text", ["", "opencode/x\n{", "opencode/x\n" + '{"a":' * 5000, "\x00", "opencode/x\n[]"])
def test_an_answer_that_is_none(text: str) -> None:
    assert initial.parse_models(text) == ()


def test_init_writes_trusts_and_never_overwrites(tmp_path: Path) -> None:
    environ = environ_of(tmp_path)
    install_opencode(tmp_path, "cat <<'END'\n" + listing(("opencode/big-pickle", entry())) + "END")
    home = tmp_path / "home"
    machine = initial.init(home, environ)
    assert (machine.asked, machine.free) == (True, (FreeModel("opencode/big-pickle", 200000),))
    assert is_trusted(home, environ)
    assert load(home, environ).roster.routes[Difficulty.HARD].candidates[0] == "big-pickle"
    assert (home / "briefs").is_dir()
    ignored = subprocess.run(["git", "-C", tmp_path, "init", "-q"], check=False).returncode == 0
    assert ignored
    (home / "logs" / "x").touch()
    status = subprocess.run(
        ["git", "-C", tmp_path, "status", "--porcelain", "-uall", "home/logs"],
        check=True,
        capture_output=True,
        text=True,
    )
    assert status.stdout.split() == ["??", "home/logs/.gitignore"]
    before = (home / "models.yaml").read_text("utf-8")
    with pytest.raises(BadInput, match="exists already"):
        initial.init(home, environ)
    assert (home / "models.yaml").read_text("utf-8") == before


def test_init_says_where_it_cannot_write(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("a file", encoding="utf-8")
    with pytest.raises(BadInput, match="cannot write"):
        initial.init(tmp_path / "home", environ_of(tmp_path))
    with pytest.raises(BadInput, match="HOME is not set"):
        initial.init(tmp_path / "other", {"PATH": "/usr/bin:/bin"})
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize("script", ["exit 1", "echo nonsense", ":"])
def test_an_opencode_that_does_not_say_its_models(tmp_path: Path, script: str) -> None:
    install_opencode(tmp_path, script)
    machine = initial.look_around(environ_of(tmp_path))
    assert (machine.asked, machine.free) == (False, initial.FREE_MODELS)


def test_a_login_is_judged_by_names_only(tmp_path: Path) -> None:
    """The files are unreadable here: whoever opens one gets nothing."""
    environ = environ_of(tmp_path)
    assert initial.look_around(environ).claude_login is None
    stored = tmp_path / "person/.claude/.credentials.json"
    stored.parent.mkdir(parents=True)
    os.mkfifo(stored)  # opening it would block for ever
    auth = tmp_path / "person/.local/share/opencode/auth.json"
    auth.parent.mkdir(parents=True)
    os.mkfifo(auth)
    machine = initial.look_around({**environ, "ANTHROPIC_API_KEY": "sk-secret"})
    assert machine.claude_login == f"{stored} exists"
    assert (machine.claude_key, machine.opencode_login) == (True, True)
    token = initial.look_around({**environ, "CLAUDE_CODE_OAUTH_TOKEN": "sk-secret"})
    assert token.claude_login == "CLAUDE_CODE_OAUTH_TOKEN is set"
    assert "sk-secret" not in repr((machine, token)) + initial.compose(machine) + initial.compose(token)


@pytest.mark.real_cli
def test_the_real_opencode_lists_its_free_models(tmp_path: Path) -> None:
    program = need_cli("opencode")
    (tmp_path / "person").mkdir()
    found = initial.ask_free_models(str(program), {**environ_of(tmp_path), "OPENCODE_DISABLE_MODELS_FETCH": "1"})
    assert set(initial.FREE_MODELS) <= set(found)
