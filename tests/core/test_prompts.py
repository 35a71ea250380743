"""What a worker is told, and what it must never be told."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dispatcher import brief
from dispatcher.prompts import Parts, build
from dispatcher.task import CheckResult, Commit, Evidence, Expect, Outcome, OutcomeClass, PromptKind

RESUMED = [PromptKind.FINISH, PromptKind.CONTINUE, PromptKind.CONFIRM]
SHOWN = CheckResult("npm test", False, False, 1, 1.0, "2 of 9 failed")
HIDDEN = CheckResult("hidden/run.sh", True, False, 1, 1.0, "expected 5, got 4")
PARTS = Parts(
    title="Fix the login",
    body="Make the login work.\n",
    rules=("Write no changelog.",),
    verify=("npm test",),
    copy="/copies/7",
    timeout_binary="gtimeout",
    evidence=Evidence(
        commits=(Commit("0123456789abcdef", "First half"),),
        dirty=("src/b.py",),
        files=("src/a.py", "tests/test_a.py"),
        nested=("vendor/lib",),
    ),
    previous=Outcome(OutcomeClass.TIMED_OUT, "cap", final_text="Now the second half.", todo=("write the docs",)),
    failed_checks=(SHOWN, HIDDEN),
    note="The hook said: no tabs.",
    touch=("src/**",),
)


@pytest.mark.parametrize("kind", list(PromptKind))
def test_the_first_line_is_ours_and_names_the_kind(kind: PromptKind) -> None:
    for body in ("/compact", "-x", "---", "@README.md", "# Heading"):
        assert build(kind, replace(PARTS, body=body)).split("\n")[0] == f"Headless run. Prompt: {kind.value}."


@pytest.mark.parametrize("kind", list(PromptKind))
def test_every_prompt_carries_brief_rules_and_conditions(kind: PromptKind) -> None:
    text = build(kind, PARTS)
    for words in ("Make the login work.", "Fix the login", "Write no changelog.", "`npm test`", "`src/**`", "gtimeout"):
        assert words in text
    assert "Work only in this folder (/copies/7); never copy the repository" in text
    assert "The hook said: no tabs." in text


@pytest.mark.parametrize("kind", RESUMED)
def test_a_resumed_prompt_says_what_is_there_and_what_is_left(kind: PromptKind) -> None:
    text = build(kind, PARTS)
    for words in (
        "0123456789 First half",
        "src/a.py",
        "src/b.py",
        "vendor/lib",
        "write the docs",
        "Now the second half.",
    ):
        assert words in text
    assert "Tests among them:\n- tests/test_a.py" in text
    assert "2 of 9 failed" in text


@pytest.mark.parametrize("kind", list(PromptKind))
def test_of_a_hidden_check_only_that_it_failed(kind: PromptKind) -> None:
    text = build(kind, PARTS)
    assert "hidden/run.sh" not in text
    assert "expected 5" not in text
    if kind in RESUMED:
        assert "A hidden check failed." in text


def test_a_check_that_was_red_before_is_not_named_as_failed() -> None:
    text = build(PromptKind.CONTINUE, replace(PARTS, failed_checks=(replace(SHOWN, red_before=True),)))
    assert "2 of 9 failed" not in text


def test_an_output_that_the_note_already_has_is_not_repeated() -> None:
    note = "The check `npm test` failed (exit code 1):\n2 of 9 failed"
    assert build(PromptKind.CONTINUE, replace(PARTS, note=note)).count("2 of 9 failed") == 1


def test_finish_asks_only_to_finish() -> None:
    text = build(PromptKind.FINISH, PARTS)
    assert "Only finish what is there" in text
    assert "commit the changed files by name (not `git add -A`)" in text


def test_finish_without_checks_names_the_repositorys_own() -> None:
    assert "linter and tests" in build(PromptKind.FINISH, replace(PARTS, verify=()))


def test_where_changes_are_the_result_nobody_asks_for_a_commit() -> None:
    text = build(PromptKind.FINISH, replace(PARTS, expect=Expect.CHANGES, evidence=None))
    assert "commit the changed files" not in text
    assert "need no commit" in build(PromptKind.FIRST, replace(PARTS, expect=Expect.CHANGES))


def test_a_report_changes_nothing() -> None:
    text = build(PromptKind.FIRST, replace(PARTS, expect=Expect.REPORT))
    assert "Change nothing: your last message is the result" in text
    assert "git add" not in text


def test_confirm_allows_that_nothing_is_left() -> None:
    assert "Do what is left; if nothing is left, change nothing and say so." in build(PromptKind.CONFIRM, PARTS)


def test_approved_carries_the_answer() -> None:
    text = build(PromptKind.APPROVED, replace(PARTS, note="set_flag was approved: {flag: beta}"))
    assert text.index("set_flag was approved") < text.index("## The goal")
    assert text.count("set_flag was approved") == 1


@pytest.mark.parametrize("kind", list(PromptKind))
def test_work_that_was_kept_elsewhere_is_named(kind: PromptKind) -> None:
    """A successor that is not told where the work lies writes all of it again."""
    text = build(kind, replace(PARTS, salvaged=("/src/my shop", "refs/dispatcher/7/2")))
    assert "git fetch '/src/my shop' refs/dispatcher/7/2" in text
    assert "git diff HEAD FETCH_HEAD" in text
    assert "refs/dispatcher" not in build(kind, PARTS)


def test_without_a_timeout_program_none_is_to_be_made() -> None:
    assert "no `timeout` program" in build(PromptKind.FIRST, replace(PARTS, timeout_binary=None))


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        ("@README.md", r"\@README.md"),
        ("see @/etc/passwd now", r"see \@/etc/passwd now"),
        ('a @"x y.md"', r'a \@"x y.md"'),
        ("a\u00a0@b c\u3002@d", "a\u00a0\\@b c\u3002\\@d"),
        ("x@[label](claude-ref:1)", r"x\@[label](claude-ref:1)"),
        ("me@example.org and `@decorated` and (@x)", "me@example.org and `@decorated` and (@x)"),
        ("5 @ 3", "5 @ 3"),
    ],
)
def test_words_that_would_attach_a_file(body: str, shown: str) -> None:
    text = build(PromptKind.FIRST, replace(PARTS, body=body))
    assert shown in text
    assert ("stands for a plain at sign" in text) is (shown != body)


def test_the_first_prompt_carries_a_huge_brief_whole() -> None:
    body = "word " * 60_000 + "the last word"
    assert body in build(PromptKind.FIRST, replace(PARTS, body=body))


@pytest.mark.parametrize("kind", RESUMED)
def test_a_resumed_prompt_keeps_head_and_tail_of_a_huge_brief(kind: PromptKind) -> None:
    text = build(kind, replace(PARTS, body="the first word" + " @word" * 60_000 + " the last word"))
    assert len(text) <= 200_000
    assert "the first word" in text
    assert "the last word" in text
    assert "characters, the middle is left out" in text
    assert "never copy the repository" in text


def test_the_front_matter_never_reaches_a_worker() -> None:
    read = brief.parse("---\ntitle: T\nhidden_checks: secret/dir\n---\nbody")
    for kind in PromptKind:
        assert "secret/dir" not in build(kind, Parts(read.title, read.body))


ATTACHES = re.compile(r"(?:^|[\s\ufeff\u3001\u3002\uff01\uff1f])@\S|(?<!\\)@\[")
texts = st.text(st.sampled_from('ab @/[\n"`\x1b\u3002\udc80é'), max_size=60)
some_evidence = st.builds(Evidence, dirty=st.lists(texts, max_size=3).map(tuple), files=st.lists(texts).map(tuple))
some_results = st.builds(CheckResult, texts, st.just(False), st.booleans(), st.just(1), st.just(1.0), texts)


@given(
    st.sampled_from(PromptKind),
    st.builds(
        Parts,
        title=texts,
        body=texts,
        expect=st.sampled_from(Expect),
        evidence=some_evidence,
        previous=st.builds(Outcome, st.just(OutcomeClass.UNKNOWN), texts, final_text=texts),
        failed_checks=st.lists(some_results, max_size=2).map(tuple),
        note=texts,
    ),
    st.integers(500, 4_000),
)
@settings(max_examples=150, deadline=None)
def test_any_parts_make_a_bounded_prompt_that_attaches_nothing(kind: PromptKind, parts: Parts, limit: int) -> None:
    text = build(kind, parts, limit=limit)
    assert text.startswith(f"Headless run. Prompt: {kind.value}.\n")
    assert text.encode("utf-8")
    assert ATTACHES.search(text) is None
    assert kind is PromptKind.FIRST or len(text) <= limit
