"""Judgements of finished tasks: status, row, event and journal in one transaction."""

from __future__ import annotations

import pytest

from dispatcher.errors import Refused
from dispatcher.store import Store, journal, queue, reviews
from dispatcher.task import Status, Task
from tests.store.conftest import add, claim


def finished(db: Store, status: Status = Status.NEEDS_REVIEW) -> Task:
    task = add(db, "a")
    assert claim(db) is not None
    return queue.update(db, task.id, 5.0, status=status, result_commit="c0ffee", branch="dispatcher/1-a")


@pytest.mark.parametrize("status", [Status.ACCEPTED, Status.REJECTED])
def test_a_decision_is_status_row_event_and_journal(db: Store, status: Status) -> None:
    task = reviews.decide(db, finished(db), 9.0, status, by="ann", text="looked at it", data={"sha": "feed"})
    assert task.status is status
    [row] = reviews.of(db, task.id)
    assert (row.decision, row.kind, row.by, row.text, row.at) == (status, "person", "ann", "looked at it", 9.0)
    assert (row.result_commit, row.data) == ("c0ffee", {"sha": "feed"})
    event = queue.events(db, task.id)[-1]
    assert (event.kind, event.by, event.text) == ("review", "ann", f"{status} by ann: looked at it")
    assert [entry["kind"] for entry in journal.entries(journal.path_of(db.path))][-2:] == ["change", "review"]


def test_what_may_not_follow_writes_nothing(db: Store) -> None:
    task = reviews.decide(db, finished(db), 9.0, Status.ACCEPTED, by="ann")
    with pytest.raises(Refused, match="accepted and cannot become rejected"):
        reviews.decide(db, task, 10.0, Status.REJECTED, by="bob")
    assert [row.decision for row in reviews.of(db, task.id)] == ["accepted"]
    assert queue.get(db, task.id).status is Status.ACCEPTED


def test_findings_may_follow_acceptance_and_move_nothing(db: Store) -> None:
    task = reviews.decide(db, finished(db), 9.0, Status.ACCEPTED, by="ann", data={"into": "main", "sha": "feed"})
    reviews.write(db, task, 12.0, "advice", kind="model", by="opus", text="no test", data={"task": 7})
    assert [(row.decision, row.by) for row in reviews.of(db, task.id)] == [("accepted", "ann"), ("advice", "opus")]
    assert queue.get(db, task.id).status is Status.ACCEPTED
    assert reviews.landed(db, task.id) == "feed"


COMMITS = (("a", "/src/shop", "aaa"), ("b", "/src/other", "bbb"), ("c", "/src/shop", None), ("d", "/src/shop", "ddd"))


def test_a_chain_starts_from_a_commit_of_its_own_repository(db: Store) -> None:
    for name, repository, commit in COMMITS:
        task = add(db, name, repository=repository)
        if commit is not None:
            queue.update(db, task.id, 2.0, result_commit=commit)
    last = add(db, "e", repository="/src/shop", after=(4, 1, 2, 3))
    assert [before.result_commit for before in queue.predecessors(db, last.id)] == ["aaa", "ddd"]
