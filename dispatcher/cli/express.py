"""The quick way in for command lines that are typed, and started by cron, all day long.

Typer alone costs more than everything else that `status` does. So the plain forms of five commands (known options,
each value in a word of its own) are read here, from a table; anything else - help, a typing error, `--limit=5`, `-j4` -
is left to Typer, which stays the definition: a test asks both with the same words and wants the same call. The
overview of all commands is Typer's own text, kept in `help.txt`; a test writes it and says when it has gone stale.
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class NotPlain(Exception):
    """Typer shall read this command line."""


def _path(word: str) -> Any:
    from pathlib import Path

    return Path(word)


def _positive(word: str) -> int:
    if not word.isascii() or not word.isdigit() or len(word) > 9 or int(word) < 1:
        raise NotPlain
    return int(word)


def _number(word: str) -> int:
    if not word.isascii() or not word.isdigit() or len(word) > 9:
        raise NotPlain
    return int(word)


class Option:
    """`read` None: a flag. `many`: every value is kept."""

    __slots__ = ("many", "name", "read")

    def __init__(self, name: str, read: Callable[[str], Any] | None = None, *, many: bool = False) -> None:
        self.name = name
        self.read = read
        self.many = many


class Command:
    """`function` in `module` is what the Typer command calls, with the same keywords; `words` names the arguments."""

    __slots__ = ("defaults", "function", "module", "options", "words")

    def __init__(
        self, module: str, function: str, options: dict[str, Option], defaults: dict[str, Any], words: str = ""
    ) -> None:
        self.module = module
        self.function = function
        self.options = options
        self.defaults = defaults
        self.words = words


_HOME = Option("explicit", _path)
_JSON = Option("as_json")
_JOBS = Option("jobs", _positive)
_TAKE = Option("limit", _number)
_LOG_WORDS = (
    "status",
    "outcome",
    "verdict",
    "difficulty",
    "candidate",
    "model",
    "harness",
    "credential",
    "repository",
    "batch",
    "since",
    "until",
    "text",
    "where",
    "sort",
    "columns",
)
_REPORT_WORDS = (
    "since",
    "until",
    "by",
    "unit",
    "difficulty",
    "candidate",
    "model",
    "harness",
    "credential",
    "repository",
    "batch",
    "table",
)

COMMANDS = {
    "status": Command(
        "status",
        "show_status",
        {"--home": _HOME, "--all": Option("every"), "--json": _JSON},
        {"explicit": None, "every": False, "as_json": False},
    ),
    "log": Command(
        "log",
        "show_log",
        {
            "--home": _HOME,
            "--limit": _TAKE,
            "-n": _TAKE,
            "--task": Option("task_id", _number),
            **{f"--{name}": Option(name, str) for name in _LOG_WORDS},
            "--json": _JSON,
            "--jsonl": Option("as_jsonl"),
            "--csv": Option("as_csv"),
        },
        {
            "explicit": None,
            "limit": 20,
            "task_id": None,
            **dict.fromkeys(_LOG_WORDS),
            "as_json": False,
            "as_jsonl": False,
            "as_csv": False,
        },
    ),
    "report": Command(
        "report",
        "show_report",
        {
            "--home": _HOME,
            **{f"--{name}": Option(name, str) for name in _REPORT_WORDS},
            "--html": Option("html", _path),
            "--tasks": Option("tasks", _number),
            "--markdown": Option("markdown"),
            "--json": _JSON,
            "--csv": Option("as_csv"),
        },
        {
            "explicit": None,
            **dict.fromkeys(_REPORT_WORDS),
            "by": "candidate",
            "html": None,
            "tasks": 5000,
            "markdown": False,
            "as_json": False,
            "as_csv": False,
        },
    ),
    "add": Command(
        "adding",
        "add_briefs",
        {
            "--home": _HOME,
            "--repo": Option("repo", _path),
            "--batch": Option("batch", str),
            "--again": Option("again"),
            "--json": _JSON,
        },
        {"explicit": None, "repo": None, "batch": None, "again": False, "as_json": False},
        words="names",
    ),
    "run": Command(
        "running",
        "run_queue",
        {
            "--home": _HOME,
            "--jobs": _JOBS,
            "-j": _JOBS,
            "--task": Option("task_id", _number),
            "--max-tasks": Option("max_tasks", _positive),
            "--add": Option("add", str, many=True),
            "--batch": Option("batch", str),
            "--until": Option("until_clock", str),
            "--max-minutes": Option("max_minutes", _positive),
            "--notify": Option("notify", str),
            "--dry-run": Option("dry_run"),
            "--watch": Option("watch"),
            "--quiet": Option("quiet"),
            "-q": Option("quiet"),
            "--json": _JSON,
        },
        {
            "explicit": None,
            "jobs": None,
            "task_id": None,
            "max_tasks": None,
            "add": [],
            "batch": None,
            "until_clock": None,
            "max_minutes": None,
            "notify": None,
            "dry_run": False,
            "watch": False,
            "quiet": False,
            "as_json": False,
        },
    ),
}


HELP_WIDTH = 80  # Typer's lines are never longer; a narrower terminal gets them from Typer itself


def run(arguments: list[str]) -> int | None:
    """Run a plain command line and give its exit code; None when it is not one."""
    if arguments == ["--help"] and _columns() >= HELP_WIDTH:
        return _print_help()
    command = COMMANDS.get(arguments[0]) if arguments else None
    if command is None:
        return None
    try:
        keywords = read(command, arguments[1:])
    except NotPlain:
        return None
    module = import_module(f"dispatcher.cli.{command.module}")
    result = getattr(module, command.function)(**keywords)
    return result if isinstance(result, int) else 0


def _print_help() -> int:
    import os
    import sys

    with open(os.path.join(os.path.dirname(__file__), "help.txt"), encoding="utf-8") as text:
        sys.stdout.write(text.read())
    return 0


def _columns() -> int:
    """As Typer asks: COLUMNS, else the terminal, else 80."""
    import os
    import sys

    given = os.environ.get("COLUMNS", "")
    if given.isdigit() and int(given):
        return int(given)
    try:
        return os.get_terminal_size(sys.__stdout__.fileno()).columns or HELP_WIDTH if sys.__stdout__ else HELP_WIDTH
    except (OSError, ValueError):
        return HELP_WIDTH


def read(command: Command, words: list[str]) -> dict[str, Any]:
    """The keywords of the call. Raises `NotPlain` for whatever is not plainly known."""
    found: dict[str, Any] = {}
    rest: list[str] = []
    waiting = iter(words)
    for word in waiting:
        option = command.options.get(word)
        if option is None:
            if word.startswith("-") and word != "-":
                raise NotPlain
            rest.append(word)
        elif option.read is None:
            found[option.name] = True
        else:
            value = next(waiting, "-")
            if value.startswith("-"):
                raise NotPlain
            read_value = option.read(value)
            found[option.name] = [*found.get(option.name, []), read_value] if option.many else read_value
    if bool(rest) != bool(command.words):
        raise NotPlain
    if rest:
        found[command.words] = rest
    return {**command.defaults, **found}
