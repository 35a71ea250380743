"""Real attempts with small programs, and a look at the machine that shares nothing with the supervisor's own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import anyio

from dispatcher.supervisor import client, spec
from dispatcher.task import ExitRecord

PYTHON = sys.executable
ROOT = Path(spec.__file__).parents[2]


class Attempt:
    """One attempt folder. `token` stands in the command line of everything its scripts start, so that it can be
    found without its environment and without its parents."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.token = f"token-{uuid.uuid4().hex}"
        self.marker = f"marker-{uuid.uuid4().hex}"
        self.process: subprocess.Popen[bytes] | None = None
        folder.mkdir(parents=True)
        (folder / "prompt.md").write_text("the brief\n")

    def write(self, script: str | tuple[str, ...], **fields: Any) -> spec.AttemptSpec:
        """`script`: a shell script in which $TOKEN is this attempt's token and $F its folder; or an argv."""
        argv = ("/bin/sh", "-c", script, self.token) if isinstance(script, str) else script
        fields = {"start": 0.0, "stall": 0.0, "hard_cap": 60.0, "grace": 5.0, **fields}
        written = spec.AttemptSpec(
            marker=self.marker,
            argv=argv,
            cwd=fields.pop("cwd", str(self.folder)),
            stdin=fields.pop("stdin", str(self.folder / "prompt.md")),
            folder=str(self.folder),
            **fields,
        )
        spec.write(written)
        return written

    @property
    def environment(self) -> dict[str, str]:
        return {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "TOKEN": self.token, "F": str(self.folder)}

    def launch(self, environment: Mapping[str, str] | None = None) -> subprocess.Popen[bytes]:
        return self.launch_with({**self.environment, **(environment or {})})

    def launch_with(self, environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
        """Under a supervisor that is an interpreter of its own."""
        launched = client.launch(self.folder, environment)
        assert isinstance(launched, subprocess.Popen)
        self.process = launched
        return launched

    def wait(self) -> ExitRecord:
        record = anyio.run(client.wait, self.folder, self.process)
        assert record is not None, (self.folder / "supervisor.log").read_text()
        return record

    def run(self, script: str | tuple[str, ...], **fields: Any) -> ExitRecord:
        self.write(script, **fields)
        self.launch()
        return self.wait()

    def ready(self, name: str = "ready") -> str:
        """The text of a file that the script writes when it has come so far."""
        path = self.folder / name

        def told() -> bool:
            assert self.process is None or self.process.poll() is None, "the attempt ended before it was ready"
            return path.exists() and path.read_text().endswith("\n")

        until(told)
        return path.read_text().strip()

    def alive(self) -> list[int]:
        return walk(self.token)

    def text(self, name: str = "stdout") -> str:
        return (self.folder / name).read_text()


def until(true: Callable[[], bool]) -> None:
    """Wait for an event that has no handle. The limit of the whole test run ends a wait that never comes true."""
    while not true():
        time.sleep(0.01)


def walk(token: str) -> list[int]:
    """Pids of live processes whose command line or environment holds the token. The test process is left out."""
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == os.getpid():
            continue
        with suppress(OSError):
            status = Path(f"/proc/{name}/status").read_text(errors="replace")
            if "State:\tZ" in status or "State:\tX" in status:
                continue
            told = Path(f"/proc/{name}/cmdline").read_bytes() + Path(f"/proc/{name}/environ").read_bytes()
            if token.encode() in told:
                found.append(int(name))
    return found


def same_process(pid: int) -> str:
    """What tells this process from a later one with its pid."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]


@contextmanager
def attempts(root: Path) -> Iterator[Callable[[], Attempt]]:
    """Makes attempts; at the end nothing of them lives, and nothing was left for us to end."""
    made: list[Attempt] = []

    def make() -> Attempt:
        made.append(Attempt(root / f"attempt-{len(made)}"))
        return made[-1]

    yield make
    for attempt in made:
        if attempt.process is not None:
            if attempt.process.poll() is None:
                attempt.process.terminate()
            attempt.process.wait()
        for pid in attempt.alive():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
