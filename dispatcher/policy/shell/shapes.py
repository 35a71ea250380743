"""What the steps of reading shell text hand to each other, and the marks for what a text does not tell."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

UNKNOWN = "\x00"  # stands for text that only the run will know, unquoted: it may become several words
QUOTED = "\x01"  # the same inside quotes: one word, or a part of one
SAFE = "\x03"  # after one of these: what the run puts there is no file that makes something run later
SPLIT = "\x02"  # a blank of an unquoted value, at which words are made; none is left after `words`

VARIABLE = "(variable)"  # stands for the program where a variable that counts is set

ASSIGNMENT = re.compile(r"^(\w+)(\+?)=", re.ASCII)


class NotUnderstood(ValueError):
    """The text is not what this reader knows; the message says where it stopped."""


@dataclass(frozen=True)
class Command:
    """One program with its arguments, as far as the text tells. Marks stand for what it does not."""

    words: tuple[str, ...]
    writes: tuple[str, ...] = ()  # files that its output goes to
    mentions: tuple[str, ...] = ()  # here-documents and here-strings that it is given, also through a pipe
    reads_pipe: bool = False  # its standard input is what another command writes
    feeders: tuple[tuple[str, ...], ...] = ()  # the commands that write it, whole pipeline
    stdin_text: str | None = None  # a here-document or here-string
    moved: bool = False  # a `cd` before it may have led elsewhere
    folders: tuple[str, ...] = ("",)  # where it may run, seen from the folder of the call
    unclear: str = ""


@dataclass
class Word:
    text: str = ""
    quoted: bool = False  # some part was quoted: it is no operator and no keyword
    wild: bool = False  # an unquoted glob
    arguments: bool = False  # `$@` or `$*` is in it


@dataclass(frozen=True)
class Token:
    kind: str  # word, op, redirect
    text: str
    word: Word | None = None
    body: str | None = None  # of a here-document

    def is_op(self, *signs: str) -> bool:
        return self.kind == "op" and self.text in signs

    def is_word(self, text: str) -> bool:
        return self.kind == "word" and self.text == text


@dataclass
class State:
    """What one script has told so far; nested texts share it."""

    script: Callable[[str, State], None]  # all steps for one text
    variables: dict[str, str] = field(default_factory=dict)
    found: list[Command] = field(default_factory=list)
    moved: bool = False
    folders: tuple[str, ...] = ("",)  # where a `cd` has led so far, the newest last
    watched: Callable[[str], bool] = field(default=lambda _: False)  # whether setting this variable is a part
    depth: int = 0
    functions: set[str] = field(default_factory=set)
    forwards: bool = False  # one of them runs its own arguments

    def run(self, text: str) -> None:
        """A text that runs as a part of this one."""
        self.script(text, self)

    def nested(self, text: str, why: str) -> None:
        """A text that a command gives to another shell."""
        if UNKNOWN in text or QUOTED in text:
            self.found.append(Command((), unclear=f"{why}: what it runs cannot be told"))
        else:
            self.run(text)

    def set(self, name: str, value: str) -> None:
        """A value that changes later would be wrong in a loop: a second, different one makes it unknown."""
        self.assigned(name, value)
        old = self.variables.get(name)
        self.variables[name] = value if old is None or old == value else UNKNOWN

    def assigned(self, name: str, value: str) -> None:
        if self.watched(name):
            self.found.append(Command((VARIABLE, name, value)))

    def enter(self, folder: str) -> None:
        """A `cd` that may fail: what comes after it may run in any of the folders."""
        away = folder.startswith(("/", "~", UNKNOWN, QUOTED))
        last = self.folders[-1]
        whole = folder if away or not last else f"{last}/{folder}"
        self.folders = (*(one for one in self.folders if one != whole), whole)
        if len(self.folders) > 20 or len(whole) > 4000:
            raise NotUnderstood("it changes the folder too often")


def plain_path(text: str) -> bool:
    """Whether a literal path or glob leads through no hidden file or folder."""
    return not re.search(r"[\x00\x01{]|(^|/)\.(?!\.?(/|$))", text) and not text.startswith(("~", "/"))
