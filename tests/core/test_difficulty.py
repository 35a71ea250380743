"""Front matter, then the first rule, then medium: each with its reason."""

from __future__ import annotations

import pytest

from dispatcher.difficulty import Rule, classify, problem
from dispatcher.errors import ConfigError
from dispatcher.task import Brief, Difficulty

TYPO = Rule(Difficulty.TRIVIAL, title="(typo|rename)", line=17)
PATH = Rule(Difficulty.HARD, path="db/*.md")
BOTH = Rule(Difficulty.HARD, title="typo", body="zzz")
LONG = Rule(Difficulty.HARD, words_over=5)


@pytest.mark.parametrize(
    ("brief", "rules", "path", "level", "reason"),
    [
        (Brief("b", "t", difficulty=Difficulty.EASY), [TYPO], None, Difficulty.EASY, "the brief says so"),
        (Brief("b", "Fix a TYPO"), [TYPO, LONG], None, Difficulty.TRIVIAL, 'the rule on line 17: title has "TYPO"'),
        (Brief("a b c d e f", "Fix a typo"), [LONG, TYPO], None, Difficulty.HARD, "a rule: 6 words, over 5"),
        (Brief("a b c d e", "x"), [LONG], None, Difficulty.MEDIUM, "no rule matched"),
        (Brief("b", "x"), [], None, Difficulty.MEDIUM, "there are no rules"),
        (Brief("a", "x"), [Rule(Difficulty.EASY, words_under=2)], None, Difficulty.EASY, "a rule: 1 word, under 2"),
        (Brief("b", "x"), [PATH], "/q/db/a.md", Difficulty.HARD, "a rule: file matches db/*.md"),
        (Brief("b", "x"), [PATH], None, Difficulty.MEDIUM, "no rule matched"),
        (Brief("b", "a typo"), [BOTH], None, Difficulty.MEDIUM, "no rule matched"),
        (Brief("b", "x"), [Rule(Difficulty.EASY)], None, Difficulty.EASY, "a rule: matches everything"),
    ],
)
def test_classify(brief: Brief, rules: list[Rule], path: str | None, level: Difficulty, reason: str) -> None:
    assert classify(brief, rules, path=path) == (level, reason)


def test_a_broken_expression_is_a_configuration_error() -> None:
    rule = Rule(Difficulty.EASY, title="(", line=4)
    assert "`title`" in (problem(rule) or "")
    assert problem(TYPO) is None
    with pytest.raises(ConfigError) as caught:
        classify(Brief("b", "t"), [rule])
    assert caught.value.line == 4
