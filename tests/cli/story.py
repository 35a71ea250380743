"""Puts a history into a home without running anything: tasks and attempts as the runner would have written them."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from dispatcher import store
from dispatcher.config import database
from dispatcher.store import history, queue
from dispatcher.store.database import Store
from dispatcher.task import Billing, CheckResult, Difficulty, Expect, OutcomeClass, PromptKind, Status, Task, Usage

LATER = 4_000_000_000.0


class Story:
    """The store of a home, and what was done to it."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.store: Store = store.open(database(home))

    def task(self, title: str = "Fix it", **fields: Any) -> Task:
        known = {
            "brief_text": f"# {title}\n\nDo it.\n",
            "difficulty": Difficulty.EASY,
            "difficulty_reason": "the brief says so",
            "expect": Expect.REPORT,
        }
        return queue.add(self.store, queue.NewTask(title=title, **{**known, **fields}), time.time(), again=True).task

    def claim(self, task: Task, owner: str = "somebody-1-abcd") -> Task:
        found = queue.claim(self.store, owner=owner, now=time.time(), jobs=99, task_id=task.id)
        assert found is not None
        return found

    def begin(self, task: Task, **fields: Any) -> Path:
        """Claim and open an attempt; its folder, with empty output files."""
        self.claim(task)
        folder = self.home / "logs" / str(task.id) / "1"
        folder.mkdir(parents=True)
        for name in ("stdout", "stderr"):
            (folder / name).touch()
        known = {
            "prompt": PromptKind.FIRST,
            "candidate": "small",
            "harness": "scripted",
            "model": "demo/free-small",
            "credential": "zen",
            "billing": Billing.FREE,
            "folder": str(folder),
            "marker": f"{task.id}-1-test",
            "started_at": time.time() - 90,
        }
        history.begin_attempt(self.store, task_id=task.id, **{**known, **fields})
        return folder

    def end(self, task: Task, status: Status, reason: str, **fields: Any) -> Task:
        """Settle the open attempt of a task."""
        [attempt] = history.open_attempts(self.store, task.id)
        known = {
            "outcome": OutcomeClass.COMPLETED,
            "outcome_reason": "a positive result event",
            "verdict": "review",
            "verdict_reason": reason,
            "exit_code": 0,
            "end_reason": "exited",
            "seconds": 65.0,
            "usage": Usage(input=1200, output=34, cost_usd=0.25),
        }
        history.save_checks(self.store, attempt.id, [CheckResult("make test", False, True, 0, 1.0)])
        assert history.end_attempt(
            self.store,
            attempt.id,
            time.time(),
            attempt_fields={**known, **fields},
            task_fields={"status": status, "status_reason": reason},
            event=f"attempt {attempt.number}: done",
        )
        return queue.get(self.store, task.id)

    def rest(self, task: Task, status: Status, reason: str, **fields: Any) -> Task:
        """Give a claimed task a status without an attempt."""
        return queue.update(self.store, task.id, time.time(), status=status, status_reason=reason, **fields)
