"""The words of a commit hook, found in the transcripts of both CLIs."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from dispatcher.harness import last_commit

COMMIT = "git add a.txt && git commit -m x"


def opencode(command: str, **state: Any) -> bytes:
    return json.dumps(
        {"type": "tool_use", "part": {"tool": "bash", "state": {"input": {"command": command}, **state}}}
    ).encode()


def claude(number: str, command: str, content: Any) -> list[bytes]:
    call = {"type": "tool_use", "id": number, "name": "Bash", "input": {"command": command}}
    result = {"type": "tool_result", "tool_use_id": number, "content": content, "is_error": True}
    lines = [("assistant", call), ("user", result)]
    return [json.dumps({"type": kind, "message": {"content": [part]}}).encode() for kind, part in lines]


def test_opencode() -> None:
    lines = [
        opencode(COMMIT, status="completed", output="lint: 2 problems"),
        opencode(COMMIT, status="completed", output="lint: 1 problem\n", metadata={"exit": 1}),
        opencode("git status", status="completed", output="nothing to commit, working tree clean"),
    ]
    assert last_commit.answer(lines) == "lint: 1 problem"
    assert last_commit.answer([opencode(COMMIT, status="error", error="no tabs")]) == "no tabs"


def test_claude() -> None:
    lines = [
        *claude("1", COMMIT, "Exit code 1\nlint: 2 problems"),
        *claude("2", "git commit -m y", [{"type": "text", "text": "lint: 1 problem"}]),
        *claude("3", "ls", "commit.txt"),
    ]
    assert last_commit.answer(lines) == "lint: 1 problem"


def test_no_commit_has_no_words() -> None:
    assert last_commit.answer([opencode("make commitment", status="completed")]) == ""
    assert last_commit.answer([opencode("ls", status="completed", output="commit"), *claude("1", "ls", "commit")]) == ""
    assert len(last_commit.answer([opencode(COMMIT, output="x" * 9_000)])) == last_commit.LIMIT


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=5)
    | st.sampled_from(["commit", "tool_use", "tool_result"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["part", "state", "input", "command", "message", "content", "type", "id", "output"]), inner
        )
    ),
    max_leaves=12,
)


@settings(max_examples=100)
@given(
    st.lists(
        st.binary(max_size=20) | json_values.map(lambda value: json.dumps(value).encode() + b" commit"), max_size=4
    )
)
def test_no_line_is_too_strange(lines: list[bytes]) -> None:
    assert isinstance(last_commit.answer(lines), str)


@settings(max_examples=100)
@given(
    st.lists(
        json_values.map(lambda value: json.dumps({"commit": value, "part": value, "message": value}).encode()),
        max_size=4,
    )
)
def test_no_event_is_too_strange(lines: list[bytes]) -> None:
    assert isinstance(last_commit.answer(lines), str)
