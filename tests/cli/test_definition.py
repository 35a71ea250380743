"""Typer is the one definition of the command line; the catalog, the quick way and the help text may not differ."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dispatcher.cli import app, commands, express
from dispatcher.cli.catalog import BY_NAME, COMMANDS, GROUPS
from dispatcher.cli.examples import EXAMPLES, epilog

MODULES = sorted(module.name for module in pkgutil.iter_modules(commands.__path__))


def defined() -> list[tuple[str, str, str, str]]:
    """Name, module, group and first line of help of every command, as the decorators say them."""
    found = []
    for name in MODULES:
        module = importlib.import_module(f"{commands.__name__}.{name}")
        for info in module.app.registered_commands:
            text = inspect.getdoc(info.callback) or ""
            found.append((str(info.name), name, str(info.rich_help_panel), text.splitlines()[0]))
    return found


def test_the_catalog_says_what_typer_says() -> None:
    assert sorted(tuple(entry) for entry in COMMANDS) == sorted(defined())
    assert len(BY_NAME) == len(COMMANDS)
    assert {entry.group for entry in COMMANDS} == set(GROUPS)


def test_each_line_of_help_fits_an_80_column_terminal() -> None:
    width = max(map(len, BY_NAME))
    assert all(len(entry.help) + width + 4 <= 80 for entry in COMMANDS)


def test_every_command_and_option_has_help() -> None:
    for entry in COMMANDS:
        command = app.load(entry)
        assert command.help
        for parameter in command.params:
            if parameter.param_type_name == "option":
                assert parameter.help, f"{entry.name} {parameter.opts}"


def test_every_command_prints_its_help(run: Any) -> None:
    for entry in COMMANDS:
        said = run(entry.name, "--help")
        assert (said.code, said.err) == (0, "")
        assert entry.help in said.out


def test_every_command_has_examples_that_typer_reads() -> None:
    assert set(EXAMPLES) == set(BY_NAME)
    for name, examples in EXAMPLES.items():
        assert examples, name
        for line, _ in examples:
            [found] = re.findall(r"\bdispatcher ([a-z-]+(?: .*?)?)(?= \| |\)\"| > [a-z]|$)", line)
            words = shlex.split(found)
            assert words[0] == name, line
            with app.load(BY_NAME[name]).make_context(name, words[1:]):
                pass


def test_examples_stand_at_the_end_of_the_help_as_they_were_written(run: Any) -> None:
    assert (
        run("add", "--help").out.rstrip().endswith("add briefs/fix-login.md --again  # once more, though it was done")
    )


def test_no_example_is_wider_than_a_terminal() -> None:
    for entry in COMMANDS:
        assert max(map(len, epilog(entry.name).splitlines())) <= 78, entry.name


def test_the_kept_overview_is_typers_own(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert app.run(["--help"]) == 0
    kept = Path(express.__file__).with_name("help.txt").read_text(encoding="utf-8")
    assert capfd.readouterr().out == kept, "run: dispatcher --help as Typer prints it has changed; see CONTRIBUTING"


def test_a_narrow_terminal_gets_lines_that_fit(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    said = run("--help")
    assert said.code == 0
    assert max(map(len, said.out.splitlines())) <= 60


# --- the quick way ---

VALUES: dict[str, list[str]] = {
    "--home": ["/h", "h h"],
    "--repo": ["."],
    "--task": ["3", "0", "-1", "x", "٣"],
    "--limit": ["1", "0", "25", "1_0", "x"],
    "-n": ["5"],
    "--candidate": ["a", "-a", ""],
    "--status": ["queued", "queued,failed"],
    "--where": ["seconds > 5", "-1 < 2"],
    "--since": ["7d"],
    "--sort": ["~task", "-task"],
    "--jobs": ["2", "0", "two"],
    "-j": ["4"],
    "--max-tasks": ["7"],
    "--add": ["briefs/", "-"],
}
FLAGS = ["--json", "--jsonl", "--csv", "--again", "--dry-run", "--watch", "--quiet", "-q"]
ODD = ["-j4", "--limit=5", "--hom", "--", "-", "x.md", "--help", "-qj", ""]

pieces = st.one_of(
    st.sampled_from(FLAGS).map(lambda flag: [flag]),
    st.sampled_from(sorted(VALUES)).flatmap(
        lambda name: st.sampled_from(VALUES[name]).map(lambda value: [name, value])
    ),
    st.sampled_from(ODD).map(lambda word: [word]),
)


class Called(Exception):
    """Stands in for doing the work; carries the keywords of the call."""


def by_typer(name: str, words: list[str]) -> dict[str, Any]:
    """The call that Typer makes of these words. Raises whatever Typer raises for wrong ones."""
    target = express.COMMANDS[name]
    module = importlib.import_module(f"dispatcher.cli.{target.module}")
    signature = inspect.signature(getattr(module, target.function))

    def record(*positional: Any, **keywords: Any) -> None:
        raise Called(dict(signature.bind(*positional, **keywords).arguments))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, target.function, record)
        command = app.load(BY_NAME[name])
        with command.make_context(name, list(words)) as context, pytest.raises(Called) as called:
            command.invoke(context)
    found: dict[str, Any] = called.value.args[0]
    return found


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(sorted(express.COMMANDS)), st.lists(pieces, max_size=4))
def test_the_quick_way_makes_the_call_that_typer_makes(name: str, parts: list[list[str]]) -> None:
    words = [word for part in parts for word in part]
    try:
        quick = express.read(express.COMMANDS[name], words)
    except express.NotPlain:
        return
    assert quick == by_typer(name, words)


@pytest.mark.parametrize("name", sorted(express.COMMANDS))
def test_the_plainest_form_takes_the_quick_way(name: str) -> None:
    words = ["x.md"] if name == "add" else []
    assert express.read(express.COMMANDS[name], words) == by_typer(name, words)


@pytest.mark.parametrize("name", sorted(express.COMMANDS))
def test_the_quick_way_knows_every_option_of_typer(name: str) -> None:
    spelled = {word for parameter in app.load(BY_NAME[name]).params for word in parameter.opts if word.startswith("-")}
    assert set(express.COMMANDS[name].options) == spelled
