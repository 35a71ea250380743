"""Pieces of shell text that need no step of their own: where a bracket ends, what an escape or a brace stands for."""

from __future__ import annotations

import re
from itertools import pairwise

from dispatcher.policy.shell.shapes import UNKNOWN, NotUnderstood

_ANSI = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", "'": "'", '"': '"', "a": "\a", "b": "\b", "e": "\x1b",
         "E": "\x1b", "f": "\f", "v": "\v", "?": "?"}  # fmt: skip


def ansi(text: str) -> str:
    def one(match: re.Match[str]) -> str:
        code = match[1]
        if code[0] in _ANSI:
            return _ANSI[code[0]]
        number = int(code[1:], 16) if code[0] in "xuU" else int(code, 8)
        if number in (0, 1, 2) or number > 0x10FFFF:
            raise NotUnderstood("an escape of a control character")
        return chr(number)

    pattern = r"\\([ntr\\'\"abeEfv?]|x[0-9A-Fa-f]{1,2}|u[0-9A-Fa-f]{1,4}|U[0-9A-Fa-f]{1,8}|[0-7]{1,3})"
    return re.sub(pattern, one, text)


def echoed(inner: str) -> str | None:
    """What `$(echo git)` and `$(printf %s git)` give; None for everything else."""
    match = re.fullmatch(r"\s*(?:echo|printf\s+%s)\s+([\w ./-]+?)\s*", inner)
    return match[1] if match else None


_NEW_FILE = r"mktemp(\s+(-[dqut]+|--directory|--suffix=[\w.]+|(/tmp/)?[\w-]{0,40}\.?X{3,20}[\w.]{0,20}))*"
_NUMBERS = r"date(\s+(-u|['\"]?\+[\w%:. -]+['\"]?))*|git\s+rev-parse(\s+--short)?\s+HEAD|nproc|id\s+-u"


def names_nothing(inner: str) -> bool:
    """`$(mktemp)` and `$(date +%s)`: a new file, or digits; never the path of a file that was there."""
    return re.fullmatch(rf"\s*({_NEW_FILE}|{_NUMBERS})\s*", inner) is not None


def closing(text: str, start: int, opening: str = "(", closing: str = ")") -> int:
    """The place of the bracket that closes the one at `start`; quotes are skipped."""
    depth, at = 0, start
    while at < len(text):
        character = text[at]
        if character == "\\":
            at += 2
            continue
        if character == "'" and opening == "(":
            at = text.find("'", at + 1)
            if at < 0:
                break
        elif character == '"':
            at = _quote_end(text, at + 1)
        elif character == opening:
            depth += 1
        elif character == closing:
            depth -= 1
            if depth == 0:
                return at
        elif character == "#" and opening == "(" and text[at - 1] in " \t\n;(":
            end = text.find("\n", at)
            at = len(text) if end < 0 else end
            continue
        at += 1
    raise NotUnderstood(f"a {opening} has no end")


def _quote_end(text: str, at: int) -> int:
    while at < len(text):
        if text[at] == "\\":
            at += 2
        elif text[at] == '"':
            return at
        elif text.startswith("$(", at):
            at = closing(text, at + 1) + 1
        else:
            at += 1
    raise NotUnderstood("a quote has no end")


def after_arithmetic(text: str, start: int) -> int | None:
    """The place after `$(( ... ))`; None when it is a subshell inside a substitution."""
    end = closing(text, start + 1)
    return end + 1 if text[end - 1 : end + 1] == "))" and closing(text, start + 2) == end - 1 else None


def braces(text: str) -> list[str]:
    """`a{b,c}d` -> abd, acd. Nested ones and ranges too; at most a hundred words."""
    for match in re.finditer(r"\{", text):
        if match.start() and text[match.start() - 1] == "$":
            continue
        depth, cuts = 0, [match.start()]
        for at in range(match.start(), len(text)):
            depth += (text[at] == "{") - (text[at] == "}")
            if text[at] == "," and depth == 1:
                cuts.append(at)
            if depth == 0:
                inner = text[match.start() + 1 : at]
                if len(cuts) > 1:
                    cuts.append(at)
                    choices = [text[a + 1 : b] for a, b in pairwise(cuts)]
                elif re.fullmatch(r"(-?\d+|\w)\.\.(-?\d+|\w)(\.\.-?\d+)?", inner):
                    choices = [UNKNOWN]
                else:
                    break
                made = [text[: match.start()] + choice + rest for choice in choices for rest in braces(text[at + 1 :])]
                made = [one for word in made for one in braces(word)]
                if len(made) > 100:
                    raise NotUnderstood("too many words in braces")
                return made
    return [text]
