"""Brief and rules -> difficulty, always with the reason.

The front matter wins, then the first rule of the configuration that matches, then `medium`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase

from dispatcher.errors import ConfigError
from dispatcher.record import record
from dispatcher.task import Brief, Difficulty
from dispatcher.words import plural


@record
class Rule:
    """One entry of `difficulty:`. Every condition that is set must hold; without any, the rule always matches.

    `title` and `body` are regular expressions, searched without regard to case; `path` is a glob on the brief's file.
    """

    is_: Difficulty
    title: str | None = None
    body: str | None = None
    words_over: int | None = None
    words_under: int | None = None
    path: str | None = None
    line: int | None = None


def problem(rule: Rule) -> str | None:
    """What is wrong with the rule's regular expressions, in words; None when they compile."""
    for name, pattern in (("title", rule.title), ("body", rule.body)):
        if pattern is None:
            continue
        try:
            re.compile(pattern)
        except (re.error, RecursionError, OverflowError) as error:
            return f"`{name}` is not a regular expression: {error}"
    return None


def classify(brief: Brief, rules: Sequence[Rule], *, path: str | None = None) -> tuple[Difficulty, str]:
    """The difficulty and why. Raises ConfigError for a rule whose expression does not compile or takes too long.

    What is too long is the caller's business: whoever measures the time raises TimeoutError in here.
    """
    if brief.difficulty is not None:
        return brief.difficulty, "the brief says so"
    words = len(brief.body.split())
    for rule in rules:
        wrong = problem(rule)
        if wrong is not None:
            raise ConfigError(wrong, line=rule.line)
        try:
            reasons = _matches(rule, brief, words, path)
        except TimeoutError:
            raise ConfigError(
                f"models.yaml: {_name(rule)} of `difficulty` has an expression that takes too long",
                line=rule.line,
                hint="write it without a repetition inside of a repetition, such as (a+)+",
            ) from None
        if reasons is not None:
            return rule.is_, f"{_name(rule)}: {', '.join(reasons) or 'matches everything'}"
    return Difficulty.MEDIUM, "no rule matched" if rules else "there are no rules"


def _name(rule: Rule) -> str:
    return "a rule" if rule.line is None else f"the rule on line {rule.line}"


def _matches(rule: Rule, brief: Brief, words: int, path: str | None) -> list[str] | None:
    """The conditions that hold, in words; None as soon as one does not."""
    reasons: list[str] = []
    for name, pattern, text in (("title", rule.title, brief.title), ("body", rule.body, brief.body)):
        if pattern is not None:
            found = re.search(pattern, text, re.IGNORECASE)
            if found is None:
                return None
            reasons.append(f'{name} has "{" ".join(found.group().split())[:60]}"')
    if rule.words_over is not None:
        if words <= rule.words_over:
            return None
        reasons.append(f"{plural(words, 'word')}, over {rule.words_over}")
    if rule.words_under is not None:
        if words >= rule.words_under:
            return None
        reasons.append(f"{plural(words, 'word')}, under {rule.words_under}")
    if rule.path is not None:
        if path is None or not (fnmatchcase(path, rule.path) or fnmatchcase(path, f"*/{rule.path}")):
            return None
        reasons.append(f"file matches {rule.path}")
    return reasons
