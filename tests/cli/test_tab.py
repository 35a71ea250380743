"""TAB: what is answered without Typer is what Typer answers, and no title can do anything to a shell."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer._click.shell_completion import get_completion_class
from typer._completion_classes import completion_init
from typer.main import get_command

from dispatcher.cli import app, complete, tab
from dispatcher.cli.catalog import BY_NAME
from tests.cli.conftest import Said

SHELLS = ("bash", "zsh", "fish")
WORDS = [
    *sorted(BY_NAME),
    *("--home", "--json", "--status", "--candidate", "--task", "--add", "-n", "-q", "-f", "--help", "-", "x", "1", "2"),
]
STARTS = ["", "-", "--", "--j", "-n", "s", "sm", "1", "p", "run", "/tmp", "x.md"]


def question(shell: str, words: list[str], incomplete: str) -> dict[str, str]:
    """The environment in which a shell asks."""
    line = ["dispatcher", *words, incomplete]
    if shell == "bash":
        asked = {"COMP_WORDS": "\n".join(line), "COMP_CWORD": str(len(line) - 1)}
    else:
        asked = {"_TYPER_COMPLETE_ARGS": " ".join(line), "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    return {"_DISPATCHER_COMPLETE": f"complete_{shell}", **asked}


def by_typer(shell: str, asked: dict[str, str]) -> str:
    completion_init()
    answering = get_completion_class(shell)
    assert answering is not None
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", "100000")  # Typer breaks the lines of help to the width of the terminal
        patch.setattr("typer.rich_utils.MAX_WIDTH", 100_000)
        for name, value in asked.items():
            patch.setenv(name, value)
        return answering(get_command(app.app), {}, "dispatcher", "_DISPATCHER_COMPLETE").complete()


@pytest.fixture
def queued(home: Path, run: Callable[..., Said], brief: Callable[..., Path]) -> Path:
    for number, title in enumerate(("Say what this is", "Fix 'it'; $(touch /tmp/x) [bold]`now`[/bold]")):
        path = brief(f"---\nexpect: report\n---\n# {title}\n\nIn one line.\n", f"{number}.md")
        assert run("add", str(path)).code == 0
    assert run("hold", "small").code == 0
    return home


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(SHELLS), st.lists(st.sampled_from(WORDS), max_size=4), st.sampled_from(STARTS))
def test_the_quick_answer_is_typers(queued: Path, shell: str, words: list[str], incomplete: str) -> None:
    asked = question(shell, words, incomplete)
    answered = tab.answer({**os.environ, **asked})
    if answered is not None:
        assert answered == (by_typer(shell, asked), 0)


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
    (["release"], "", {"small"}),
]


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(("words", "incomplete", "offered"), PLAIN)
def test_plain_questions_need_no_typer(
    queued: Path, shell: str, words: list[str], incomplete: str, offered: set[str]
) -> None:
    asked = question(shell, words, incomplete)
    assert {word for word, _ in tab.offers(words, incomplete, dict(os.environ))} == offered
    assert tab.answer({**os.environ, **asked}) == (by_typer(shell, asked), 0)


def test_a_home_that_was_typed_is_the_one_that_is_looked_into(queued: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DISPATCHER_HOME", str(queued.parent / "elsewhere"))
    assert tab.offers(["show"], "", dict(os.environ)) == []
    assert [word for word, _ in tab.offers(["show", "--home", str(queued)], "", os.environ)] == ["2", "1"]


def test_fish_is_told_when_files_may_be_offered(queued: Path) -> None:
    ask = {"_DISPATCHER_COMPLETE": "complete_fish", "_TYPER_COMPLETE_FISH_ACTION": "is-args"}
    assert tab.answer({**os.environ, **ask, "_TYPER_COMPLETE_ARGS": "dispatcher show "}) == ("", 0)
    assert tab.answer({**os.environ, **ask, "_TYPER_COMPLETE_ARGS": "dispatcher add "}) == ("", 1)


@pytest.mark.parametrize(
    "line", ["dispatcher frob ", "dispatcher log --limit=5", "dispatcher 'show' ", "dispatcher -x "]
)
def test_what_is_not_plain_is_left_to_typer(line: str) -> None:
    assert tab.answer({"_DISPATCHER_COMPLETE": "complete_zsh", "_TYPER_COMPLETE_ARGS": line}) is None


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
