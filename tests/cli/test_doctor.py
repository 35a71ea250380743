"""`doctor` looks at what candidates use, and never says "ok" of what nobody looked at."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from dispatcher.cli import doctor, doctor_workers
from tests.cli.conftest import Said

Run = Callable[..., Said]

OPENCODE_ONLY = """\
credentials:
  zen: {billing: free}
  unused: {billing: metered, env: [SOME_API_KEY]}
candidates:
  pickle: {harness: opencode, model: opencode/big-pickle, credential: zen}
routes: {trivial: [pickle], easy: [pickle], medium: [pickle], hard: [pickle]}
"""
BOTH = """\
credentials:
  zen: {billing: free}
  plan: {billing: subscription}
  router: {billing: free}
candidates:
  pickle: {harness: opencode, model: opencode/big-pickle, credential: zen}
  routed: {harness: opencode, model: openrouter/a/b, credential: router}
  sonnet: {harness: claude, model: claude-sonnet-5-5, credential: plan}
  opus: {harness: claude, model: claude-opus-5-5, credential: plan}
routes: {trivial: [pickle], easy: [routed], medium: [sonnet], hard: [opus, sonnet]}
"""
LISTS = 'case "$1" in --version) echo 1.18.33;; models) echo opencode/big-pickle; echo openrouter/a/b;; esac'


@pytest.fixture
def nowhere(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A HOME without any CLI or login."""
    monkeypatch.setenv("HOME", str(tmp_path / "person"))
    monkeypatch.setattr("dispatcher.config.programs._SYSTEM", ())
    monkeypatch.setenv("PATH", "")
    for name in ("CLAUDE_CODE_OAUTH_TOKEN", "CLAUDE_CONFIG_DIR", "SOME_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "platform", "linux")
    return home


@pytest.fixture
def look(nowhere: Path, run: Run) -> Callable[..., list[tuple[str, str, str]]]:
    """`look(MODELS, "CLIs")`: state, text and hint of that area."""

    def call(models: str, area: str) -> list[tuple[str, str, str]]:
        (nowhere / "models.yaml").write_text(models, encoding="utf-8")
        rows = json.loads(run("doctor", "--json").out)
        return [(row["state"], row["text"], row["hint"]) for row in rows if row["area"] == area]

    return call


Looking = Callable[..., list[tuple[str, str, str]]]


def installed(tmp_path: Path, name: str, script: str) -> None:
    program = tmp_path / "person" / ".local" / "bin" / name
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    program.chmod(0o755)


def test_only_a_cli_that_a_candidate_uses_is_asked_for(look: Looking) -> None:
    hint = "npm install -g opencode-ai; or set harnesses.opencode.path in models.yaml"
    assert look(OPENCODE_ONLY, "CLIs") == [("bad", "opencode is not installed", hint)]
    assert [text for _, text, _ in look(BOTH, "CLIs")] == ["claude is not installed", "opencode is not installed"]
    assert look(OPENCODE_ONLY, "credentials") == [("ok", "zen: free", "")], "nobody uses the other one"


def test_a_path_in_models_yaml_that_leads_nowhere_is_named(look: Looking) -> None:
    [(state, text, hint)] = look(f"{OPENCODE_ONLY}harnesses: {{opencode: {{path: /no/where}}}}\n", "CLIs")
    assert (state, text) == ("bad", "opencode: /no/where is no program that can be started")
    assert "harnesses.opencode.path" in hint


def test_ids_that_nobody_could_look_at_are_not_ok(look: Looking, tmp_path: Path) -> None:
    assert look(BOTH, "models") == [
        ("unseen", "sonnet, opus: ids were not looked at, since claude is not installed", ""),
        ("unseen", "pickle, routed: ids were not looked at, since opencode is not installed", ""),
    ]
    installed(tmp_path, "opencode", LISTS)
    installed(tmp_path, "claude", "echo 2.1.332")
    assert [(state, text.partition(":")[0]) for state, text, _ in look(BOTH, "models")] == [
        ("unseen", "sonnet, opus"),
        ("ok", "pickle"),
        ("ok", "routed"),
    ]
    installed(tmp_path, "opencode", '[ "$1" = --version ] && echo 1.18.33')
    assert ("unseen", "run: opencode models") in [(state, hint) for state, _, hint in look(BOTH, "models")]


def test_a_login_that_is_not_there_is_said_before_a_run_needs_it(look: Looking, tmp_path: Path) -> None:
    person = tmp_path / "person"
    data = tmp_path / "user" / "xdg_data_home"
    assert look(BOTH, "credentials") == [
        ("ok", "zen: free", ""),
        (
            "bad",
            f"router: opencode has no login for openrouter in {data}/opencode/auth.json",
            "opencode auth login (provider openrouter)",
        ),
        (
            "bad",
            f"plan: claude has no login in {person}/.claude/.credentials.json",
            "start `claude` once, and /login",
        ),
    ]
    (person / ".claude").mkdir(parents=True)
    (person / ".claude/.credentials.json").write_text('{"claudeAiOauth": {"accessToken": "x"}}', encoding="utf-8")
    (data / "opencode").mkdir(parents=True)
    (data / "opencode/auth.json").write_text('{"openrouter": {"type": "api", "key": "x"}}', encoding="utf-8")
    assert {state for state, _, _ in look(BOTH, "credentials")} == {"ok"}


def test_a_keychain_is_not_looked_into(look: Looking, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    [claude] = [row for row in look(BOTH, "credentials") if "plan" in row[1]]
    assert claude == (
        "unseen",
        "plan: claude's login is in the keychain, which was not looked at",
        "dispatcher doctor --login tries it",
    )


def test_the_last_line_counts_what_was_not_looked_at(nowhere: Path, run: Run) -> None:
    (nowhere / "models.yaml").write_text(OPENCODE_ONLY, encoding="utf-8")
    said = run("doctor")
    assert said.code == 1
    assert said.out.splitlines()[-1].endswith(", 1 not looked at")


def test_without_a_configuration_one_cli_is_enough(nowhere: Path, run: Run, tmp_path: Path) -> None:
    """Before `init` nobody knows which one is wanted."""
    (nowhere / "models.yaml").unlink()

    def clis() -> list[str]:
        return [row["text"] for row in json.loads(run("doctor", "--json").out) if row["area"] == "CLIs"]

    assert clis() == ["neither opencode nor claude is installed"]
    installed(tmp_path, "claude", "echo 2.1.332")
    assert clis() == [f"claude 2.1.332 ({tmp_path}/person/.local/bin/claude); tried with 2.1"]


def test_hints_are_things_to_do() -> None:
    assert doctor._machine_hint("load 9.0 per core is above max_load_per_core 4").startswith("wait")
    assert "dispatcher prune" in doctor._machine_hint("1 GiB free at / is below min_free_disk 2 GiB")
    assert doctor._git_hint("git knows no user.name and user.email here").startswith("git config --global user.name '")
    assert all(command.startswith("npm install -g ") for command in doctor_workers._INSTALL.values())
