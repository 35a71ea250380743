"""What ordinary readers of YAML let pass, and what is read instead."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dispatcher.errors import ConfigError
from dispatcher.strict_yaml import Located, closest, duration, from_cache, parse, to_cache, to_plain


def plain(text: str) -> object:
    return to_plain(parse(text, file="models.yaml"))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", {}),
        ("# only a comment\n", {}),
        ("\ufeffa: 1", {"a": 1}),
        ("a: 40_000_000", {"a": 40_000_000}),
        ("a: -3", {"a": -3}),
        ("a: 2.5", {"a": 2.5}),
        ("a: 12e4567", {"a": "12e4567"}),  # a commit, not infinity
        ("a: 1:30", {"a": "1:30"}),  # not ninety
        ("a: 2026-01-02", {"a": "2026-01-02"}),  # not a date
        ("a: 45m", {"a": "45m"}),
        ("a: true", {"a": True}),
        ("a: ~\nb:", {"a": None, "b": None}),
        ("a: 'no'", {"a": "no"}),
        ('"on": 1', {"on": 1}),
        ("a: [npm ci, {b: c}]", {"a": ["npm ci", {"b": "c"}]}),
        ("a: openrouter/cohere/north-mini-code:free", {"a": "openrouter/cohere/north-mini-code:free"}),
        ("a: |\n  x\n  \ty\nb: 1", {"a": "x\n\ty\n", "b": 1}),  # a tab inside of a text is text
    ],
)
def test_reads(text: str, value: object) -> None:
    assert plain(text) == value


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("a: 1\nb: 2\na: 3", 3, "here and on line 1"),
        ("a:\n  b: 1\n  b: 2", 3, "here and on line 2"),
        ("a: {b: 1, b: 2}", 1, "written twice"),
        ("a:\n\tb: 1", 2, "column 1"),
        ("a:\n  b: 1\n \tc: 2", 3, "tab"),
        ("a: [\n\tb]", 2, "tab"),
        ("a: yes", 1, "`yes`"),
        ("trust: No", 1, "`No`"),
        ("a: [off]", 1, "`off`"),
        ("on: 1", 1, "`on`"),
        ("true: 1", 1, "must be text"),
        ("1: 1", 1, "must be text"),
        ("[a]: 1", 1, "must be text"),
        ("a: 010", 1, "leading zero"),
        ("a: " + "9" * 30, 1, "too large"),
        ("a: &x 1\nb: *x", 1, "anchors"),
        ("a: !!python/object:os.system x", 1, "tags"),
        ("<<: {a: 1}", 1, "merge"),
        ("a: 1\n---\nb: 2", 2, "second document"),
        ("- a", 1, "mapping"),
        ("just text", 1, "mapping"),
        ("a: foo: bar", 1, "not allowed"),
        ("a: {m: foo: bar}", 1, ""),
        ("a: [1, 2", 1, ""),
        ("a: 'x", 1, ""),
        ("a: b\n c: d", 2, ""),
        ("a: \x00", 1, "U+0000"),
        ("a: 1\nb: \x1b[0m", 2, "U+001B"),
        ("a: \ud800", 1, "U+D800"),
        ("a: " + "[" * 200, 1, "nested"),
    ],
)
def test_refuses_with_file_and_line(text: str, line: int, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(text, file="models.yaml")
    assert words in caught.value.message
    assert caught.value.line is not None
    assert line <= caught.value.line <= line + 1
    assert caught.value.message.startswith(f"models.yaml:{caught.value.line}: ")
    assert "\n" not in caught.value.message


def test_lines_count_in_the_whole_file() -> None:
    root = parse("a: 1\nb:\n  c: 2\n", file="x", first_line=5)
    assert isinstance(root.value, dict)
    assert [root.value[key].line for key in "ab"] == [5, 6]
    assert root.value["b"].value["c"] == Located(2, 7, 6)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("45m", 2700),
        ("90s", 90),
        ("2h", 7200),
        ("1h30m", 5400),
        ("1d", 86400),
        ("1.5s", 1.5),
        (30, 30),
        (0.5, 0.5),
        ("", None),
        ("m", None),
        ("5", None),
        ("-5m", None),
        ("5 weeks", None),
        (-1, None),
        (True, None),
        (None, None),
    ],
)
def test_duration(text: object, seconds: float | None) -> None:
    assert duration(text) == seconds


def test_closest_names_the_one_that_was_meant_or_all() -> None:
    assert closest("dificulty", ["title", "difficulty"]) == 'did you mean "difficulty"?'
    assert closest("zzz", ["title", "repo"]) == "known here: title, repo"


fragments = st.sampled_from([*":- \n\t'\"{}[]a0?,#|>\r\u2028é", "yes", "&a", "*a", "!t", "<<", "---"])


def attempt(text: str) -> Located | ConfigError:
    try:
        return parse(text, file="f")
    except ConfigError as error:
        return error


@given(st.one_of(st.text(max_size=60), st.lists(fragments, max_size=25).map("".join)))
@settings(max_examples=300, deadline=None)
def test_never_raises_anything_else_and_survives_the_cache(text: str) -> None:
    found = attempt(text)
    if isinstance(found, ConfigError):
        assert found.line is not None
        assert 1 <= found.line <= text.count("\n") + text.count("\r") + text.count("\u2028") + 2
        assert "\n" not in found.message
    else:
        assert isinstance(found.value, dict)
        assert from_cache(json.loads(json.dumps(to_cache(found)))) == found


@pytest.mark.parametrize("data", [None, [], [1, 2, "map", []], [1, "x", "value", 1], {"a": 1}, [1, 2, "value", {}]])
def test_a_damaged_cache_is_noticed(data: object) -> None:
    with pytest.raises(ValueError, match="not a cached configuration"):
        from_cache(data)
