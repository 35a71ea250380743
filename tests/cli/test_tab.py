"""TAB: what is offered without Typer is what Typer offers, and no title can do anything to a shell."""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from typer._click.shell_completion import CompletionItem, ShellComplete
from typer.main import get_command

from dispatcher.cli import app, complete, tab
from dispatcher.cli.catalog import BY_NAME
from tests.cli.conftest import Said

WORDS = [
    *sorted(BY_NAME),
    *("--home", "--json", "--status", "--candidate", "--task", "--add", "-n", "-q", "-f", "--help", "-", "x", "1", "2"),
]
VALUED = {"--home", "--status", "--candidate", "--task", "--add", "-n"}  # a value that begins with - is no plain form
STARTS = ["", "-", "--", "--j", "-n", "s", "sm", "1", "p", "run", "/tmp", "x.md"]


def by_typer(words: list[str], incomplete: str) -> list[str]:
    found = Asking(get_command(app.app), {}, "dispatcher", "").get_completions(words, incomplete)
    return [item.value for item in found]


class Asking(ShellComplete):
    def source_vars(self) -> dict[str, Any]:
        return {}

    def get_completion_args(self) -> tuple[list[str], str]:
        raise NotImplementedError

    def format_completion(self, item: CompletionItem) -> str:
        raise NotImplementedError


@pytest.fixture
def queued(home: Path, run: Callable[..., Said], brief: Callable[..., Path]) -> Path:
    for number, title in enumerate(("Say what this is", "Fix 'it'; $(touch /tmp/x) [bold]`now`[/bold]")):
        path = brief(f"---\nexpect: report\n---\n# {title}\n\nIn one line.\n", f"{number}.md")
        assert run("add", str(path)).code == 0
    assert run("hold", "small").code == 0
    return home


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from(WORDS), max_size=4), st.sampled_from(STARTS))
def test_the_quick_answer_is_typers(queued: Path, words: list[str], incomplete: str) -> None:
    assume(not words or words[0] in BY_NAME)
    known = {name for one in tab._parameters(words[0] if words else tab.ROOT) for name in one.names}
    assume(all(word in known or not word.startswith("-") or word == "-" for word in words))
    assume(not any(one in VALUED and other.startswith("-") for one, other in pairwise([*words, incomplete])))
    assert [word for word, _ in tab.offers(words, incomplete, dict(os.environ))] == by_typer(words, incomplete)


PLAIN = [
    ([], "re", {"ready", "review", "resume", "retry", "release", "report"}),
    ([], "--v", {"--version"}),
    (["show"], "", {"1", "2"}),
    (["pause", "1"], "", {"1", "2"}),
    (["hold"], "s", {"small", "strong"}),
    (["log", "--status"], "pa", {"paused"}),
    (["log", "--json", "--candidate"], "l", {"large"}),
    (["status"], "--j", {"--json"}),
    (["status", "--json"], "--j", set()),
    (["log", "--status=paused", "--candidate"], "", {"small", "large", "strong"}),
    (["log"], "--candidate=s", {"--candidate=small", "--candidate=strong"}),
    (["completion"], "", {"bash", "zsh", "fish"}),
    (["release"], "", {"small"}),
]


@pytest.mark.parametrize(("words", "incomplete", "offered"), PLAIN)
def test_what_is_offered(queued: Path, words: list[str], incomplete: str, offered: set[str]) -> None:
    assert {word for word, _ in tab.offers(words, incomplete, dict(os.environ))} == offered


@pytest.mark.parametrize("words", [["log", "--nope", "x"], ["frob"], ["show", "1", "2"], ["log", "--limit=5"]])
def test_an_odd_command_line_is_no_error(queued: Path, words: list[str]) -> None:
    assert tab.offers(words, "", dict(os.environ)) == []


def test_each_shell_gets_its_form(queued: Path) -> None:
    def lines(shell: str, *words: str) -> list[str]:
        return tab.answer(shell, len(words), words, dict(os.environ)).splitlines()

    assert lines("bash", "show", "") == ["2", "1"]
    assert lines("bash", "log", "--status", "=", "pau") == ["paused"]
    assert lines("bash", "log", "--status", "=")[0] == "queued"
    assert lines("zsh", "show", "1") == ["1:queued: Say what this is"]
    assert lines("zsh", "log", "--status=pau") == ["--status=paused"]
    assert lines("fish", "show", "1") == ["1\tqueued: Say what this is"]
    assert tab._for_zsh("a:b", "c: d") == "a\\:b:c: d"


def test_a_home_that_was_typed_is_the_one_that_is_looked_into(queued: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DISPATCHER_HOME", str(queued.parent / "elsewhere"))
    assert tab.offers(["show"], "", dict(os.environ)) == []
    assert [word for word, _ in tab.offers(["show", "--home", str(queued)], "", os.environ)] == ["2", "1"]


@given(st.text())
def test_no_description_means_anything_to_a_shell(text: str) -> None:
    [(_, shown)] = complete._starting("", iter([("1", text)]))
    assert shown.isprintable()
    assert not set(shown) & set("'\"`\\$()[]{}<>;|&!") - set("()")
    assert "$(" not in shown


@given(st.text(min_size=1))
def test_no_word_means_anything_to_a_shell(word: str) -> None:
    for offered, _ in complete._starting("", iter([(word, "")])):
        assert offered == word
        assert not set(word) & set(" \t\n'\"`\\$()[]{}<>;|&!*?~#")
