"""Briefs: what is read, what is refused, and what a person is told."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dispatcher import brief
from dispatcher.errors import BriefError
from dispatcher.task import Brief, Budget, Deliver, Difficulty, Expect, Tools

FULL = """\
---
title: Fix the login
difficulty: hard
repo: ~/src/shop
base: 1234567
expect: changes
tools: read
setup: npm ci
verify: [npm test, npm run lint]
hidden_checks: checks/login
touch: "src/**"
priority: 5
after: 12
after_accepted: [other.md, 13]
candidates: [sonnet]
budget: {usd: 2, tokens: {day: 40_000}}
approvals: [{tool: set_flag}]
limits: {hard_cap: 1h30m, attempts: 3, stall: 90}
deliver: pr
sandbox: bwrap
auto_accept: checks
---

# Heading
body
"""


def test_every_key_is_read() -> None:
    read = brief.parse(FULL)
    assert read.body == "# Heading\nbody\n"
    assert (read.title, read.difficulty, read.expect, read.tools) == (
        "Fix the login",
        Difficulty.HARD,
        Expect.CHANGES,
        Tools.READ,
    )
    assert (read.repo, read.base, read.hidden_checks, read.sandbox) == (
        "~/src/shop",
        "1234567",
        "checks/login",
        "bwrap",
    )
    assert (read.setup, read.verify, read.touch) == (("npm ci",), ("npm test", "npm run lint"), ("src/**",))
    assert (read.after, read.after_accepted, read.candidates) == (("12",), ("other.md", "13"), ("sonnet",))
    assert read.budget == Budget(usd={"total": 2}, tokens={"day": 40_000})
    assert read.limits == {"hard_cap": 5400.0, "attempts": 3, "stall": 90.0}
    assert (read.priority, read.deliver, read.auto_accept) == (5, Deliver.PR, "checks")
    assert read.approvals == ({"tool": "set_flag"},)


def test_what_is_left_out_stays_open() -> None:
    read = brief.parse("Fix it.")
    assert read.difficulty is None
    assert read.verify is None
    assert read.setup is None
    assert read.expect is Expect.COMMIT


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("# Fix *login* ##\nx", "Fix *login*"),
        ("# Port it to C#", "Port it to C#"),
        ("# " + "# " * 50_000 + "x", "# " * 59 + "#…"),  # no pattern may take minutes over it
        ("##", "##"),
        ("intro\n\n## Second level\nx", "Second level"),
        ("```\n# not a heading\n```\n# Real", "Real"),
        ("#hashtag is no heading", "#hashtag is no heading"),
        ("one two three", "one two three"),
        (" ".join("abcdefghijkl"), "a b c d e f g h i j …"),
        ("\x1b]0;evil\x07 words", "]0;evil words"),
        ("---\ntitle: 'Given: here'\n---\n# Heading", "Given: here"),
        ("x" * 500, "x" * 119 + "…"),
    ],
)
def test_title(text: str, title: str) -> None:
    assert brief.parse(text).title == title


@pytest.mark.parametrize("text", ["\ufeff---\r\npriority: 1\r\n---\r\nbody\r\n", "---\rpriority: 1\r---\rbody\r"])
def test_line_ends_and_byte_order_mark(text: str) -> None:
    read = brief.parse(text)
    assert (read.priority, read.body) == (1, "body\n")


@pytest.mark.parametrize(
    ("text", "line", "message", "hint"),
    [
        ("", 1, "no body", "front matter"),
        (" \n\t\n", 1, "no body", ""),
        ("---\ntitle: x\n---\n\n", 4, "no body", ""),
        ("---\ntitle: x\n", 1, "never closed", "---"),
        ("a\nb\x00c", 2, "NUL", "remove"),
        ("a\udced", 1, "not UTF-8", "remove"),
        ("---\ndificulty: hard\n---\nx", 2, '"dificulty"', '"difficulty"'),
        ("---\ntitle: x\ndifficulty: hrad\n---\nx", 3, '"hrad"', '"hard"'),
        ("---\nexpect: pr\n---\nx", 2, '"pr"', "report"),
        ("---\ntouch: on\n---\nx", 2, "`on`", '"on"'),
        ("---\ntitle: a\nrepo: b\ntitle: c\n---\nx", 4, "line 2", "keep one"),
        ("---\nverify:\n\t- x\n---\nx", 3, "tab", "spaces"),
        ("---\nverify: [true]\n---\nx", 2, "must be text", "quote"),
        ("---\ntitle:\n---\nx", 2, "must be text", ""),
        ("---\npriority: high\n---\nx", 2, "whole number", ""),
        ("---\nlimits: {hard_cap: soon}\n---\nx", 2, "duration", "45m"),
        ("---\nlimits:\n  hard_cap: 1m\n  hardcap: 2m\n---\nx", 4, '"hardcap"', '"hard_cap"'),
        ("---\nlimits: {jobs: 2}\n---\nx", 2, '"jobs"', "known here"),
        ("---\nlimits: {attempts: -1}\n---\nx", 2, "0 or more", ""),
        ("---\nbudget: {dollars: 2}\n---\nx", 2, '"dollars"', "usd"),
        ("---\nbudget: {usd: {decade: 2}}\n---\nx", 2, '"decade"', "day"),
        ("---\nbudget: {usd: much}\n---\nx", 2, "number", ""),
        ("---\nbudget: 5\n---\nx", 2, "mapping", "{"),
        ("---\nauto_accept: always\n---\nx", 2, "checks", ""),
        ("---\n- a\n---\nx", 2, "mapping", "key: value"),
        ("---\napprovals: [x]\n---\nx", 2, "mapping", ""),
    ],
)
def test_refusals_name_file_line_and_fix(text: str, line: int, message: str, hint: str) -> None:
    with pytest.raises(BriefError) as caught:
        brief.parse(text, file="fix.md")
    assert caught.value.line == line
    assert caught.value.message.startswith(f"fix.md:{line}: ")
    assert message in caught.value.message
    assert hint in (caught.value.hint or "")


def test_the_body_never_holds_the_front_matter() -> None:
    assert brief.parse(FULL).body == "# Heading\nbody\n"
    plain = "plain\n---\nnot front matter\n---\n"
    assert brief.parse(plain).body == plain


fragments = st.sampled_from(
    [
        "---",
        "...",
        "\n",
        "title",
        ": ",
        "verify",
        "limits",
        "{",
        "}",
        "45m",
        "# ",
        "yes",
        "\t",
        "\r\n",
        "[",
        "]",
        "é",
        "12",
    ]
)


def attempt(text: str) -> Brief | BriefError:
    try:
        return brief.parse(text)
    except BriefError as error:
        return error


@given(st.one_of(st.text(max_size=80), st.lists(fragments, max_size=25).map(lambda parts: "---\n" + "".join(parts))))
@settings(max_examples=300, deadline=None)
def test_never_raises_anything_else(text: str) -> None:
    found = attempt(text)
    if isinstance(found, BriefError):
        assert found.line is not None
        assert "\n" not in found.message
    else:
        assert found.body.strip()
        assert found.title
        assert text.replace("\r\n", "\n").replace("\r", "\n").endswith(found.body)


@pytest.mark.parametrize(
    ("front", "said"),
    [
        ("candidates: []", "`candidates` names nothing"),
        ("touch: []", "`touch` names nothing"),
        ('touch: ["src/**", "../x"]', '`touch` cannot allow "../x"'),
        ('touch: "a/../../b"', "cannot allow"),
        ("limits: {hard_cap: 9999999999h}", "shorter than ten years"),
        ("limits: {stall: 0s}", "longer than nothing"),
    ],
)
def test_what_can_mean_nothing_is_refused_in_a_new_brief_alone(front: str, said: str) -> None:
    """One that is queued already is still read: its task has a history."""
    text = f"---\ntitle: x\n{front}\n---\nDo it.\n"
    with pytest.raises(BriefError, match=re.escape(said)) as error:
        brief.parse(text, new=True)
    assert error.value.line == 3
    assert brief.parse(text).body == "Do it.\n"


def test_a_pattern_at_the_top_of_the_repository_is_fine() -> None:
    assert brief.parse('---\ntouch: ["/etc/*", "!a..b"]\n---\nx', new=True).touch == ("/etc/*", "!a..b")
