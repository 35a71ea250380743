"""Reading scripts and choosing steps: as tables, without a server."""

from __future__ import annotations

from typing import Any

import pytest

from dispatcher.demo.script import Call, Script, ScriptError, parse


def said(script: Script, *prompts: str) -> list[str | None]:
    """The texts a script answers to these prompts, in order."""
    steps = [script.take(prompt, f"request of {prompt}") for prompt in prompts]
    return [step.text if step else None for step in steps]


@pytest.mark.parametrize(
    ("steps", "prompts", "answers"),
    [
        ([{"text": "a"}, {"text": "b"}], ["x", "x", "x"], ["a", "b", None]),
        ([{"text": "a"}, {"text": "b", "repeat": True}], ["x", "x", "x"], ["a", "b", "b"]),
        ([{"text": "a", "repeat": 2}, {"text": "b"}], ["x", "x", "x"], ["a", "a", "b"]),
        ([{"text": "a"}, {"text": "f", "when": "finish"}], ["finish", "finish", "x"], ["f", "a", None]),
        ([{"text": "f", "when": {"request": "of x"}}], ["y", "x"], [None, "f"]),
        ([{"when": "A", "steps": [{"text": "1"}, {"text": "2"}]}, {"text": "0"}], ["A", "B", "A"], ["1", "0", "2"]),
    ],
)
def test_steps_are_taken_in_order_and_a_fitting_condition_wins(
    steps: list[dict[str, Any]], prompts: list[str], answers: list[str | None]
) -> None:
    assert said(Script(steps), *prompts) == answers


def test_calls_keep_the_order_they_are_written_in() -> None:
    [step] = parse([{"write": {"path": "a", "content": ""}, "shell": "ls", "calls": [{"read": {"path": "a"}}]}])
    assert step.calls == (
        Call("write", {"path": "a", "content": ""}),
        Call("shell", {"command": "ls"}),
        Call("read", {"path": "a"}),
    )


@pytest.mark.parametrize(
    ("step", "complaint"),
    [
        ({"txt": "a"}, "unknown key txt"),
        ({"write": {"path": "a"}}, "write takes content, path, not path"),
        ({"calls": [{"push": "a"}]}, "a call is one of shell"),
        ({"error": {"code": 1}}, "unknown key code"),
        ({"hang": "later"}, "'later' is none of"),
        ({"when": {"reply": "a"}}, "reply"),
        ({"usage": {"tokens": 3}}, "tokens"),
    ],
)
def test_a_wrong_script_is_refused_and_the_step_named(step: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ScriptError, match=rf"step 2: .*{complaint}"):
        parse([{"text": "fine"}, step])
