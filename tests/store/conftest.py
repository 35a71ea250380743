"""A fresh store for each test, and rows made of defaults so that a test names only what it is about."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dispatcher import store
from dispatcher.store import Store, history, queue
from dispatcher.store.text import match
from dispatcher.task import Attempt, Billing, Difficulty, PromptKind, Task


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "logs" / "dispatcher.db"


@pytest.fixture
def db(path: Path) -> Iterator[Store]:
    with store.open(path) as opened:
        yield opened


def new(title: str = "Fix the login", **more: Any) -> queue.NewTask:
    fields = {"brief_text": f"# {title}\n", "difficulty": Difficulty.MEDIUM, "difficulty_reason": "no rule matched"}
    return queue.NewTask(title=title, **{**fields, **more})


def add(db: Store, title: str = "Fix the login", now: float = 100.0, **more: Any) -> Task:
    return queue.add(db, new(title, **more), now).task


def claim(db: Store, now: float = 200.0, **more: Any) -> Task | None:
    return queue.claim(db, **{"owner": "runner", "now": now, "jobs": 100, **more})


def begin(db: Store, task_id: int, now: float = 300.0, **more: Any) -> Attempt:
    fields: dict[str, Any] = {
        "prompt": PromptKind.FIRST,
        "candidate": "pickle",
        "harness": "opencode",
        "model": "opencode/big-pickle",
        "credential": "zen",
        "billing": Billing.FREE,
        "folder": "/logs/{number}",
        "marker": f"{task_id}-{now}",
    }
    return history.begin_attempt(db, task_id=task_id, started_at=now, **{**fields, **more})


def end(db: Store, attempt: Attempt, now: float = 400.0, *, task: Any = None, **fields: Any) -> bool:
    return history.end_attempt(db, attempt.id, now, attempt_fields=fields, task_fields=task or {}, event="ended")


def tasks_with(db: Store, words: str) -> list[int]:
    """Ids of the tasks in which, or in whose attempts, all words stand by the text indexes; newest first."""
    queries = (
        "SELECT rowid AS task FROM task_search WHERE task_search MATCH ?",
        "SELECT a.task_id AS task FROM attempt_search s JOIN attempt a ON a.id = s.rowid WHERE attempt_search MATCH ?",
    )
    return sorted({row["task"] for sql in queries for row in db.read(sql, (match(words),))}, reverse=True)
