"""Attempts: counted, settled once, found again."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from dispatcher import quota
from dispatcher.errors import InternalError, NotFound, Refused
from dispatcher.store import Store, glance, history, holds, lookup, queue
from dispatcher.task import (
    Billing,
    CheckResult,
    Checks,
    Counters,
    HoldScope,
    ModelEvidence,
    NextStep,
    OutcomeClass,
    PromptKind,
    Status,
    Usage,
)
from tests.store.conftest import add, begin, claim, end, tasks_with


def test_begin_counts(db: Store) -> None:
    task = add(db)
    claim(db)
    first, second = begin(db, task.id), begin(db, task.id, 310.0, prompt=PromptKind.FINISH)
    assert (first.number, first.folder, first.prompt) == (1, "/logs/1", PromptKind.FIRST)
    assert (second.number, second.folder, second.prompt) == (2, "/logs/2", PromptKind.FINISH)
    assert queue.get(db, task.id).counters == Counters(starts=2)
    assert history.attempts(db, task.id) == [first, second] == history.open_attempts(db)
    assert history.open_attempts(db, 99) == []
    assert history.get_attempt(db, 2) == second
    assert [event.kind for event in queue.events(db, task.id)][-2:] == ["attempt_started"] * 2


def test_begin_only_for_the_owner(db: Store) -> None:
    task = add(db)
    with pytest.raises(Refused):
        begin(db, task.id, owner="runner")
    claim(db)
    with pytest.raises(Refused):
        begin(db, task.id, owner="other")
    assert begin(db, task.id, owner="runner").number == 1
    with pytest.raises(NotFound):
        begin(db, 99)
    assert len(history.open_attempts(db)) == 1
    assert queue.get(db, task.id).counters.starts == 1


ALL: dict[str, Any] = {
    "outcome": OutcomeClass.QUOTA_EXHAUSTED,
    "outcome_reason": "limit",
    "proof": "429",
    "verdict": "redispatch",
    "verdict_reason": "held",
    "counted": True,
    "exit_code": 1,
    "signal": 9,
    "timed_out": True,
    "end_reason": "quota",
    "survivors": 0,
    "usage": Usage(1, 2, 3, 4, 5, 0.25),
    "observed_model": "opencode/big-pickle",
    "model_evidence": ModelEvidence.CONFIRMED,
    "detection": "plugin",
    "base_commit": "a",
    "result_commit": "b",
    "evidence": '{"dirty": ["caf\\udce9"]}',
    "snapshot_ref": "refs/dispatcher/1/1",
    "final_text": "words",
    "notes": ("one", "zwölf"),
    "host": "here",
    "seconds": 12.5,
    "session_id": "s",
    "harness_version": "1.18.3",
    "pid": 77,
    "pid_start": 123_456,
    "boot": "8c1f",
}


def test_end_writes_everything_at_once(db: Store) -> None:
    task = add(db)
    claim(db)
    attempt = begin(db, task.id)
    step = NextStep(PromptKind.CONTINUE, candidate="nemotron")
    settled = history.end_attempt(
        db,
        attempt.id,
        400.0,
        attempt_fields=ALL,
        task_fields={"status": Status.WAITING, "not_before": 900.0, "next": step, "counters": Counters(starts=1)},
        event="limit reached",
        holds=[(HoldScope.CREDENTIAL, "zen", 900.0, "free limit", "day")],
    )
    assert settled
    assert history.get_attempt(db, attempt.id) == replace(attempt, ended_at=400.0, **ALL)
    after = queue.get(db, task.id)
    assert (after.status, after.not_before, after.next, after.owner) == (Status.WAITING, 900.0, step, None)
    assert queue.events(db, task.id)[-1] == queue.Event(400.0, "attempt_ended", "limit reached", "dispatcher", 1)
    (hold,) = holds.active(db, 401.0)
    assert (hold.scope, hold.key, hold.until, hold.window) == (HoldScope.CREDENTIAL, "zen", 900.0, "day")
    assert history.open_attempts(db) == []


def test_one_settler_wins(db: Store) -> None:
    task = add(db)
    claim(db)
    attempt = begin(db, task.id)
    assert end(db, attempt, 400.0, task={"status": Status.NEEDS_REVIEW}, outcome=OutcomeClass.COMPLETED)
    assert not end(db, attempt, 500.0, task={"status": Status.NEEDS_HUMAN}, outcome=OutcomeClass.LOST)
    assert history.get_attempt(db, attempt.id).outcome is OutcomeClass.COMPLETED
    assert queue.get(db, task.id).status is Status.NEEDS_REVIEW
    assert len(queue.events(db, task.id)) == 4


def test_a_failure_in_the_middle_writes_nothing(db: Store) -> None:
    task = add(db)
    claim(db)
    attempt = begin(db, task.id)
    with pytest.raises(InternalError):
        end(db, attempt, task={"colour": 1}, outcome=OutcomeClass.COMPLETED)
    assert history.get_attempt(db, attempt.id) == attempt


@pytest.mark.parametrize("word", [Status.CANCELLED, Status.PAUSED])
def test_what_a_person_said_meanwhile_stays(db: Store, word: Status) -> None:
    task = add(db)
    claim(db)
    attempt = begin(db, task.id)
    queue.update(db, task.id, 350.0, status=word, status_reason="by mara")
    step = NextStep(PromptKind.FINISH)
    fields = {"status": Status.NEEDS_REVIEW, "status_reason": "done", "branch": "b", "next": step}
    assert end(db, attempt, task=fields, outcome=OutcomeClass.COMPLETED)
    after = queue.get(db, task.id)
    assert (after.status, after.status_reason, after.branch, after.next) == (word, "by mara", "b", step)


def test_a_runner_that_lost_its_task_cannot_move_it(db: Store) -> None:
    task = add(db)
    claim(db, owner="second")
    attempt = begin(db, task.id)
    assert history.end_attempt(
        db,
        attempt.id,
        400.0,
        attempt_fields={"outcome": OutcomeClass.LOST},
        task_fields={"status": Status.NEEDS_HUMAN},
        event="settled late",
        owner="first",
    )
    assert queue.get(db, task.id).status is Status.RUNNING


def test_update_attempt(db: Store) -> None:
    attempt = begin(db, add(db).id)
    history.update_attempt(db, attempt.id, session_id="s", notes=("a",))
    assert history.get_attempt(db, attempt.id) == replace(attempt, session_id="s", notes=("a",))
    with pytest.raises(NotFound):
        history.update_attempt(db, 99, session_id="s")
    with pytest.raises(InternalError):
        history.update_attempt(db, attempt.id, number=7)


def test_checks(db: Store) -> None:
    attempt = begin(db, add(db).id)
    assert history.checks(db, attempt.id) is None
    results = (
        CheckResult("npm test", False, True, 0, 1.5, "ok", red_before=True),
        CheckResult("hidden", True, False, None, 0.5),
    )
    history.save_checks(db, attempt.id, results[:1])
    assert history.checks(db, attempt.id) == Checks(True, results[:1])
    whole = Checks(True, results, outside_touch=("a.py",), error="no disk")
    history.save_checks(db, attempt.id, whole)
    assert history.checks(db, attempt.id) == whole
    assert history.checks_of(db, attempt.id) == results
    assert db.read("SELECT count(*) FROM v_checks WHERE task_id = 1")[0][0] == 2


def settled(db: Store, title: str, now: float, **more: Any) -> int:
    """A task with one attempt that ended; the attempt's id. `final` is its last message."""
    task = add(db, title, now)
    fields = {
        name: more.pop(name)
        for name in ("outcome", "usage", "seconds", "final_text", "notes", "counted", "billed_usd")
        if name in more
    }
    attempt = begin(db, task.id, now, **more)
    end(db, attempt, now + 1, **{"outcome": OutcomeClass.COMPLETED, **fields})
    return attempt.id


def test_the_last_success_of_each_candidate(db: Store) -> None:
    for number in range(6):
        settled(db, f"task {number}", 100.0 * number, candidate="ab"[number % 2])
    settled(db, "bad", 550.0, outcome=OutcomeClass.STALLED, candidate="b")
    assert history.last_success(db) == {"a": 401.0, "b": 501.0}
    settled(db, "said done, changed nothing", 600.0, counted=True, candidate="b")
    assert history.last_success(db) == {"a": 401.0, "b": 501.0}, "what counts against it is no success"
    shown = {row["candidate"]: row["at"] for row in glance.status(db, 700.0)["last_success"]}
    assert shown == history.last_success(db), "one meaning for the table and the row of failures"


@pytest.mark.parametrize(
    ("words", "tasks"),
    [
        ("zebra", [1]),  # title
        ("cafe", [2]),  # accents do not matter
        ("WIDGETS final", [2]),  # all words, in any order and place of one text
        ("widg*", [2]),
        ("remark", [3]),  # a note of the attempt
        ("nobody", []),
        ("zebra widgets", []),
        ("task", [3, 2, 1]),
        ('zebra" OR "task', []),  # no word is an operator
        ("NOT", []),
        ("title:zebra", []),
        ("-", []),
        ("*", []),
        ("\0\udcff", []),
        ("", [3, 2, 1]),
    ],
)
def test_text_search(db: Store, words: str, tasks: list[int]) -> None:
    settled(db, "zebra task", 100.0)
    settled(db, "the café task", 200.0, final_text="Final words about widgets.")
    settled(db, "third task", 300.0, notes=("a remark",))
    assert [row["task"] for row in lookup.find(db, lookup.Query(text=words))] == tasks
    if words:
        assert tasks_with(db, words) == tasks


def test_text_search_forgets_old_words(db: Store) -> None:
    task = add(db, "before")
    queue.update(db, task.id, 5.0, title="afterwards", brief_text="x", final_text="result")
    queue.add_note(db, task.id, 6.0, "remarkable", "mara")
    assert [tasks_with(db, word) for word in ("before", "afterwards", "result", "remarkable")] == [
        [],
        [1],
        [1],
        [1],
    ]
    begin(db, task.id, final_text="early")
    history.update_attempt(db, 1, final_text="late")
    assert [tasks_with(db, word) for word in ("early", "late")] == [[], [1]]
    db.connection.execute("DELETE FROM event")
    db.connection.execute("DELETE FROM attempt")
    db.connection.execute("DELETE FROM task")
    assert [tasks_with(db, word) for word in ("late", "afterwards")] == [[], []]
    for index in ("task_search", "attempt_search"):
        db.connection.execute(f"INSERT INTO {index} ({index}, rank) VALUES ('integrity-check', 1)")


def test_spend(db: Store) -> None:
    """Thursday 2026-07-30 12:00 UTC: the windows begin at 07:00, 00:00, Monday 27th and the 1st."""
    now = datetime(2026, 7, 30, 12, tzinfo=UTC).timestamp()
    hour, day = 3600.0, 86400.0
    priced = Usage(input=10, output=20, cache_read=5, cost_usd=0.5)
    settled(db, "now", now - hour, usage=priced, seconds=60.0)
    settled(db, "this morning", now - 6 * hour, usage=Usage(output=1), seconds=30.0, candidate="nemotron")
    settled(db, "on tuesday", now - 2 * day, usage=priced)
    settled(db, "on the 10th", now - 20 * day, usage=priced)
    settled(db, "in june", now - 40 * day, usage=priced)
    settled(db, "another", now - hour, credential="api", billing=Billing.METERED)
    spend = history.spend(db, now)
    assert spend.per_candidate_today == {"pickle": 2, "nemotron": 1}
    assert spend.per_credential["zen"] == {
        "window": quota.Totals(0.5, 35, 1, 1.0, now - hour),
        "day": quota.Totals(0.5, 36, 2, 1.5, now - 6 * hour),
        "week": quota.Totals(1.0, 71, 3, 1.5, now - 2 * day),
        "month": quota.Totals(1.5, 106, 4, 1.5, now - 20 * day),
    }
    assert spend.per_credential["api"]["day"] == quota.Totals(None, 0, 1, 0.0, now - hour)


def test_spend_of_an_empty_log(db: Store) -> None:
    assert history.spend(db, 1e9) == quota.Spend({}, {})


def test_the_log_as_people_query_it(db: Store) -> None:
    settled(db, "task", 1_785_412_800.0, usage=Usage(cost_usd=0.5))
    row = db.read("SELECT title, outcome, cost_usd, started, tokens_input FROM v_attempts")[0]
    assert tuple(row) == ("task", "completed", 0.5, "2026-07-30T12:00:00Z", None)
    assert tuple(db.read("SELECT starts, next_prompt, created FROM v_tasks")[0]) == (1, "first", "2026-07-30T12:00:00Z")


def test_failures_in_a_row(db: Store) -> None:
    """A quota event breaks no row; a success does, and so does a person's release."""
    bad: dict[str, Any] = {"outcome": OutcomeClass.UNKNOWN, "counted": True}
    limited: dict[str, Any] = {"outcome": OutcomeClass.RATE_LIMITED}
    fine: dict[str, Any] = {}
    for number, fields in enumerate([bad, fine, bad, limited, bad]):
        settled(db, f"task {number}", 100.0 * (number + 1), candidate="a", **fields)
    assert history.failures_in_a_row(db, "a", 5) == 2
    assert history.failures_in_a_row(db, "a", 1) == 1
    assert history.failures_in_a_row(db, "a", 5, since=450.0) == 1
    assert history.failures_in_a_row(db, "b", 5) == 0
    assert history.last_ends(db, ["a", "b"]) == {"a": (OutcomeClass.UNKNOWN, 501.0)}


def test_what_was_paid_is_not_the_list_price(db: Store) -> None:
    """Unknown stays unknown: it is neither 0 nor hidden in a sum."""
    settled(db, "priced", 100.0, credential="api", usage=Usage(cost_usd=0.5, input=10), billed_usd=0.5)
    assert history.paid(db, "api", 0.0) == (0.5, 0)
    settled(db, "killed", 200.0, credential="api", usage=Usage(input=7))
    assert history.paid(db, "api", 0.0) == (0.5, 1)
    assert history.paid(db, "api", 150.0) == (None, 1)
    used = history.task_spend(db, 2)
    assert (used.usd, used.tokens, used.attempts) == (None, 7, 1)
