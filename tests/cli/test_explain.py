"""`explain`: sentences that need a history which is tedious to make for real."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dispatcher.task import Billing, ModelEvidence, OutcomeClass, Status, Usage

from .conftest import Run
from .story import Story


@pytest.fixture
def story(home: Path) -> Story:
    return Story(home)


def told(run: Run, task: int) -> str:
    said = run("explain", str(task))
    assert said.code == 0, said.err
    return " ".join(said.out.split())


def test_a_mismatch_says_that_the_first_turn_was_charged(story: Story, run: Run) -> None:
    task = story.task()
    story.begin(task, billing=Billing.SUBSCRIPTION, credential="plan")
    story.end(
        task,
        Status.NEEDS_HUMAN,
        "a person must say who pays",
        outcome=OutcomeClass.BILLING_MISMATCH,
        outcome_reason="isUsingOverage: the plan is used up and money is being spent",
        verdict="needs_human",
        end_reason="mismatch",
        usage=Usage(),
        billed_usd=None,
        observed_model="other/model",
        model_evidence=ModelEvidence.CONFIRMED,
        notes=("kept from the worker: ANTHROPIC_API_KEY",),
    )
    text = told(run, task.id)
    assert "that one turn was charged already" in text
    assert "Spent on plan (subscription): how much is unknown; what was billed is unknown." in text
    assert "other/model answered (confirmed); asked for was demo/free-small." in text
    assert "Its supervisor ended it: mismatch." in text
    assert "Note: kept from the worker: ANTHROPIC_API_KEY." in text
    assert f"Next: dispatcher retry {task.id}, when what is in the way is gone" in text


def test_an_attempt_in_flight_and_one_that_left_no_record(story: Story, run: Run) -> None:
    task = story.task()
    story.begin(task)
    assert "It has not ended yet." in told(run, task.id)
    story.end(task, Status.QUEUED, "again", outcome=OutcomeClass.LOST, verdict="redispatch", end_reason=None)
    assert "It left no exit record" in told(run, task.id)


def test_an_attempt_that_was_stopped(story: Story, run: Run) -> None:
    task = story.task()
    story.begin(task)
    reason = "stopped by ada"
    story.end(task, Status.QUEUED, "again", outcome=OutcomeClass.STOPPED, outcome_reason=reason, end_reason="stopped")
    text = told(run, task.id)
    assert "Seen: stopped, stopped by ada. Its supervisor was told to end it." in " ".join(text.split())
    assert "error" not in text


def test_what_people_did_stands_where_it_happened(story: Story, run: Run) -> None:
    task = story.task("Fix\x1b[31m it")
    run("pause", str(task.id))
    run("resume", str(task.id))
    said = run("explain", str(task.id))
    assert "\x1b" not in said.out
    assert said.out.index("paused") < said.out.index("resumed")
    chapters = json.loads(run("explain", str(task.id), "--json").out)["chapters"]
    assert [chapter["kind"] for chapter in chapters] == ["status", "status"]
