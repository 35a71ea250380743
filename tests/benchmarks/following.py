"""The cost of following a worker's event stream of 200 MB while it grows, beside reading and splitting it.

    python -m tests.benchmarks.following [--megabytes 200] [--rounds 3]

"follow" is what the supervisor does with every line as it comes, "read at the end" what the dispatcher does once. The
goal is for following. One line of 50 MB is measured apart.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import tracemalloc
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from dispatcher import harness
from dispatcher.supervisor.capping import Cap
from dispatcher.supervisor.clocks import Clocks
from dispatcher.supervisor.follow import Follower
from dispatcher.supervisor.listener import Listener
from dispatcher.supervisor.transcript import lines
from dispatcher.task import Billing, EndReason, ExitRecord
from tests.benchmarks import sides

BUDGET = 32 * 1024 * 1024
LINE = 'the quick brown fox \\ jumps over "the" lazy dog\n'
OUTPUTS = [LINE * lines for lines in (2, 10, 40, 60, 100, 150, 200, 300)]  # of tools: a word, a listing, a file
GOAL = 1.5


def opencode() -> Iterator[dict[str, object]]:
    """Events in the shapes of opencode 1.18: a tool's output is most of it."""
    session = "ses_1"
    while True:
        yield {"type": "step_start", "timestamp": 1, "sessionID": session, "part": {"type": "step-start"}}
        for number, output in enumerate(OUTPUTS):
            state = {"status": "completed", "input": {"filePath": "a.py"}, "output": output, "title": "a.py"}
            part = {"type": "tool", "tool": "read", "callID": f"call_{number}", "state": state}
            yield {"type": "tool_use", "timestamp": 1, "sessionID": session, "part": part}
        yield {"type": "text", "timestamp": 1, "sessionID": session, "part": {"type": "text", "text": OUTPUTS[1]}}
        finish = {"type": "step-finish", "reason": "tool-calls", "tokens": {"input": 10, "output": 5}, "cost": 0}
        yield {"type": "step_finish", "timestamp": 1, "sessionID": session, "part": finish}


def claude() -> Iterator[dict[str, object]]:
    """Events in the shapes of claude 2.1: every call is an answer of its own."""
    session = "00000000-0000-4000-8000-000000000001"
    yield {"type": "system", "subtype": "init", "session_id": session, "model": "claude-sonnet-5-5", "tools": []}
    for turn in count():
        for number, output in enumerate(OUTPUTS):
            call = {"type": "tool_use", "id": f"toolu_{number}", "name": "Read", "input": {"file_path": "a.py"}}
            message: dict[str, object] = {"model": "claude-sonnet-5-5", "id": f"msg_{turn}_{number}", "type": "message"}
            message |= {"role": "assistant", "content": [call], "stop_reason": None, "usage": {"output_tokens": 1}}
            yield {"type": "assistant", "message": message, "parent_tool_use_id": None, "session_id": session}
            answer = {"tool_use_id": f"toolu_{number}", "type": "tool_result", "content": output}
            message = {"role": "user", "content": [answer]}
            yield {"type": "user", "message": message, "parent_tool_use_id": None, "session_id": session}


STREAMS = {
    "opencode": ("opencode/big-pickle", opencode),
    "claude": ("claude-sonnet-5-5", claude),
}


def write(file: Path, events: Iterator[dict[str, object]], size: int) -> None:
    with file.open("wb") as out:
        while out.tell() < size:
            out.writelines(json.dumps(next(events), separators=(",", ":")).encode() + b"\n" for _ in range(100))


def split(file: Path) -> None:
    with file.open("rb") as opened:
        while chunk := opened.read(64 * 1024):
            for _ in chunk.split(b"\n"):
                pass


def follow(file: Path, name: str, model: str) -> None:
    """With all that a line leads to: the clocks of the supervisor are told, and its cap of the log is asked."""
    wants: Any = SimpleNamespace(
        harness=name, model=model, billing=Billing.FREE, overage=False, zone="UTC", detection="stream"
    )
    wants.gate_required, wants.others_free, wants.switch_after = False, True, 60.0
    listener, cap = Listener(wants, []), Cap(str(file), 10 * BUDGET)
    clocks = Clocks(start=60, stall=600, hard_cap=3600, grace=10, mono=0.0, wall=0.0, plain=False)
    follower = Follower(str(file))
    before = -1
    while follower.offset != before:
        before = follower.offset
        for block, end in follower.blocks(BUDGET):
            assert listener.feed_block("stdout", block, end, 1.0, clocks) is None
        cap.check(follower.offset)
    follower.close()
    assert not listener.notes


def read(file: Path, name: str) -> None:
    record = ExitRecord(marker="m", started_at=1.0, ended_at=2.0, reason=EndReason.EXITED, exit_code=0)
    harness.get(name).read(lines(file), [], [], record, now=2.0)


def long_line(folder: Path) -> tuple[sides.Cost, int]:
    """One line of 50 MB: its cost, and the most memory it took."""
    file = folder / "long"
    file.write_bytes(b'{"type":"text","part":{"text":"' + b"x" * 50_000_000 + b'"}}\n')
    tracemalloc.start()
    follow(file, "opencode", "opencode/big-pickle")
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return sides.alternate({"": lambda: sides.timed(lambda: follow(file, "opencode", "m"))}, 3)[""], most


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as place:
        for name, (model, events) in STREAMS.items():
            file = Path(place) / name
            write(file, events(), given.megabytes * 1_000_000)
            found = sides.alternate(
                {
                    "read and split": lambda file=file: sides.timed(lambda: split(file)),  # type: ignore[misc]
                    "follow": lambda file=file, name=name, model=model: sides.timed(lambda: follow(file, name, model)),  # type: ignore[misc]
                    "read at the end": lambda file=file, name=name: sides.timed(lambda: read(file, name)),  # type: ignore[misc]
                },
                given.rounds,
            )
            floor = found["read and split"].cpu
            for what, cost in found.items():
                ratio = cost.cpu / floor
                goal = sides.against(ratio, GOAL) if what == "follow" else ""
                rows.append([f"{name}: {what}", sides.ms(cost.wall), sides.ms(cost.cpu), f"{ratio:.2f}x", goal])
            file.unlink()
        cost, most = long_line(Path(place))
    sides.table(["what", "clock", "CPU", "CPU beside read and split", "goal"], rows)
    sides.text(f"\nOne line of 50 MB: {sides.ms(cost.cpu)} and {most / 2**20:.1f} MiB (goal 100 ms and 16 MiB).")


if __name__ == "__main__":
    main()
