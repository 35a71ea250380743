"""Shell text -> the simple commands that it would start, each as words. Reads; never runs anything.

Written for one question: may this run without asking? So whatever is not surely understood raises `NotUnderstood` or
becomes a word with a mark in it, and the caller asks. Understood: quotes, escapes, comments, lists, pipes, subshells,
groups, loops, conditions, functions, redirections, here-documents, command and process substitution, brace expansion,
and variables that the same text sets. Not understood: whatever else a variable, a file or a program would give.

A text goes through three steps: `words` cuts it into words and operators, `grammar` finds the simple commands in them,
`wrappers` takes off programs that only run other ones. Each step may come upon a text that runs too (a substitution,
`sh -c`), and starts again with it.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from dispatcher.policy.shell import grammar, words
from dispatcher.policy.shell.shapes import QUOTED, SAFE, UNKNOWN, VARIABLE, Command, NotUnderstood, State
from dispatcher.policy.shell.wrappers import ADDRESS, SHELLS

__all__ = ["ADDRESS", "QUOTED", "SAFE", "SHELLS", "UNKNOWN", "VARIABLE", "Command", "NotUnderstood", "read"]

_DEEPEST = 12
_LONGEST = 200_000
_DEFINES = re.compile(r"([\w.-]+)\s*\(\s*\)|\bfunction\s+([\w.-]+)")
_FORWARDS = re.compile(r"(?:^|[;&|{(!\n]|\b(?:then|do|else|elif|if|while|until|exec|command|time|env))\s*\"?\$\{?[@*]")


def read(text: str, watched: Callable[[str], bool] = lambda _: False) -> list[Command]:
    """Every simple command in it, also those of substitutions and nested shells. Raises NotUnderstood.

    `watched`: names of variables; setting one of them counts as a command of its own.
    """
    first = _read(text, State(_script, watched=watched))
    if not first.variables:
        return first.found
    return _read(text, State(_script, first.variables, watched=watched)).found  # all words are cut before one is set


def _read(text: str, state: State) -> State:
    if _FORWARDS.search(text):  # substitutions are read before the functions that they call
        state.functions = {name for match in _DEFINES.finditer(text) for name in match.groups() if name}
        state.forwards = bool(state.functions)
    state.run(text)
    return state


def _script(text: str, state: State) -> None:
    if len(text) > _LONGEST:
        raise NotUnderstood("it is too long")
    state.depth += 1
    if state.depth > _DEEPEST:
        raise NotUnderstood("it is nested too deeply")
    grammar.parse(words.cut(text, state), state)
    state.depth -= 1
