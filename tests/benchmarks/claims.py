"""Claims per second with 10,000 queued tasks, alone and by two processes at once. Prints a table.

    python -m tests.benchmarks.claims [--queued 10000] [--claims 1000]

Beside it stands the least that a durable claim can be: one `UPDATE ... RETURNING` on a table of three columns, with the
same journal and sync settings.
"""

from __future__ import annotations

import argparse
import sqlite3
import tempfile
import time
from pathlib import Path

from dispatcher import store
from dispatcher.store import queue
from dispatcher.store.database import Store
from dispatcher.task import Difficulty, Expect, Source, Status
from tests.benchmarks import sides
from tests.store.processes import together

RIVAL = """
import sys
from dispatcher import store
from dispatcher.store import queue
from dispatcher.task import Status
path, owner, wanted = sys.argv[1], sys.argv[2], int(sys.argv[3])
with store.open(path) as db:
    for _ in range(wanted):
        task = queue.claim(db, owner=owner, now=2.0, jobs=10**9)
        print(task.id)
"""
_FLOOR = """
UPDATE task SET status = 'running', owner = ? WHERE id = (SELECT id FROM task WHERE status = 'queued' LIMIT 1)
RETURNING id
"""


def fill(db: Store, queued: int) -> None:
    with db.write(durable=False):
        for number in range(queued):
            new = queue.NewTask(
                title=f"Task {number}",
                brief_text=f"# Task {number}\n\nDo it.\n",
                brief_path=None,
                repository=None,
                difficulty=Difficulty.EASY,
                difficulty_reason="said so",
                expect=Expect.REPORT,
                priority=0,
                source=Source.BATCH,
            )
            queue.add(db, new, 1.0)


def ours(db: Store, claims: int) -> list[float]:
    """Seconds of each claim; the task is put out of the way in between, as it would be at its end."""
    took = []
    for _ in range(claims):
        begun = time.perf_counter()
        task = queue.claim(db, owner="bench", now=2.0, jobs=1)
        took.append(time.perf_counter() - begun)
        assert task is not None
        queue.update(db, task.id, 3.0, owner="bench", event="done", status=Status.NEEDS_REVIEW)
    return took


def floor(path: Path, queued: int, claims: int) -> list[float]:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("CREATE TABLE task (id INTEGER PRIMARY KEY, status TEXT, owner TEXT)")
    connection.execute("CREATE INDEX by_status ON task (status)")
    with connection:
        connection.execute("BEGIN")
        connection.executemany("INSERT INTO task (status) VALUES (?)", [("queued",)] * queued)
        connection.execute("COMMIT")
    took = []
    for _ in range(claims):
        begun = time.perf_counter()
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(_FLOOR, ("bench",)).fetchone()
        connection.execute("COMMIT")
        took.append(time.perf_counter() - begun)
    connection.close()
    return took


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--queued", type=int, default=10_000)
    parser.add_argument("--claims", type=int, default=1_000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        path = folder / "logs" / "dispatcher.db"
        sides.say("filling the queue")
        with store.open(path) as db:
            begun = time.perf_counter()
            fill(db, given.queued)
            adding = (time.perf_counter() - begun) / given.queued
            half = given.claims // 2
            least, claimed = floor(folder / "floor.db", given.queued, half), ours(db, half)
            least += floor(folder / "floor2.db", given.queued, half)
            claimed += ours(db, half)
        sides.say("two processes")
        begun = time.perf_counter()
        printed = together(RIVAL, [[str(path), name, str(half)] for name in ("one", "two")])
        together_took = time.perf_counter() - begun
    numbers = [int(line) for output in printed for line in output.split()]
    mine, theirs = sorted(claimed)[len(claimed) // 2], sorted(least)[len(least) // 2]
    sides.table(
        ["what", "median", "per second", "beside the least"],
        [
            ["least durable claim", sides.ms(theirs), f"{1 / theirs:,.0f}", "1.0x"],
            [f"claim, {given.queued:,} queued", sides.ms(mine), f"{1 / mine:,.0f}", f"{mine / theirs:.1f}x"],
            ["adding one, in a batch", sides.ms(adding), f"{1 / adding:,.0f}", ""],
        ],
    )
    sides.text(
        f"\nTwo processes, {len(numbers):,} claims in {together_took:.1f} s with their start: "
        f"{len(numbers) - len(set(numbers))} claimed twice (goal 0), no locked error."
    )


if __name__ == "__main__":
    main()
