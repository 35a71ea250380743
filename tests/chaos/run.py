"""Chaos: many tasks, many `kill -9` at dispatchers, fork servers, supervisors and workers; what is left is counted.

    python -m tests.chaos.run --tasks 300 --kills 200 --seed 1

The worker is the built-in scripted one: it sleeps, leaves daemons behind, prints a lot, commits once or twice. Two
dispatchers are started again and again. The seed fixes the tasks and the order of the victims' kinds; when a kill
falls is up to the machine. Exit code 0: everything below held.

* at least 95 % of the tasks are `needs_review`, and no task or attempt hangs in the middle
* the commit of every completed attempt is on a ref of the target
* a task was started at most once, and once more for each kill that hit it
* no process and no lock is left, no attempt has survivors, the database is whole
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dispatcher.supervisor import spec
from tests.e2e.world import World, fork_servers, marked, parent, scripted_world, supervisors

DISPATCHERS = 2
JOBS = "4"
KINDS = ("dispatcher", "supervisor", "worker", "fork server", "worker", "supervisor", "worker", "dispatcher", "worker")
UNFINISHED = "('queued', 'running', 'waiting')"
SHARE = 0.95


# --- the tasks ----------------------------------------------------------------------------------------------------


def steps(rng: random.Random, number: int) -> list[dict[str, Any]]:
    """What the worker does when nothing disturbs it."""
    found: list[dict[str, Any]] = [{"text": "looking around"}, {"sleep": round(rng.uniform(0.0, 0.8), 2)}]
    if rng.random() < 0.3:
        found.append({"daemon": 4000})
    if rng.random() < 0.2:
        found.append({"shell": "nohup setsid sleep 4000 >/dev/null 2>&1 &"})
    if rng.random() < 0.2:
        found.append({"big_output": rng.randrange(100_000, 3_000_000)})
    if rng.random() < 0.1:
        found.append({"ignore_term": True})
    for part in range(rng.choice((1, 1, 2))):
        found.append({"write": {"path": f"{number}-{part}.txt", "content": "done\n"}})
        found.append({"sleep": round(rng.uniform(0.0, 0.4), 2)})
        found.append({"commit": f"task {number}, part {part}"})
    return [*found, {"sleep": round(rng.uniform(0.0, 0.3), 2)}, {"text": "Done."}]


def brief(world: World, rng: random.Random, number: int) -> None:
    planned = steps(rng, number)
    files = [step["write"]["path"] for step in planned if "write" in step]
    make = " ".join(f"[ -e {name} ] || echo done > {name};" for name in files)
    rest = f"{make} git add -- {' '.join(files)}; git diff --cached --quiet || git commit -qm 'task {number}, the rest'"
    rules: list[dict[str, Any]] = [
        {"prompt": f"Prompt: {kind}", "steps": [{"shell": rest}, {"text": "Nothing is left."}]}
        for kind in ("finish", "continue", "confirm")
    ]
    rules.append({"steps": planned})
    front: dict[str, Any] = {"verify": [f"test -s {files[-1]}"]} if rng.random() < 0.25 else {}
    world.brief(f"{number:04}", f"Task {number}.\n\n```script\n{json.dumps(rules)}\n```", **front)


# --- the victims --------------------------------------------------------------------------------------------------


def processes(world: World) -> dict[str, list[tuple[int, int]]]:
    """Living supervisors and workers, each with its task, by a walk through /proc."""
    watched = supervisors(world.home / "logs")
    found: dict[str, list[tuple[int, int]]] = {
        "supervisor": [(pid, int(folder.parent.name)) for pid, folder in watched.items()],
        "worker": [],
    }
    logs = str(world.home / "logs").encode()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            words = (entry / "cmdline").read_bytes()
            environ = (entry / "environ").read_bytes()
        except OSError:
            continue
        if b"demo/worker.py" in words and b"DISPATCHER_ATTEMPT=" in environ and logs in environ:
            marker = environ.partition(b"DISPATCHER_ATTEMPT=")[2]
            found["worker"].append((int(entry.name), int(marker.split(b"-")[0])))
    return found


@dataclass
class Chaos:
    world: World
    rng: random.Random
    tasks: int
    kills: int
    dispatchers: list[subprocess.Popen[bytes]] = field(default_factory=list)
    killed: collections.Counter[str] = field(default_factory=collections.Counter)
    hits: collections.Counter[int] = field(default_factory=collections.Counter)
    runs: int = 0
    codes: collections.Counter[int] = field(default_factory=collections.Counter)

    def rage(self, seconds: float) -> None:
        """Until every task rests. Each kill waits for its share of the work, so that they meet all tasks alike."""
        deadline = time.monotonic() + seconds
        while (left := self.left()) or self.alive():
            assert time.monotonic() < deadline, f"{left} tasks are still not at rest after {seconds:.0f} s"
            self.restart(left)
            time.sleep(self.rng.uniform(0.01, 0.08))
            done = sum(self.killed.values())
            if left and done < self.kills and done * self.tasks <= (self.tasks - left + 2 * int(JOBS)) * self.kills:
                self.strike(KINDS[done % len(KINDS)])

    def left(self) -> int:
        return int(self.world.rows(f"select count(*) as n from task where status in {UNFINISHED}")[0]["n"])

    def alive(self) -> bool:
        return any(process.poll() is None for process in self.dispatchers)

    def restart(self, left: int) -> None:
        for process in [one for one in self.dispatchers if one.poll() is not None]:
            self.codes[process.wait()] += 1
            self.dispatchers.remove(process)
        while left and len(self.dispatchers) < DISPATCHERS:
            self.dispatchers.append(self.world.start("run", "-j", JOBS))
            self.runs += 1

    def strike(self, kind: str) -> None:
        if kind == "dispatcher":
            living = [one for one in self.dispatchers if one.poll() is None]
            if not living:
                return
            victim = self.rng.choice(living)
            owned = self.owned(victim.pid)
            victim.kill()
            self.codes[victim.wait()] += 1
            self.dispatchers.remove(victim)
            hit = owned | self.owned(victim.pid)
        elif kind == "fork server":
            servers = fork_servers(self.world.home / "logs")
            if not servers:
                return
            pid = self.rng.choice(servers)
            hit = set[int]()
            with suppress(OSError):  # a request that it had heard may be lost with it
                hit = self.owned(parent(pid))
                os.kill(pid, signal.SIGKILL)
        else:
            found = processes(self.world)[kind]
            if not found:
                return
            pid, task = self.rng.choice(found)
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            hit = {task}
        self.killed[kind] += 1
        self.hits.update(hit)

    def owned(self, pid: int) -> set[int]:
        sql = "select id from task where owner like ? union select task_id from event where kind = 'adopted'"
        adopted = " and text like ?"
        return {row["id"] for row in self.world.rows(sql + adopted, f"%-{pid}-%", f"%-{pid}-% is gone")}

    # --- what is left ---

    def verdict(self) -> list[tuple[str, str, bool]]:
        """Each row: what, how it is, whether that is right."""
        world = self.world
        stands = collections.Counter(row["status"] for row in world.rows("select status from task"))
        attempts = world.rows("select * from attempt")
        ends = collections.Counter(row["outcome"] for row in attempts)
        starts = collections.Counter(row["task_id"] for row in attempts)
        over = {task: (n, self.hits[task]) for task, n in starts.items() if n > 1 + self.hits[task]}
        reachable = set(world.git("rev-list", "--all").split())
        completed = [row for row in attempts if row["outcome"] == "completed"]
        lost = [row["id"] for row in completed if row["result_commit"] not in reachable]
        open_rows = [row["id"] for row in attempts if row["ended_at"] is None]
        survivors = [row["id"] for row in attempts if row["survivors"]]
        whole = [row["integrity_check"] for row in world.rows("pragma integrity_check")]
        broken = world.rows("pragma foreign_key_check")
        alive, locks = marked(str(world.root)), self.locks()
        ended = f"{len(alive)}; attempts with survivors: {len(survivors)}"
        finished = stands["needs_review"] / self.tasks
        return [
            ("tasks", ", ".join(f"{n} {name}" for name, n in stands.most_common()), finished >= SHARE),
            ("attempts", ", ".join(f"{n} {name}" for name, n in ends.most_common()), not open_rows),
            ("commits of completed attempts on a ref", f"{len(completed) - len(lost)} of {len(completed)}", not lost),
            ("starts", f"{sum(starts.values())}, most {max(starts.values())}; too many: {over or 'none'}", not over),
            ("processes left", ended, not alive and not survivors),
            ("locks left", ", ".join(locks) or "0", not locks),
            ("database", f"{whole[0]}, {len(broken)} broken references", whole == ["ok"] and not broken),
        ]

    def locks(self) -> list[str]:
        logs = self.world.home / "logs"
        found = list(logs.glob("runner-*.lock"))
        found += [path for path in logs.glob("*/*/attempt.lock") if spec.alive(path.parent)]
        found += (self.world.repo / ".git").rglob("*.lock")
        found += (self.world.user_home / ".local").glob("**/.git/**/*.lock")
        return [str(path.relative_to(self.world.root)) for path in found]


def report(chaos: Chaos, rows: list[tuple[str, str, bool]], seed: int, seconds: float) -> str:
    kills = ", ".join(f"{n} {kind}s" for kind, n in sorted(chaos.killed.items()))
    head = f"{chaos.tasks} tasks, {sum(chaos.killed.values())} kill -9 ({kills}), seed {seed}"
    codes = ", ".join(f"{n} x {code}" for code, n in sorted(chaos.codes.items()))
    lines = [head, f"{seconds:.0f} s, {chaos.runs} runs started, exit codes: {codes}", ""]
    lines += [f"{'ok  ' if right else 'BAD '} {what}: {how}" for what, how, right in rows]
    others = chaos.world.rows("select id, status, status_reason from task where status <> 'needs_review'")
    lines += [f"     task {row['id']}: {row['status']}: {row['status_reason'][:200]}" for row in others]
    return "\n".join(lines) + "\n"


def play(root: Path, tasks: int, kills: int, seed: int) -> tuple[str, bool]:
    """The whole story in an empty folder; what is to be said of it, and whether all of it is right."""
    rng = random.Random(seed)
    world = scripted_world(root, limits={"grace": "2s", "hard_cap": "120s", "min_free_disk": "64MiB", "starts": 40})
    for number in range(tasks):
        brief(world, rng, number)
    world.run("add", str(world.home / "briefs"), check=True)
    chaos = Chaos(world, rng, tasks, kills)
    began = time.monotonic()
    try:
        chaos.rage(120 + 20 * tasks)
        world.run("run")  # a last one finds nothing to do, and clears up after those that were killed
    finally:
        for process in chaos.dispatchers:
            process.kill()
            process.wait()
    chaos.restart(0)
    rows = chaos.verdict()
    return report(chaos, rows, seed, time.monotonic() - began), all(right for _, _, right in rows)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--tasks", type=int, default=300)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    root = Path(tempfile.mkdtemp(prefix="chaos-"))
    said, right = play(root, given.tasks, given.kills, given.seed)
    sys.stdout.write(said if right else f"{said}everything is kept in {root}\n")
    if right:
        shutil.rmtree(root)
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
