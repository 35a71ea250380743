"""What a shell gets when TAB is pressed, without importing Typer: that alone would take longer than all the rest.

Which options and arguments there are stands in `words.txt`, written from Typer's own definition; what can stand in
them is found by `dispatcher.cli.complete`. The shells ask, and are answered, as Typer's completion scripts do it; a
test asks both and wants the same answer. What is not plain (`--limit=5`, `-j4`, a command that does not exist,
PowerShell) is left to Typer.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, MutableMapping, Sequence

    Pairs = list[tuple[str, str]]

WORDS = os.path.join(os.path.dirname(__file__), "words.txt")
ROOT = "dispatcher"  # of the options before any command


class Parameter:
    """`names` of an option, none for an argument. `takes`: nothing (a flag), one value, or many."""

    __slots__ = ("finder", "help", "names", "takes")

    def __init__(self, line: str) -> None:
        names, self.takes, self.finder, self.help = line.split("\t")
        self.names = names.split()


class NotPlain(Exception):
    """Typer shall answer."""


def answer(environ: MutableMapping[str, str]) -> tuple[str, int] | None:
    """What to print and the exit code; None when Typer shall answer."""
    writer = _WRITERS.get(environ.get("_DISPATCHER_COMPLETE", ""))
    if writer is None:
        return None
    try:
        words, incomplete = _bash_words(environ) if writer is _bash else _line_words(environ)
        return writer(offers(words, incomplete, environ), environ)
    except NotPlain:
        return None


def offers(words: Sequence[str], incomplete: str, environ: MutableMapping[str, str]) -> Pairs:
    """What can stand where `incomplete` stands, behind `words` (without the program's name)."""
    if "=" in incomplete:
        raise NotPlain
    if not words:
        return [*_commands(incomplete), *_option_names(_parameters(ROOT), set(), incomplete)]
    parameters = _parameters(words[0])
    values, waiting, placed = _read(words[1:], parameters)
    if home := values.get("--home"):
        environ["DISPATCHER_HOME"] = os.path.expanduser(home)  # ours ends with this answer
    if incomplete.startswith("-"):
        return _option_names(parameters, set(values), incomplete)
    wanted = waiting or _argument(parameters, placed)
    return _values(wanted, incomplete) if wanted else []


def _commands(incomplete: str) -> Pairs:
    from dispatcher.cli.catalog import COMMANDS

    return [(entry.name, entry.help) for entry in COMMANDS if entry.name.startswith(incomplete)]


def _parameters(command: str) -> list[Parameter]:
    with open(WORDS, encoding="utf-8") as file:
        text = "\n" + file.read()
    _, found, rest = text.partition(f"\n= {command}\n")
    if not found:
        raise NotPlain
    return [Parameter(line) for line in rest.partition("\n= ")[0].splitlines()]


def _read(words: Sequence[str], parameters: Sequence[Parameter]) -> tuple[dict[str, str], Parameter | None, int]:
    """The options that are given, with their values; the one whose value is missing; how many other words there are."""
    known = {name: parameter for parameter in parameters for name in parameter.names}
    values: dict[str, str] = {}
    waiting: Parameter | None = None
    placed = 0
    for word in words:
        if waiting is not None:
            if word.startswith("-"):
                raise NotPlain
            values |= dict.fromkeys(waiting.names, word)
            waiting = None
        elif word.startswith("-") and word != "-":
            if word not in known:
                raise NotPlain
            if known[word].takes == "nothing":
                values |= dict.fromkeys(known[word].names, "")
            else:
                waiting = known[word]
        else:
            placed += 1
    return values, waiting, placed


def _option_names(parameters: Sequence[Parameter], given: set[str], incomplete: str) -> Pairs:
    """Those not given yet; the ones that take many can be given again."""
    if not incomplete.startswith("-"):
        return []
    return [
        (name, parameter.help)
        for parameter in parameters
        if parameter.takes == "many" or not given.intersection(parameter.names)
        for name in parameter.names
        if name.startswith(incomplete)
    ]


def _argument(parameters: Sequence[Parameter], placed: int) -> Parameter | None:
    """The argument that a further word would be."""
    for parameter in parameters:
        if not parameter.names:
            if parameter.takes == "many" or placed == 0:
                return parameter
            placed -= 1
    return None


def _values(parameter: Parameter, incomplete: str) -> Pairs:
    if not parameter.finder:
        return []
    from dispatcher.cli import complete

    finder: Callable[[str], Pairs] = getattr(complete, parameter.finder)
    return finder(incomplete)


# --- how the shells ask, and want to be answered; as in Typer 0.28 ---


def _bash_words(environ: MutableMapping[str, str]) -> tuple[list[str], str]:
    words = _split(environ.get("COMP_WORDS", ""))
    place = environ.get("COMP_CWORD", "")
    if not place.isdigit():
        raise NotPlain
    number = int(place)
    return words[1:number], words[number] if number < len(words) else ""


def _line_words(environ: MutableMapping[str, str]) -> tuple[list[str], str]:
    line = environ.get("_TYPER_COMPLETE_ARGS", "")
    words = _split(line)[1:]
    if words and not line.endswith(" "):
        return words[:-1], words[-1]
    return words, ""


def _split(line: str) -> list[str]:
    """As a shell splits it. Quotes are rare, and reading them costs an import."""
    if line.isascii() and line.replace("\n", " ").replace("\t", " ").isprintable() and not set(line) & set("'\"\\"):
        return line.split()
    raise NotPlain


def _bash(found: Pairs, environ: MutableMapping[str, str]) -> tuple[str, int]:
    return "\n".join(word for word, _ in found), 0


def _zsh(found: Pairs, environ: MutableMapping[str, str]) -> tuple[str, int]:
    if not found:
        return "_files", 0
    lines = [f'"{_escape(word)}"' + (f':"{_escape(text)}"' if text else "") for word, text in found]
    return "_arguments '*: :((" + "\n".join(lines) + "))'", 0


def _escape(text: str) -> str:
    for character, written in (('"', '""'), ("'", "''"), ("$", "\\$"), ("`", "\\`"), (":", "\\\\:")):
        text = text.replace(character, written)
    return text


def _fish(found: Pairs, environ: MutableMapping[str, str]) -> tuple[str, int]:
    """Asks twice: whether there is anything (else fish offers files), then what."""
    if environ.get("_TYPER_COMPLETE_FISH_ACTION") == "is-args":
        return "", 0 if found else 1
    return "\n".join(f"{word}\t{text}" if text else word for word, text in found), 0


_WRITERS = {"complete_bash": _bash, "complete_zsh": _zsh, "complete_fish": _fish}
