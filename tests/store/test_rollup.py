"""The sums that reports read are those of the rows, whatever order things happened in."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from dispatcher import store
from dispatcher.store import figures, history, migrate, queue, rollup
from dispatcher.store.database import Store, connect
from dispatcher.task import Billing, Difficulty, OutcomeClass, PromptKind, Status, Usage
from tests.benchmarks import make_log
from tests.store.conftest import add

NOW = 1_780_000_000.0

KEYS = "month, candidate, harness, model, credential, billing, difficulty, outcome"
SUMS = (
    "attempts, tasks, counted, delivered, saved, false_done, nearly_lost, accepted, rejected, seconds, cost_usd, "
    "priced, billed_usd, billed, tokens_input, tokens_output, tokens_cache_read, tokens_cache_write, tokens_reasoning"
)
SUMMED = ", ".join(f"sum({name}) AS {name}" for name in SUMS.split(", "))
WORK = json.dumps({"commits": [{"sha": "a"}], "dirty": [], "elsewhere": []})


def rolled(db: Store) -> list[dict[str, object]]:
    return as_dicts(db, f"SELECT {KEYS}, {SUMS} FROM rollup WHERE attempts <> 0 ORDER BY {KEYS}")


def counted(db: Store) -> list[dict[str, object]]:
    return as_dicts(db, f"SELECT {KEYS}, {SUMMED} FROM v_measures GROUP BY {KEYS} ORDER BY {KEYS}")


PARTS = {  # part -> its name and month, as the rows say them; and whether it keeps all keys
    "all": ("''", "''", True),
    "in": ("coalesce(repository, '')", "month", True),
    "month": ("''", "month", False),
    "day": ("strftime('%Y-%m-%d', started_at, 'unixepoch')", "month", False),
    "repository": ("coalesce(repository, '')", "month", False),
    "batch": ("coalesce(batch, '')", "month", False),
    "source": ("source", "month", False),
}


def check_parts(db: Store) -> None:
    names = ("candidate", "harness", "model", "credential", "billing", "difficulty")
    for part, (name, month, whole) in PARTS.items():
        keys = ", ".join(key if whole else f"'' AS {key}" for key in names)
        expected = as_dicts(
            db,
            f"SELECT {name} AS name, {month} AS month, {keys}, outcome, {SUMMED} FROM v_measures "
            "GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, outcome ORDER BY 1, 2, 3, 4, 5, 6, 7, 8, outcome",
        )
        kept = as_dicts(
            db,
            f"SELECT name, month, {', '.join(names)}, outcome, {SUMS} FROM rollup_part WHERE part = '{part}' "
            "AND attempts <> 0 ORDER BY 1, 2, 3, 4, 5, 6, 7, 8, outcome",
        )
        assert kept == expected, part


def as_dicts(db: Store, sql: str) -> list[dict[str, object]]:
    return [
        {name: round(value, 6) if isinstance(value, float) else value for name, value in dict(row).items()}
        for row in db.read(sql)
    ]


def attempt(db: Store, task_id: int, at: float, candidate: str, prompt: PromptKind, **fields: object) -> None:
    begun = history.begin_attempt(
        db,
        task_id=task_id,
        prompt=prompt,
        candidate=candidate,
        harness="opencode",
        model=f"m/{candidate}",
        credential="zen",
        billing=Billing.FREE,
        folder="/x",
        marker=f"{task_id}-{at}",
        started_at=at,
    )
    assert history.end_attempt(db, begun.id, at + 1, attempt_fields=fields, task_fields={}, event="ended")


@pytest.mark.parametrize("seed", range(4))
def test_the_rollup_is_the_sum_of_the_rows(db: Store, seed: int) -> None:
    dice = random.Random(seed)
    for number in range(12):
        task = add(db, f"t{number}", NOW, difficulty=dice.choice(list(Difficulty)))
        for _ in range(dice.randrange(5)):
            attempt(
                db,
                task.id,
                NOW + dice.randrange(100) * 86400,
                dice.choice("abc"),
                dice.choice(list(PromptKind)),
                outcome=dice.choice(list(OutcomeClass)),
                verdict=dice.choice(["review", "finish", "redispatch", "needs_human"]),
                counted=dice.random() < 0.5,
                seconds=dice.choice([None, 12.5]),
                evidence=dice.choice([None, WORK, "no json"]),
                usage=Usage(input=dice.choice([None, 7]), cost_usd=dice.choice([None, 0.1])),
                billed_usd=dice.choice([None, 0.0, 0.2]),
            )
        for status in dice.choice(
            [(), ("running", "needs_review", "accepted"), ("running", "needs_review", "rejected", "queued")]
        ):
            queue.update(db, task.id, NOW, status=Status(status))
        if dice.random() < 0.3:
            queue.update(db, task.id, NOW, difficulty=Difficulty.HARD)
        if dice.random() < 0.5:
            db.connection.execute("INSERT OR IGNORE INTO batch (name, created_at) VALUES ('night', 0)")
            db.connection.execute("UPDATE task SET batch = 'night' WHERE id = ?", (task.id,))
    db.connection.execute("PRAGMA foreign_keys = OFF")
    db.connection.execute("DELETE FROM attempt WHERE id % 5 = 3")
    db.connection.execute("UPDATE attempt SET number = 100 - number, verdict = 'review' WHERE id % 4 = 1")
    assert rolled(db) == counted(db)
    check_parts(db)
    tasks = as_dicts(db, "SELECT difficulty, status, number FROM task_rollup WHERE number > 0 ORDER BY 1, 2")
    assert tasks == as_dicts(db, "SELECT difficulty, status, count(*) AS number FROM task GROUP BY 1, 2 ORDER BY 1, 2")
    for statement in rollup.REFILL:
        db.connection.execute(statement)
    assert rolled(db) == counted(db)
    check_parts(db)


def test_what_the_measures_mean(db: Store) -> None:
    """A false "done", a run that failed with a commit in hand, and the finish prompt that saved it."""
    task = add(db)
    attempt(db, task.id, NOW, "a", PromptKind.FIRST, outcome=OutcomeClass.COMPLETED, verdict="redispatch")
    attempt(db, task.id, NOW, "b", PromptKind.FIRST, outcome=OutcomeClass.KILLED, verdict="finish", evidence=WORK)
    attempt(db, task.id, NOW, "b", PromptKind.FINISH, outcome=OutcomeClass.COMPLETED, verdict="review", seconds=30.0)
    for status in ("running", "needs_review", "accepted"):
        queue.update(db, task.id, NOW, status=Status(status))
    [found] = db.read(
        "SELECT sum(attempts) AS attempts, sum(tasks) AS tasks, sum(delivered) AS delivered, sum(saved) AS saved, "
        "sum(false_done) AS false_done, sum(nearly_lost) AS nearly_lost, sum(accepted) AS accepted FROM rollup"
    )
    assert dict(found) == {
        "attempts": 3,
        "tasks": 2,
        "delivered": 1,
        "saved": 1,
        "false_done": 1,
        "nearly_lost": 1,
        "accepted": 1,
    }
    assert db.read("SELECT candidate, outcome FROM rollup WHERE accepted = 1")[0]["candidate"] == "b"


def test_an_older_log_gets_the_sums_of_its_parts(tmp_path: Path) -> None:
    path, dice = tmp_path / "logs" / "dispatcher.db", random.Random(5)
    path.parent.mkdir()
    migrate.upgrade(str(path), 6)
    connection = connect(str(path))
    for number in range(1, 60):
        at = NOW + 86400.0 * number
        rows = [
            ("task", make_log._task(dice, number, at, "completed")),
            *(("attempt", row) for row in make_log._attempts(dice, number, at, ["killed", "completed"])),
        ]
        for table, row in rows:
            marks = ", ".join(f":{name}" for name in row)
            connection.execute(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({marks})", row)
    connection.close()
    with store.open(path) as db:
        assert db.read("SELECT sum(attempts) AS n FROM rollup_part WHERE part = 'all'")[0]["n"] == 118
        check_parts(db)


def accepted_work(db: Store) -> tuple[object, ...]:
    """Accepted tasks by the counts of tasks, by month, by the sums of attempts and of their parts; attempts; cost."""
    queries = (
        "SELECT coalesce(sum(number), 0) FROM task_count WHERE status = 'accepted'",
        "SELECT coalesce(sum(number), 0) FROM task_rollup WHERE status = 'accepted'",
        "SELECT sum(accepted) FROM rollup",
        "SELECT sum(accepted) FROM rollup_part WHERE part = 'all'",
        "SELECT sum(attempts) FROM rollup",
        "SELECT sum(cost_usd) FROM rollup",
    )
    return tuple(db.read(sql)[0][0] for sql in queries)


def test_a_review_by_a_second_model_is_nobodys_accepted_work(db: Store) -> None:
    """Neither in the counts of tasks nor in the sums of its candidate; what it cost is."""
    for title, flags in (("the work", ()), ("its review", ("review of 1",))):
        task = add(db, title, NOW, flags=flags)
        done = {"outcome": OutcomeClass.COMPLETED, "verdict": "review", "usage": Usage(cost_usd=0.5)}
        attempt(db, task.id, NOW, "a", PromptKind.FIRST, **done)
        for status in ("running", "needs_review", "accepted"):
            queue.update(db, task.id, NOW, status=Status(status))
    assert accepted_work(db) == (1, 1, 1, 1, 2, 1.0)
    assert figures.tasks(db, (NOW - 1, NOW + 1)) == [{"difficulty": "medium", "status": "accepted", "number": 1}]
    for statement in rollup.REFILL:
        db.connection.execute(statement)
    assert accepted_work(db) == (1, 1, 1, 1, 2, 1.0)
    queue.update(db, 2, NOW, status=Status.QUEUED)
    assert queue.counts(db) == {Status.ACCEPTED: 1, Status.QUEUED: 1}


def test_reviews_of_an_older_log_leave_what_was_accepted(tmp_path: Path) -> None:
    path, dice = tmp_path / "logs" / "dispatcher.db", random.Random(5)
    path.parent.mkdir()
    migrate.upgrade(str(path), 7)
    connection = connect(str(path))
    for number, flags in ((1, "[]"), (2, '["review of 1"]')):
        task = {**make_log._task(dice, number, NOW, "completed"), "status": "accepted", "flags": flags}
        for table, row in (("task", task), ("attempt", next(make_log._attempts(dice, number, NOW, ["completed"])))):
            marks = ", ".join(f":{name}" for name in row)
            connection.execute(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({marks})", row)
    assert connection.execute("SELECT sum(accepted) FROM rollup").fetchone()[0] == 2
    connection.close()
    with store.open(path) as db:
        assert accepted_work(db)[:5] == (1, 1, 1, 1, 2)
        assert [row["status"] for row in db.read("SELECT status FROM task")] == ["accepted", "accepted"]
        check_parts(db)
        assert rolled(db) == counted(db)
