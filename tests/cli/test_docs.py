"""The parts of the README that are written by the program say what the program does now.

`DISPATCHER_WRITE_DOCS=1 pytest tests/cli/test_docs.py` writes them, and what is kept of Typer's definition so that
`--help` and TAB need no Typer: the overview of the commands, and the options of each.
"""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import io
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from dispatcher.brief import parse
from dispatcher.cli import app, complete, express, tab
from dispatcher.cli.catalog import BY_NAME, COMMANDS
from dispatcher.cli.wording import duration, size
from dispatcher.config import build, places, starting, workers
from dispatcher.store.lookup import COLUMNS
from dispatcher.task import Brief, Limits, OutcomeClass

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
HELP = Path(express.__file__).with_name("help.txt")
KEPT_WORDS = Path(tab.WORDS)
WRITE = os.environ.get("DISPATCHER_WRITE_DOCS") == "1"

_SIZES = frozenset({"log_bytes", "min_free_memory", "min_free_disk"})
_COUNTS = frozenset(
    {"attempts", "finish_attempts", "backoffs", "starts", "jobs", "max_load_per_core", "failures_in_a_row"}
)


def overview(monkeypatch: pytest.MonkeyPatch) -> str:
    """The overview of all commands as Typer prints it on 80 columns."""
    monkeypatch.setenv("COLUMNS", "80")
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        assert app.run(["--help"]) == 0
    return printed.getvalue()


def words() -> str:
    """What TAB has to know of every command: options and arguments, what each takes, who finds its values, its help."""
    commands: dict[str, Any] = {tab.ROOT: get_command(app.app), **{entry.name: app.load(entry) for entry in COMMANDS}}
    lines = []
    for name, command in commands.items():
        lines.append(f"= {name}")
        with command.context_class(command, info_name=name) as context:
            lines += [_parameter(parameter) for parameter in command.get_params(context) if not parameter.hidden]
    return "\n".join(lines) + "\n"


def _parameter(parameter: Any) -> str:
    option = parameter.param_type_name == "option"
    names = " ".join([*parameter.opts, *parameter.secondary_opts]) if option else ""
    many = parameter.multiple if option else parameter.nargs == -1
    takes = "nothing" if option and parameter.is_flag else "many" if many else "one"
    return "\t".join((names, takes, _finder(parameter), (parameter.help or "") if option else ""))


def _finder(parameter: Any) -> str:
    """The name of the function of `complete` that finds the values; Typer has wrapped it."""
    custom = parameter._custom_shell_complete
    if custom is None:
        return ""
    [found] = [inspect.unwrap(cell.cell_contents) for cell in custom.__closure__]
    assert getattr(complete, found.__name__) is found
    return str(found.__name__)


def limits() -> str:
    lines = ["| limit | default |", "|---|---|"]
    for field in dataclasses.fields(Limits):
        value = getattr(Limits(), field.name)
        words = size(value) if field.name in _SIZES else f"{value:g}" if field.name in _COUNTS else duration(value)
        lines.append(f"| `{field.name}` | {words} |")
    return "\n".join(lines) + "\n"


def outcomes() -> str:
    return " · ".join(f"`{one}`" for one in OutcomeClass) + "\n"


def log_columns() -> str:
    lines = ["| column of `log` | what it says |", "|---|---|"]
    return "\n".join([*lines, *(f"| `{name}` | {words} |" for name, (_, words) in COLUMNS.items())]) + "\n"


def generated(monkeypatch: pytest.MonkeyPatch) -> Mapping[str, str]:
    commands = overview(monkeypatch)
    return {
        "commands": f"```\n{commands}```\n",
        "limits": limits(),
        "outcomes": outcomes(),
        "log columns": log_columns(),
    }


def with_parts(text: str, parts: Mapping[str, str]) -> str:
    for name, part in parts.items():
        pattern = re.compile(rf"(<!-- generated: {name} -->\n).*?(<!-- end -->)", re.DOTALL)
        text, count = pattern.subn(lambda found, part=part: found[1] + part + found[2], text)  # type: ignore[misc]
        assert count == 1, name
    return text


def test_generated_parts_are_fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = generated(monkeypatch)
    text = README.read_text(encoding="utf-8")
    wanted = with_parts(text, parts)
    if WRITE:
        README.write_text(wanted, encoding="utf-8")
        HELP.write_text(overview(monkeypatch), encoding="utf-8")
        KEPT_WORDS.write_text(words(), encoding="utf-8")
    assert README.read_text(encoding="utf-8") == wanted, "stale: see the docstring of this file"
    assert HELP.read_text(encoding="utf-8") == overview(monkeypatch), "stale: see the docstring of this file"
    assert KEPT_WORDS.read_text(encoding="utf-8") == words(), "stale: see the docstring of this file"


def test_every_command_that_the_readme_names_exists() -> None:
    text = README.read_text(encoding="utf-8")
    named = set(re.findall(r"^dispatcher ([a-z]+(?:-[a-z]+)*)", text, re.MULTILINE)) | set(
        re.findall(r"`dispatcher ([a-z]+(?:-[a-z]+)*)", text)
    )
    assert named - set(BY_NAME) == set()


def test_every_key_that_a_file_may_hold_is_in_the_readme() -> None:
    text = README.read_text(encoding="utf-8")
    reference = text[text.index("**models.yaml.**") : text.index("**How an attempt can end:**")]
    keys = {key for room in (build, places, starting, workers) for name in vars(room) for key in _keys_of(room, name)}
    assert {"credentials", "overage", "keep_daemons", "park_after"} <= keys
    named = set(re.findall(r"\w+", " ".join(re.findall(r"`[^`]+`", reference))))
    assert sorted((keys | (set(Brief.__dataclass_fields__) - {"body"})) - named) == []


def _keys_of(room: object, name: str) -> tuple[str, ...]:
    return tuple(getattr(room, name)) if name.endswith(("_KEYS", "SECTIONS", "BUDGET_UNITS", "BUDGET_WINDOWS")) else ()


def test_every_picture_and_file_that_the_readme_shows_exists() -> None:
    """`python -m tests.screenshots` makes the pictures anew."""
    named = re.findall(r"\]\(((?!https?:|#)[^)]+)\)", README.read_text(encoding="utf-8"))
    assert any(name.endswith(".svg") for name in named)
    assert [name for name in named if not (ROOT / name).exists()] == []


_REST = """\
candidates:
  one: {harness: opencode, model: opencode/big-pickle, credential: api}
routes: {trivial: [one], easy: [one], medium: [one], hard: [one]}
"""


def test_every_example_of_models_yaml_loads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from dispatcher.config import load

    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    examples = re.findall(r"^```yaml\n(.*?)^```", README.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert examples
    for example in examples:
        whole = example if "candidates:" in example else example + _REST
        (tmp_path / "models.yaml").write_text(whole, encoding="utf-8")
        assert load(tmp_path).roster.candidates


def test_every_brief_parses() -> None:
    text = README.read_text(encoding="utf-8")
    examples = re.findall(r"^```markdown\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    files = sorted((ROOT / "briefs").glob("*.md"))
    assert len(examples) == 1
    assert len(files) == 3
    for brief in (*examples, *(file.read_text(encoding="utf-8") for file in files)):
        assert parse(brief).title
