"""What a shell gets when TAB is pressed, without importing Typer: that alone would take longer than all the rest.

Which options and arguments there are stands in `words.txt`, written from Typer's own definition; what can stand in
them is found by `dispatcher.cli.complete`. A test asks Typer too and wants the same answer. The scripts that ask are
in `dispatcher.cli.completion`:

    dispatcher __complete SHELL PLACE WORD...     the words behind the program's name; PLACE 1 is the first of them

Nothing found means that the shell may offer files.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, MutableMapping, Sequence

    Pairs = list[tuple[str, str]]

ASK = "__complete"
WORDS = os.path.join(os.path.dirname(__file__), "words.txt")
ROOT = "dispatcher"  # of the options before any command


class Parameter:
    """`names` of an option, none for an argument. `takes`: nothing (a flag), one value, or many."""

    __slots__ = ("finder", "help", "names", "takes")

    def __init__(self, line: str) -> None:
        names, self.takes, self.finder, self.help = line.split("\t")
        self.names = names.split()


def answer(shell: str, place: int, words: Sequence[str], environ: MutableMapping[str, str]) -> str:
    """The lines that the script of this shell reads."""
    before, incomplete = list(words[: place - 1]), "".join(words[place - 1 : place])
    if shell == "bash":  # it makes three words of --status=queued
        before = [word for word in before if word != "="]
        incomplete = "" if incomplete == "=" else incomplete
    write = _WRITERS[shell]
    return "".join(f"{write(word, text)}\n" for word, text in offers(before, incomplete, environ))


def offers(words: Sequence[str], incomplete: str, environ: MutableMapping[str, str]) -> Pairs:
    """What can stand where `incomplete` stands, behind `words`, with a description each."""
    if not words:
        return [*_commands(incomplete), *_option_names(_parameters(ROOT), set(), incomplete)]
    parameters = _parameters(words[0])
    values, waiting, placed = _read(words[1:], parameters)
    if home := values.get("--home"):
        environ["DISPATCHER_HOME"] = os.path.expanduser(home)  # ours ends with this answer
    if incomplete.startswith("-") and waiting is None:
        name, joined, value = incomplete.partition("=")
        if not joined:
            return _option_names(parameters, set(values), incomplete)
        option = next((one for one in parameters if name in one.names), None)
        return [(f"{name}={word}", text) for word, text in _values(option, value)]
    return _values(waiting or _argument(parameters, placed), incomplete)


def _commands(incomplete: str) -> Pairs:
    from dispatcher.cli.catalog import COMMANDS

    return [(entry.name, entry.help) for entry in COMMANDS if entry.name.startswith(incomplete)]


def _parameters(command: str) -> list[Parameter]:
    with open(WORDS, encoding="utf-8") as file:
        text = "\n" + file.read()
    _, found, rest = text.partition(f"\n= {command}\n")
    if not found:
        return []
    return [Parameter(line) for line in rest.partition("\n= ")[0].splitlines()]


def _read(words: Sequence[str], parameters: Sequence[Parameter]) -> tuple[dict[str, str], Parameter | None, int]:
    """The options that are given, with their values; the one whose value is missing; how many other words there are."""
    known = {name: parameter for parameter in parameters for name in parameter.names}
    values: dict[str, str] = {}
    waiting: Parameter | None = None
    placed = 0
    for word in words:
        name, joined, value = (word, "", "") if word in known else word.partition("=")
        if waiting is not None:
            values |= dict.fromkeys(waiting.names, word)
            waiting = None
        elif name in known and (joined or known[name].takes == "nothing"):
            values |= dict.fromkeys(known[name].names, value)
        elif name in known:
            waiting = known[name]
        elif not word.startswith("-") or word == "-":
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


def _values(parameter: Parameter | None, incomplete: str) -> Pairs:
    if parameter is None or not parameter.finder:
        return []
    from dispatcher.cli import complete

    finder: Callable[[str], Pairs] = getattr(complete, parameter.finder)
    return finder(incomplete)


def _bare(word: str, text: str) -> str:
    return word


def _described(word: str, text: str) -> str:
    return f"{word}\t{text}" if text else word


def _for_zsh(word: str, text: str) -> str:
    """`_describe` parts the two at the first colon that has no backslash."""
    word = word.replace("\\", "\\\\").replace(":", "\\:")
    return f"{word}:{text}" if text else word


_WRITERS = {"bash": _bare, "zsh": _for_zsh, "fish": _described}
