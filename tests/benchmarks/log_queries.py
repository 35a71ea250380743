"""How long the documented questions take on a large log: `python -m tests.benchmarks.log_queries FOLDER [RUNS]`.

FOLDER is a home that `make_log` has filled. Prints a Markdown table: the median of CPU time in the store, and, for
whole commands, CPU time of the process beside that of `python -c pass`, measured in turns.
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from dispatcher import store
from dispatcher.store import figures, lookup
from dispatcher.store.database import Store
from tests.benchmarks.make_log import END

PROJECT = {"repository": "/home/me/src/project3"}
WEEK = END - 7 * 86400.0
PROGRAM = Path(sys.executable).parent / "dispatcher"

REPORTS = (["report"], ["report", "--by", "repository"], ["report", "--unit", "day"], ["report", "--markdown"])


def questions(db: Store) -> dict[str, Callable[[], object]]:
    def ask(**words: object) -> Callable[[], object]:
        filters = {name: [value] for name, value in words.items() if name in lookup.FILTERS}
        rest = {name: value for name, value in words.items() if name not in lookup.FILTERS}
        return lambda: lookup.find(db, lookup.Query(filters, **rest))  # type: ignore[arg-type]

    return {
        "the last 20": ask(),
        "failures of a week, the last 20": ask(outcome="failed", since=WEEK),
        "failures of a week, all": ask(outcome="failed", since=WEEK, limit=0),
        "text: a rare word": ask(text="narwhal99700"),
        "text: two words that stand everywhere": ask(text="login test"),
        "status needs_review": ask(status="needs_review"),
        "candidate and outcome": ask(candidate="opus", outcome="auth"),
        "candidate, status and difficulty": ask(candidate="opus", status="accepted", difficulty="hard"),
        "repository": ask(repository="/home/me/src/project3"),
        "an outcome that never happened": ask(outcome="runaway"),
        "one task": ask(task=1000),
        "--where, some fit": ask(where="seconds > 600"),
        "--where, none fits (reads the whole log)": ask(where="seconds < 0"),
        "--sort of the whole log": ask(sort="~seconds"),
        "report, all time: sums": lambda: figures.attempts(db),
        "report, all time: by month": lambda: figures.over_time(db, "month", (None, None)),
        "report, all time: tasks": lambda: figures.tasks(db),
        "report, all time: by day": lambda: figures.over_time(db, "day", (None, None)),
        **{
            f"report, all time: by {name}": lambda name=name: figures.grouped(db, name, (None, None))  # type: ignore[misc]
            for name in ("repository", "batch", "source")
        },
        "report, all time: of one repository": lambda: (
            figures.attempts(db, filters=PROJECT),
            figures.over_time(db, "month", (None, None), PROJECT),
            figures.tasks(db, filters=PROJECT),
        ),
        "report, all time: by repository, of one candidate": lambda: figures.grouped(
            db, "repository", (None, None), {"candidate": "opus"}
        ),
        "report, all time: by day, of one candidate (reads rows)": lambda: figures.over_time(
            db, "day", (None, None), {"candidate": "opus"}
        ),
        "report, a week": lambda: figures.attempts(db, (WEEK, None)),
        "report, a month by day": lambda: figures.over_time(db, "day", (END - 30 * 86400, None)),
        "page: the newest 5,000 tasks": lambda: figures.newest_tasks(db, 5000),
    }


def median_cpu(question: Callable[[], object], runs: int) -> float:
    question()
    found = []
    for _ in range(runs):
        begun = time.process_time()
        question()
        found.append(time.process_time() - begun)
    return statistics.median(found)


def process_cpu(words: list[str]) -> float:
    begun = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return ended.ru_utime + ended.ru_stime - begun.ru_utime - begun.ru_stime


def main() -> None:
    home, runs = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 9
    out = sys.stdout.write
    with store.open(Path(home) / "logs" / "dispatcher.db") as db:
        number = db.read("SELECT count(*) AS number FROM attempt")[0]["number"]
        out(f"{number:,} attempts\n\n| question | CPU, ms |\n|---|---:|\n")
        for name, question in questions(db).items():
            out(f"| {name} | {median_cpu(question, runs) * 1000:.2f} |\n")
    out("\n| command | CPU, ms | x bare |\n|---|---:|---:|\n")
    for words in (["log"], ["log", "--json"], ["log", "--outcome", "failed"], ["log", "--text", "login"], *REPORTS):
        pairs = [
            (process_cpu([str(PROGRAM), *words, "--home", home]), process_cpu([sys.executable, "-c", "pass"]))
            for _ in range(runs)
        ]
        mine, bare = (statistics.median(pair[place] for pair in pairs) for place in (0, 1))
        out(f"| `{' '.join(words)}` | {mine * 1000:.0f} | {mine / bare:.1f} |\n")


if __name__ == "__main__":
    main()
