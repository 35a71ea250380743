"""From the first 429 to the next candidate's first request, and how soon an endless loop is ended. Prints two tables.

    DISPATCHER_TEST_CLIS=FOLDER python -m tests.benchmarks.failover [--runs 7] [--cli opencode] [--case plain]

The real CLIs, unmodified, talk to the scripted model server. In each round the CLI's own start-up (process to first
request) and a fail-over are measured one after the other; the figures are medians. "naive" is what a walk over a list
costs that waits for the CLI to exit: the time from the 429 to the exit, with the CLI's own settings, and then the next
one's start-up. It is measured once, and given up at the cap. A goal is the start-up and 1.5 s.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dispatcher.demo.model_server import ModelServer, Request, claude_environment
from tests.clis import Cli, real_cli
from tests.e2e.world import MODELS, World, marked, real_world

GOAL = 1.5  # seconds over the CLI's own start-up
SWITCH_AFTER = 2.0  # seconds; so that a stated wait of 5 s is one to leave at (the default of 5 s stays)
RESET_IN = 7200
TOKEN = "sk-ant-oat01-invented"
FREE_LIMIT = {
    "type": "error",
    "error": {"type": "FreeUsageLimitError", "message": "Rate limit exceeded. Please try again later."},
    "metadata": {},
}
LOOPS: dict[str, list[dict[str, Any]]] = {
    "context overflow": [
        {"error": {"status": 400, "message": "This model's maximum context length is 100000 tokens"}, "repeat": True}
    ],
    "no finish": [
        {"write": {"path": "b.txt", "content": "x"}},
        {"text": "half", "finish": False, "repeat": True},
    ],
}


@dataclass(frozen=True)
class Case:
    """One kind of limit. `error` makes the server's answer."""

    name: str
    error: Callable[[], dict[str, Any]]


def limit(*, retry_after: int | None = None, **error: Any) -> Callable[[], dict[str, Any]]:
    headers = {} if retry_after is None else {"retry-after": str(retry_after)}
    return lambda: {"status": 429, "message": "Rate limit exceeded", "headers": headers, **error}


def used_up_window() -> dict[str, Any]:
    """claude has no free allowance; what it has is a window of the plan, told in headers."""
    headers = {
        "anthropic-ratelimit-unified-status": "rejected",
        "anthropic-ratelimit-unified-reset": str(int(time.time()) + RESET_IN),
        "anthropic-ratelimit-unified-representative-claim": "five_hour",
    }
    return limit()() | {"headers": headers}


PLAIN = Case("plain", limit())
SHORT = Case("retry-after-5", limit(retry_after=5))
LONG = Case("retry-after-3600", limit(retry_after=3600))
CASES: dict[Cli, tuple[Case, ...]] = {
    "opencode": (PLAIN, SHORT, LONG, Case("free-limit", limit(retry_after=RESET_IN, body=FREE_LIMIT))),
    "claude": (PLAIN, SHORT, LONG, Case("plan-window", used_up_window)),
}


@contextlib.contextmanager
def bench(cli: Cli, plan: bool = False) -> Iterator[World]:
    with tempfile.TemporaryDirectory(prefix="failover-") as folder, ModelServer() as server:
        world = real_world(Path(folder), cli, server)
        world.limits = {"switch_after": f"{SWITCH_AFTER:.0f}s"}
        text = world.config_text()
        if plan:  # two plans: a window that is used up holds the whole credential
            credential = f"{{billing: subscription, env: [CLAUDE_CODE_OAUTH_TOKEN], base_url: '{server.url}'}}"
            text = text.replace(text.splitlines()[1], f"  test: {credential}\n  other: {credential}")
            text = text.replace(
                "model: claude-haiku-4-5, credential: test", "model: claude-haiku-4-5, credential: other"
            )
        (world.home / "models.yaml").write_text(text)
        try:
            yield world
        finally:
            end(str(folder))


def end(needle: str) -> None:
    while pids := marked(needle):
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)


def server_of(world: World) -> ModelServer:
    assert world.server is not None
    return world.server


def first_request(world: World, number: int, after: int) -> Request:
    """The first main call of a candidate's model that came as number `after` or later."""
    model = MODELS[world.harness][number]

    def fits(request: Request) -> bool:
        return request.main and request.model == model and request.number > after

    return server_of(world).wait_for(1, fits, timeout=180)[0]


# --- the parts ----------------------------------------------------------------------------------------------------


def alone(world: World, number: int, **more: str) -> subprocess.Popen[bytes]:
    """The CLI by itself, with its own settings, on the repository."""
    assert world.program is not None
    model = world.full_id(number)
    argv = {
        "opencode": ["run", "--model", model, "--format", "json"],
        "claude": ["-p", "--output-format", "stream-json", "--verbose", "--model", model],
    }[world.harness]
    environment = world.environment | {"OPENCODE_DISABLE_MODELS_FETCH": "1", "OPENCODE_DISABLE_AUTOUPDATE": "1"}
    if world.harness == "claude":
        environment |= claude_environment(server_of(world).url)
    prompt = world.root / "prompt.txt"
    prompt.write_text("Headless run. Say hello.")
    with prompt.open("rb") as stdin:
        return subprocess.Popen(
            [str(world.program), *argv],
            cwd=world.repo,
            env=environment | more,
            stdin=stdin,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )


def start_up(world: World) -> float:
    """Process to first request."""
    world.script(1, [{"text": "Hello."}])
    seen = len(server_of(world).requests)
    begin = time.monotonic()
    process = alone(world, 1)
    took = first_request(world, 1, seen).monotonic - begin
    process.wait(60)
    return took


def fail_over(world: World, case: Case, round_: int) -> tuple[float, float | None]:
    """Seconds from the 429 to the next candidate's first request, and by how much the hold misses the stated reset."""
    error = case.error()
    world.script(0, [{"error": error, "repeat": True}])
    world.script(1, [{"shell": "echo 2 > value.txt && git commit -qam 'set it'"}, {"text": "Done."}])
    seen = len(server_of(world).requests)
    task = world.add(world.brief(f"{case.name}-{round_}", f"Make value.txt hold 2, for the {round_}. time."))
    environment = world.environment | {"CLAUDE_CODE_OAUTH_TOKEN": TOKEN}
    done = world.run("run", "--quiet", env=environment)
    assert done.returncode == 0, (done.stderr, world.story(task))
    limited, following = first_request(world, 0, seen), first_request(world, 1, seen)
    [held] = world.rows("select * from hold where lifted_at is null")
    world.run("release", str(held["id"]))  # a short one may have passed already
    reset = stated_reset(error["headers"], limited.wall)
    miss = None if reset is None else held["until"] - reset
    first, second = world.attempts(task)[:2]
    say(
        f"    the 429, {first['ended_at'] - limited.wall:.2f} s to its settled end, "
        f"{second['started_at'] - first['ended_at']:.2f} s to the next start, "
        f"{following.wall - second['started_at']:.2f} s to its first request"
    )
    return following.monotonic - limited.monotonic, miss


def stated_reset(headers: dict[str, str], at: float) -> float | None:
    if "retry-after" in headers:
        return at + float(headers["retry-after"])
    named = headers.get("anthropic-ratelimit-unified-reset")
    return None if named is None else float(named)


def naive(cli: Cli, case: Case, cap: float) -> float | None:
    """Seconds from the 429 to the CLI's own exit; None when the cap came first."""
    with bench(cli) as world:
        world.script(0, [{"error": case.error(), "repeat": True}])
        more = {"CLAUDE_CODE_OAUTH_TOKEN": TOKEN, "ANTHROPIC_API_KEY": ""} if case.name == "plan-window" else {}
        process = alone(world, 0, **more)
        limited = first_request(world, 0, 0)
        try:
            process.wait(cap)
        except subprocess.TimeoutExpired:
            return None
        finally:
            end(str(world.root))
        return time.monotonic() - limited.monotonic


def loop(cli: Cli, steps: list[dict[str, Any]]) -> tuple[int, float, str]:
    """An endless loop under the dispatcher: requests, seconds from the start of the worker to its end, its class."""
    with bench(cli) as world:
        world.script(0, steps)
        world.script(1, [{"shell": "echo 2 > value.txt && git commit -qam 'set it'"}, {"text": "Done."}])
        task = world.add(world.brief("loop", "Make value.txt hold 2."))
        world.run("run", "--quiet")
        attempt = world.attempts(task)[0]
        return len(world.prompts(0)), attempt["ended_at"] - attempt["started_at"], attempt["outcome"]


def healthy(cli: Cli, steps: int) -> tuple[int, float, str]:
    """A long run that is well: each step a tool call with a result."""
    with bench(cli) as world:
        work = [{"shell": f"echo {number} >> log.txt"} for number in range(steps)]
        commit = {"shell": "git add log.txt && git commit -qm 'the log'"}
        world.script(0, [*work, commit, {"text": "Done."}])
        task = world.add(world.brief("long", "Write the log."))
        world.run("run", "--quiet")
        attempt = world.attempts(task)[0]
        return len(world.prompts(0)), attempt["ended_at"] - attempt["started_at"], attempt["outcome"]


# --- the tables ---------------------------------------------------------------------------------------------------


def naive_walks(chosen: list[tuple[Cli, Case]], cap: float) -> dict[tuple[Cli, str], float | None]:
    """All at once: they only sleep."""
    found: dict[tuple[Cli, str], float | None] = {}

    def one(cli: Cli, case: Case) -> None:
        found[cli, case.name] = naive(cli, case, cap)

    threads = [threading.Thread(target=one, args=pair) for pair in chosen]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def measure(cli: Cli, case: Case, runs: int) -> tuple[float, float, float | None]:
    """Medians of the start-up and of the fail-over, and by how much the first hold misses the stated reset."""
    with bench(cli, plan=case.name == "plan-window") as world:
        start_up(world)  # a first run in an empty home takes its time
        own, ours, misses = list[float](), list[float](), list[float]()
        for round_ in range(runs):
            own.append(start_up(world))
            took, miss = fail_over(world, case, round_)
            ours.append(took)
            misses += [] if miss is None or round_ else [abs(miss)]  # the same limit again is held for longer
            say(f"{cli} {case.name}: start-up {own[-1]:.2f} s, fail-over {ours[-1]:.2f} s")
    return statistics.median(own), statistics.median(ours), max(misses, default=None)


def say(text: str) -> None:
    sys.stderr.write(text + "\n")


def table(rows: list[tuple[str, ...]]) -> None:
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    for row in rows:
        line = "  ".join(
            cell.ljust(width) if n < 2 else cell.rjust(width)
            for n, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        sys.stdout.write(line.rstrip() + "\n")
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--naive-cap", type=float, default=200.0, help="seconds; 0 leaves the naive walk out")
    parser.add_argument("--cli", choices=list(CASES), action="append")
    parser.add_argument("--case", action="append")
    parser.add_argument("--no-loops", action="store_true")
    parser.add_argument("--only-loops", action="store_true")
    given = parser.parse_args()
    clis: list[Cli] = given.cli or list(CASES)
    if missing := [cli for cli in clis if real_cli(cli) is None]:
        parser.error(f"{' and '.join(missing)} not found: name their folder in DISPATCHER_TEST_CLIS (see CONTRIBUTING)")
    chosen = [(cli, case) for cli in clis for case in CASES[cli] if not given.case or case.name in given.case]
    if not given.only_loops:
        limits_table(chosen, given.runs, given.naive_cap)
    if not given.no_loops:
        loops_table(clis)


def limits_table(chosen: list[tuple[Cli, Case]], runs: int, cap: float) -> None:
    waits = naive_walks(chosen, cap) if cap else {}
    head = ("cli", "limit", "start-up", "fail-over", "over it", "goal", "naive", "hold misses reset by")
    rows: list[tuple[str, ...]] = [head]
    for cli, case in chosen:
        own, ours, miss = measure(cli, case, runs)
        left = waits.get((cli, case.name))
        walk = "" if not cap else f"> {cap:.0f} s" if left is None else f"{left + own:.1f} s"
        over = ours - own
        rows.append(
            (
                cli,
                case.name,
                f"{own:.2f} s",
                f"{ours:.2f} s",
                f"{over:+.2f} s",
                "met" if over <= GOAL else f"missed ({GOAL} s)",
                walk,
                "" if miss is None else f"{miss:.2f} s",
            )
        )
    table(rows)


def loops_table(clis: list[Cli]) -> None:
    rows: list[tuple[str, ...]] = [("cli", "run", "requests", "start to end", "class")]
    for cli in clis:
        for name, steps in LOOPS.items():
            rows.append((cli, name, *_counted(*loop(cli, steps))))
        rows.append((cli, "healthy, 400 steps", *_counted(*healthy(cli, 400))))
    table(rows)


def _counted(requests: int, seconds: float, outcome: str) -> tuple[str, str, str]:
    return str(requests), f"{seconds:.1f} s", outcome


if __name__ == "__main__":
    main()
