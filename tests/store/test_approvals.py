"""Questions, answers and grants, and who may answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dispatcher import approving
from dispatcher.config.model import ApprovalsConfig
from dispatcher.errors import BadInput, NotFound, Refused
from dispatcher.store import Store, approvals, queue
from dispatcher.store.approvals import Approval
from dispatcher.task import NextStep, PromptKind, Status, Task

from .conftest import add, begin, claim, end

ASKED: dict[str, Any] = {
    "at": 310.0,
    "tool": "bash",
    "input": {"command": "git push"},
    "folder": "/copy",
    "digest": "d1",
    "call": "c1",
    "session": "s1",
    "rule": "leaves-the-machine",
    "reason": "git push",
    "remember": True,
}
WHO: dict[str, Any] = {"by": "alice", "where": "/dev/pts/1 on host"}


class Parked:
    """A task whose attempt asked and was parked."""

    def __init__(self, db: Store, logs: Path, **asked: Any) -> None:
        self.db = db
        task = add(db)
        claim(db)
        self.attempt = begin(db, task.id, folder=str(logs / str(task.id) / "{number}"))
        Path(self.attempt.folder).mkdir(parents=True)
        self.folder = approving.folder_of(self.attempt)
        self.folder.mkdir()
        found = approvals.ask(db, self.attempt, {**ASKED, **asked}, None)
        assert found is not None
        self.asked: Approval = found
        step = NextStep(PromptKind.APPROVED, "pickle", "s1")
        end(db, self.attempt, task={"status": Status.AWAITING_APPROVAL, "next": step}, outcome="awaiting_approval")

    @property
    def task(self) -> Task:
        return queue.get(self.db, self.asked.task_id)

    @property
    def approval(self) -> Approval:
        return approvals.get(self.db, self.asked.id)


@pytest.fixture
def parked(db: Store, tmp_path: Path) -> Parked:
    return Parked(db, tmp_path / "logs")


def test_the_same_question_is_written_once(parked: Parked) -> None:
    assert approvals.ask(parked.db, parked.attempt, ASKED, None) is None
    assert len(approvals.pending(parked.db)) == 1


def test_an_answer_queues_the_task_with_what_its_worker_is_told(parked: Parked) -> None:
    approving.tell(parked.db, parked.asked, 400.0, approve=True, **WHO)
    assert parked.task.status is Status.QUEUED
    assert parked.task.next.prompt is PromptKind.APPROVED
    assert "git push" in parked.task.next.note
    assert claim(parked.db, 500.0) is not None
    answers = [json.loads(line) for line in (parked.folder / "1.answers").read_text().splitlines()]
    assert [(one["digest"], one["do"], one["by"]) for one in answers] == [("d1", "approve", "alice")]


def test_who_when_where_and_how_long_is_written_down(parked: Parked) -> None:
    approving.tell(parked.db, parked.asked, 400.0, approve=False, reason="not today", **WHO)
    events = [event.text for event in queue.events(parked.db, parked.asked.task_id) if event.kind == "approval"]
    assert events[-1] == "approval 1 denied by alice (/dev/pts/1 on host) after 90 s: not today"
    assert (parked.approval.answered_at, parked.approval.answered_by) == (400.0, "alice")


def test_an_answer_may_be_changed_until_it_was_used(parked: Parked) -> None:
    approving.tell(parked.db, parked.asked, 400.0, approve=False, **WHO)
    approving.tell(parked.db, parked.asked, 410.0, approve=True, **WHO)
    assert parked.approval.status == "approved"
    (parked.folder / f"{parked.asked.id}.used").touch()
    with pytest.raises(BadInput, match="was used"):
        approving.tell(parked.db, parked.asked, 420.0, approve=False, **WHO)
    assert parked.approval.status == "consumed"


def test_another_open_question_keeps_the_task_parked(parked: Parked) -> None:
    other = approvals.ask(parked.db, parked.attempt, {**ASKED, "at": 311.0, "digest": "d2"}, None)
    assert other is not None
    approving.tell(parked.db, parked.asked, 400.0, approve=True, **WHO)
    assert str(parked.task.status) == "awaiting_approval"
    assert approvals.get(parked.db, other.id).status == "pending", "a grant or an answer releases no other call"
    approving.tell(parked.db, other, 410.0, approve=False, **WHO)
    assert parked.task.status is Status.QUEUED


def test_a_grant_is_listed_and_taken_back(parked: Parked) -> None:
    approving.tell(parked.db, parked.asked, 400.0, approve=True, remember=("task", "1"), **WHO)
    (grant,) = approvals.grants(parked.db, [("task", "1")])
    assert (grant.scope, grant.by, grant.approval_id) == ("task", "alice", 1)
    assert approvals.grants(parked.db, [("task", "2")]) == []
    approvals.revoke(parked.db, grant.id, "bob", 500.0)
    assert approvals.grants(parked.db) == []
    with pytest.raises(NotFound):
        approvals.revoke(parked.db, grant.id, "bob", 500.0)


def test_a_cancelled_task_asks_nobody(parked: Parked) -> None:
    queue.update(parked.db, parked.asked.task_id, 400.0, status=Status.CANCELLED)
    approvals.withdraw_ended(parked.db)
    assert parked.approval.status == "withdrawn"
    with pytest.raises(BadInput, match="its task has ended"):
        approving.tell(parked.db, parked.asked, 410.0, approve=True, **WHO)


class Configured:
    def __init__(self, **fields: Any) -> None:
        self.approvals = ApprovalsConfig(**fields)


def test_what_waits_too_long_is_denied(db: Store, tmp_path: Path) -> None:
    parked = Parked(db, tmp_path / "logs", at=311.0, digest="d3")
    assert approvals.ask(db, parked.attempt, {**ASKED, "at": 312.0}, 100.0) is not None
    approving.collect_all(db, Configured(), 411.0)  # type: ignore[arg-type]
    assert len(approvals.pending(db)) == 2
    approving.collect_all(db, Configured(), 413.0)  # type: ignore[arg-type]
    assert [one.status for one in approvals.of_task(db, parked.asked.task_id)] == ["pending", "expired"]


def test_only_named_accounts_may_answer() -> None:
    config: Any = Configured(approvers={"alice": ("*",), "bob": ("deploy",)})
    approving.refuse_others(config, "alice", "deploy")
    approving.refuse_others(config, "bob", "deploy")
    for account, rule in (("bob", "flags"), ("carol", "deploy")):
        with pytest.raises(Refused, match=account):
            approving.refuse_others(config, account, rule)
    approving.refuse_others(Configured(), "carol", "deploy")  # type: ignore[arg-type]


def test_a_worker_may_not_answer() -> None:
    approving.refuse_inside_a_worker({})
    with pytest.raises(Refused):
        approving.refuse_inside_a_worker({"DISPATCHER_ATTEMPT": "1-x"})
