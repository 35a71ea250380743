"""Makes a log of any size that looks like three years of real use.

    python -m tests.benchmarks.make_log FOLDER 1000000

The rows go in by plain SQL in one transaction; the sums by month are made at the end, as an import does it. The same
seed makes the same log.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dispatcher import store
from dispatcher.store import transfer
from dispatcher.store.database import Store

CANDIDATES = (
    ("pickle", "opencode", "opencode/big-pickle", "zen", "free"),
    ("nemotron", "opencode", "opencode/nemotron-3-ultra-free", "zen", "free"),
    ("qwen", "opencode", "openrouter/qwen/qwen3-coder:free", "router", "free"),
    ("deep", "opencode", "deepseek/deepseek-v4", "deepseek", "metered"),
    ("sonnet", "claude", "claude-sonnet-5-5", "max-plan", "subscription"),
    ("opus", "claude", "claude-opus-5-5", "max-plan", "subscription"),
    ("haiku", "claude", "claude-haiku-5", "max-plan", "subscription"),
    ("api", "claude", "claude-sonnet-5-5", "api", "metered"),
)
OUTCOMES = (
    ("completed", 620),
    ("rate_limited", 120),
    ("quota_exhausted", 60),
    ("unknown", 50),
    ("stalled", 40),
    ("timed_out", 30),
    ("network", 30),
    ("overloaded", 20),
    ("killed", 10),
    ("lost", 10),
    ("context_overflow", 8),
    ("auth", 2),
)
DIFFICULTIES = ("trivial", "easy", "medium", "medium", "hard")
_SAID = (
    "fix the login page add a test rename move users index crash button parser cache token retry upload flaky order "
    "invoice search filter export import colour header footer session cookie queue worker timeout schema migration"
)
WORDS = _SAID.split()
SPAN = 3 * 365 * 86400.0
END = 1_795_000_000.0
_EVIDENCE = {
    "head": "a" * 40,
    "commits": [{"sha": "b" * 40, "subject": "do it"}],
    "dirty": [],
    "files": ["src/a.py", "tests/test_a.py"],
    "elsewhere": [],
    "insertions": 12,
    "deletions": 3,
}
DONE = json.dumps(_EVIDENCE)
NOTHING = json.dumps({**_EVIDENCE, "commits": [], "files": []})


def fill(db: Store, attempts: int, seed: int = 1) -> None:
    """Put about so many attempts (at two a task) into an empty log."""
    dice = random.Random(seed)
    names, weights = zip(*OUTCOMES, strict=True)
    tasks = max(1, attempts // 2)
    db.connection.execute("PRAGMA cache_size = -1000000")
    with db.write(durable=False), transfer.bulk(db):
        task_rows, attempt_rows = list[dict[str, Any]](), list[dict[str, Any]]()
        for number in range(1, tasks + 1):
            at = END - SPAN + SPAN * number / tasks
            tries = 1 + (dice.random() < 0.55) + (dice.random() < 0.3) + (dice.random() < 0.15)
            ended = [dice.choices(names, weights)[0] for _ in range(tries)]
            task_rows.append(_task(dice, number, at, ended[-1]))
            attempt_rows += _attempts(dice, number, at, ended)
            if len(task_rows) >= 5000 or number == tasks:
                _insert(db, "task", task_rows)
                _insert(db, "attempt", attempt_rows)
                task_rows, attempt_rows = [], []
    db.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _task(dice: random.Random, number: int, at: float, last: str) -> dict[str, Any]:
    words = " ".join(dice.choices(WORDS, k=5))
    status = dice.choice(("accepted", "accepted", "accepted", "rejected")) if last == "completed" else "needs_human"
    if number % 997 == 0:
        words += f" narwhal{number}"
    return {
        "id": number,
        "title": words.capitalize(),
        "brief_text": f"# {words}\n\n{' '.join(dice.choices(WORDS, k=30))}\n",
        "brief_path": f"/home/me/briefs/{number}.md",
        "brief_digest": f"{number:064x}",
        "repository": f"/home/me/src/project{dice.randrange(20)}",
        "difficulty": dice.choice(DIFFICULTIES),
        "difficulty_reason": "the brief says so",
        "expect": "commit",
        "priority": 0,
        "status": "needs_review" if status == "accepted" and number % 2000 == 0 else status,
        "status_reason": "complete: 1 commit",
        "created_at": at,
        "updated_at": at + 900,
        "source": dice.choice(("terminal", "cron", "batch")),
        "flags": "[]",
        "next_step": "{}",
        "counters": "{}",
        "notes": "",
        "final_text": "Done.",
    }


def _attempts(dice: random.Random, task: int, at: float, ended: list[str]) -> Iterator[dict[str, Any]]:
    for place, outcome in enumerate(ended):
        name, harness, model, credential, billing = dice.choice(CANDIDATES)
        start, seconds = at + 600 * place, dice.expovariate(1 / 240)
        last = place == len(ended) - 1
        verdict = ("review" if outcome == "completed" else "needs_human") if last else "redispatch"
        yield {
            "task_id": task,
            "number": place + 1,
            "prompt": "first" if place == 0 or dice.random() < 0.6 else dice.choice(("finish", "continue", "confirm")),
            "candidate": name,
            "harness": harness,
            "model": model,
            "credential": credential,
            "billing": billing,
            "folder": f"/home/me/logs/{task}/{place + 1}",
            "marker": f"{task}-{place}",
            "started_at": start,
            "ended_at": start + seconds,
            "harness_version": "1.18.33",
            "session_id": f"ses_{task}_{place}",
            "outcome": outcome,
            "outcome_reason": "a positive result event",
            "proof": "",
            "verdict": verdict,
            "verdict_reason": "complete: 1 commit",
            "counted": 0,
            "exit_code": 0,
            "timed_out": 0,
            "end_reason": "exited",
            "survivors": 0,
            "tokens_input": dice.randrange(50_000),
            "tokens_output": dice.randrange(5_000),
            "billed_usd": 0.0 if billing != "metered" else 0.25,
            "cost_usd": None if billing == "free" else round(dice.expovariate(1 / 0.4), 4),
            "model_evidence": "confirmed",
            "observed_model": model,
            "evidence": DONE if dice.random() < 0.7 else NOTHING,
            "final_text": "Done; all tests pass." if outcome == "completed" else "",
            "notes": "[]",
            "host": "laptop",
            "source": "terminal",
            "seconds": seconds,
        }


def _insert(db: Store, table: str, rows: list[dict[str, Any]]) -> None:
    names = list(rows[0])
    marks = ", ".join(f":{name}" for name in names)
    db.connection.executemany(f"INSERT INTO {table} ({', '.join(names)}) VALUES ({marks})", rows)


def main() -> None:
    folder, count = Path(sys.argv[1]), int(sys.argv[2])
    begun = time.perf_counter()
    with store.open(folder / "logs" / "dispatcher.db") as db:
        fill(db, count)
        number = db.read("SELECT count(*) AS number FROM attempt")[0]["number"]
    size = (folder / "logs" / "dispatcher.db").stat().st_size
    took = time.perf_counter() - begun
    sys.stdout.write(f"{number:,} attempts, {size / 1e6:,.0f} MB, in {took:.0f} s\n")


if __name__ == "__main__":
    main()
