"""What supervision costs: no-op tasks beside other queues, and memory and CPU while eight workers talk. Prints tables.

    python -m tests.benchmarks.supervision [--tasks 1000] [--rounds 3] [--seconds 20]

A no-op task is a program that prints one answer as opencode does and ends; every attempt of it is supervised, logged
and durable. Beside it the same number of `true` by GNU parallel (with its job log), nq and task-spooler, where they are
installed. Memory is PSS (shared pages count once), CPU that of the run loop and of the supervisors without the workers.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.benchmarks import sides
from tests.e2e.world import World, fork_servers, supervisors

WORKERS = 8
PER_SECOND = 50
GOAL_TASKS = 6.0  # times GNU parallel
GOAL_LOOP, GOAL_SUPERVISOR = 34.0, 8.0  # MiB
GOAL_CPU = 1.0  # percent of one core
MIB = 1024.0

_STEP = '{"type":"%s","timestamp":1,"sessionID":"ses_1","part":{"id":"p","messageID":"m","sessionID":"ses_1",%s}}'
_LINES = (
    _STEP % ("step_start", '"type":"step-start"'),
    _STEP % ("text", '"type":"text","text":"Nothing to do."'),
    _STEP % ("step_finish", '"type":"step-finish","reason":"stop","tokens":{"input":1,"output":1},"cost":0'),
)
NO_OP = "\n".join(
    ["#!/bin/sh", '[ "$1" = --version ] && { echo 1.18.33; exit; }', "cat <<'END'", *_LINES, "END"],
)
TALKER = f"""\
#!{sys.executable} -IS
import sys, time
if sys.argv[1:] == ["--version"]:
    sys.exit(print("1.18.33"))
start, text, _ = {_LINES!r}
print(start, flush=True)
for _ in range({PER_SECOND} * 600):
    print(text, flush=True)
    time.sleep(1 / {PER_SECOND})
"""


def world(root: Path, program: str, tasks: int, jobs: int) -> World:
    """A home whose worker is this program, with that many tasks in its queue."""
    root.mkdir(parents=True)
    worker = root / "worker"
    worker.write_text(program + "\n")
    worker.chmod(0o755)
    limits = {"jobs": jobs, "min_free_disk": "64MiB", "min_free_memory": "64MiB"}
    made = World(root, "scripted", program=worker, limits=limits).build()
    for number in range(tasks):
        text = f"---\nexpect: report\n---\nTask {number}.\n"
        (made.home / "briefs" / f"{number:05}.md").write_text(text)
    made.run("add", str(made.home / "briefs"), check=True)
    return made


# --- no-op tasks --------------------------------------------------------------------------------------------------


def dispatcher(root: Path, tasks: int) -> sides.Cost:
    made = world(root, NO_OP, tasks, 2)
    cost = sides.timed(lambda: made.run("run", "-j", "2", "--quiet", check=True))
    done = made.rows("select count(*) as n from task where status = 'needs_review'")[0]["n"]
    assert done == tasks, f"{done} of {tasks}"
    return cost


def parallel(root: Path, tasks: int) -> sides.Cost:
    root.mkdir()
    numbers = "\n".join(map(str, range(tasks)))
    words = ["parallel", "--joblog", str(root / "log"), "-j2", "true {}"]
    return sides.timed(lambda: subprocess.run(words, input=numbers, text=True, check=True, capture_output=True))


def nq(root: Path, tasks: int) -> sides.Cost:
    root.mkdir()
    script = f"for i in $(seq {tasks}); do nq true >/dev/null; done; nq -w"
    return sides.process(["sh", "-c", script], env={**os.environ, "NQDIR": str(root)}, cwd=root)


def task_spooler(root: Path, tasks: int) -> sides.Cost:
    root.mkdir()
    script = f"tsp -S 2; for i in $(seq {tasks}); do tsp -n true >/dev/null; done; tsp -w; tsp -C; tsp -K"
    environ = {**os.environ, "TS_SOCKET": str(root / "socket"), "TS_MAXFINISHED": "10"}
    return sides.process(["sh", "-c", script], env=environ, cwd=root, stderr=subprocess.DEVNULL)


def no_ops(root: Path, tasks: int, rounds: int) -> None:
    rivals: dict[str, tuple[str, Callable[[Path, int], sides.Cost]]] = {
        "dispatcher": ("sh", dispatcher),
        "GNU parallel --joblog": ("parallel", parallel),
        "nq": ("nq", nq),
        "task-spooler": ("tsp", task_spooler),
    }
    here = {name: work for name, (program, work) in rivals.items() if shutil.which(program)}
    turn = iter(range(1_000_000))

    def side(work: Callable[[Path, int], sides.Cost]) -> sides.Side:
        return lambda: work(root / str(next(turn)), tasks)

    found = sides.alternate({name: side(work) for name, work in here.items()}, rounds)
    base = found["GNU parallel --joblog"].wall if "GNU parallel --joblog" in found else found["dispatcher"].wall
    rows = [
        (
            name,
            f"{cost.wall:.1f} s",
            sides.ms(cost.wall / tasks),
            sides.ms(cost.cpu / tasks),
            f"{cost.wall / base:.2f}x",
            sides.against(cost.wall / base, GOAL_TASKS) if name == "dispatcher" else "",
        )
        for name, cost in found.items()
    ]
    sides.table((f"{tasks} no-op tasks, 2 at a time", "time", "each", "CPU each", "beside parallel", "goal"), rows)


# --- eight workers that talk --------------------------------------------------------------------------------------


def pss(pid: int) -> float:
    """MiB, each shared page divided by those who share it."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) / MIB
    raise LookupError(pid)


def cpu(pid: int) -> float:
    """Seconds used so far, without those of its children."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def talking(root: Path, seconds: float) -> None:
    made = world(root / "talk", TALKER, WORKERS, WORKERS)
    run = made.start("run", "-j", str(WORKERS), "--quiet")
    try:
        while len(watched := supervisors(made.home / "logs")) < WORKERS:
            assert run.poll() is None, (made.root / "run.out").read_text()
            time.sleep(0.1)
        time.sleep(5.0)  # the translators are loaded
        servers = fork_servers(made.home / "logs")
        before = {pid: cpu(pid) for pid in (run.pid, *watched, *servers)}
        began = time.monotonic()
        time.sleep(seconds)
        spent = {pid: (cpu(pid) - used) / (time.monotonic() - began) * 100 for pid, used in before.items()}
        loop, server, each = pss(run.pid), sum(map(pss, servers)), sum(map(pss, watched)) / WORKERS
        written = sum(path.stat().st_size for path in made.home.glob("logs/*/*/stdout"))
    finally:
        run.terminate()
        run.wait()
    total = sum(spent.values())
    rows = [
        ("memory of the run loop (PSS)", f"{loop:.1f} MiB", f"{GOAL_LOOP:g} MiB", met(loop, GOAL_LOOP)),
        ("memory of the process that forks them (PSS)", f"{server:.1f} MiB", "", ""),
        ("memory of each supervisor (PSS)", f"{each:.1f} MiB", f"{GOAL_SUPERVISOR:g} MiB", met(each, GOAL_SUPERVISOR)),
        ("CPU of the run loop", f"{spent[run.pid]:.2f} %", "", ""),
        (f"CPU of {WORKERS} supervisors", f"{total - spent[run.pid]:.2f} %", "", ""),
        ("CPU of all of it", f"{total:.2f} %", f"{GOAL_CPU:g} % of a core", met(total, GOAL_CPU)),
    ]
    assert written > WORKERS * PER_SECOND * seconds * 20, f"the workers said only {written} bytes"
    sides.table((f"{WORKERS} workers, {PER_SECOND} events a second each, {seconds:.0f} s", "", "goal", "ratio"), rows)


def met(value: float, goal: float) -> str:
    return f"{value / goal:.2f} {'met' if value <= goal else '**missed**'}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--tasks", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=20.0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="supervision-") as folder:
        talking(Path(folder), given.seconds)
        sides.text("")
        no_ops(Path(folder), given.tasks, given.rounds)


if __name__ == "__main__":
    main()
