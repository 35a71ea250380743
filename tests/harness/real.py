"""Runs the exact command of a harness on the real CLI against the scripted model server, in its own environment."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from dispatcher.demo.model_server import ModelServer, claude_environment, opencode_config
from dispatcher.harness import get
from dispatcher.harness.base import Channel, RunRequest, Signal, SignalKind
from dispatcher.task import (
    Billing,
    Candidate,
    Credential,
    EndReason,
    ExitRecord,
    Outcome,
    PromptKind,
    Tools,
)

from ..clis import Cli, need_cli

MODEL = {"opencode": "scripted/m1", "claude": "claude-sonnet-5-5"}
SERVED = {"opencode": "m1", "claude": "claude-sonnet-5-5"}
PROMPT = "Headless run. Prompt: first.\n\nDo what the brief says."
INSTRUCTIONS = "House rule: the word is heliotrope."
_CHANNELS: tuple[tuple[Channel, str], ...] = (("stdout", "stdout"), ("stderr", "stderr"), ("bridge", "bridge.jsonl"))


@dataclass
class Run:
    """One started worker. Its output grows in files, as under the supervisor."""

    cli: Cli
    folder: Path
    process: subprocess.Popen[bytes]
    marker: str
    started: float
    signals: list[Signal] = field(default_factory=list)
    read: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.watch = get(self.cli).watch(MODEL[self.cli], Billing.METERED)

    def lines(self, name: str) -> list[bytes]:
        path = self.folder / name
        return path.read_bytes().splitlines() if path.exists() else []

    def poll(self) -> list[Signal]:
        """Feed what is new to the watch and return all signals so far."""
        for channel, name in _CHANNELS:
            path = self.folder / name
            data = path.read_bytes() if path.exists() else b""
            start = self.read.get(name, 0)
            whole = data[start : data.rfind(b"\n") + 1] if data.rfind(b"\n") >= start else b""
            self.read[name] = start + len(whole)
            for line in whole.splitlines():
                self.signals += self.watch.feed(channel, line, time.time())
        return self.signals

    def wait_for(self, kind: SignalKind, seconds: float = 90.0) -> Signal:
        """The first signal of that kind; the process may end meanwhile, but not without it."""
        return self._until(lambda: next((found for found in self.poll() if found.kind is kind), None), kind, seconds)

    def _until(self, look: Callable[[], Signal | None], what: object, seconds: float) -> Signal:
        limit = time.monotonic() + seconds
        while time.monotonic() < limit:
            ended = self.process.poll() is not None
            if (found := look()) is not None:
                return found
            if ended:
                raise AssertionError(f"ended without {what}: {self.lines('stdout')[-3:]} {self.lines('stderr')[-3:]}")
            time.sleep(0.05)
        raise AssertionError(f"no {what} in {seconds} s")

    def outcome(self, reason: EndReason = EndReason.EXITED, **fields: Any) -> Outcome:
        """Wait for the end and read the outcome, with an exit record as the supervisor would write it."""
        code = self.process.wait(120)
        self.poll()
        record = ExitRecord(
            self.marker,
            self.started,
            time.time(),
            reason,
            exit_code=code if code >= 0 else None,
            signal=-code if code < 0 else None,
        )
        return get(self.cli).read(
            self.lines("stdout"),
            self.lines("stderr"),
            self.lines("bridge.jsonl"),
            replace(record, **fields),
            now=time.time(),
        )


class Bench:
    """A repository, a home and a server for one test. `close` leaves no process behind."""

    def __init__(self, cli: Cli, root: Path, home: Path) -> None:
        """`home` may be shared: a first run in an empty one takes opencode several times as long."""
        self.cli: Cli = cli
        self.program = need_cli(cli)
        self.root = root
        self.copy = root / "copy"
        self.home = home
        self.outside = root / "outside"
        self.tmp = root / "tmp"
        for folder in (self.copy, self.outside, self.tmp):
            folder.mkdir()
        (self.outside / "o.txt").write_text("outside\n")
        self.server = ModelServer()
        self.runs: list[Run] = []
        self.git("init", "-q", "-b", "main")
        self.write("a.txt", "hello\n")
        self.write(".env", "SECRET=swordfish\n")
        self.write("AGENTS.md", "written by the repository itself\n")
        self.git("add", "-A")
        self.git("commit", "-qm", "start")

    def write(self, path: str, text: str) -> None:
        (self.copy / path).parent.mkdir(parents=True, exist_ok=True)
        (self.copy / path).write_text(text)

    def git(self, *arguments: str) -> str:
        identity = ("-c", "user.name=T", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false")
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.home), "GIT_CONFIG_NOSYSTEM": "1"}
        done = subprocess.run(
            ["git", *identity, *arguments], cwd=self.copy, env=environment, check=True, capture_output=True, text=True
        )
        return done.stdout

    def script(self, *steps: dict[str, Any]) -> None:
        self.server.script(SERVED[self.cli], steps)

    def start(
        self, tools: Tools = Tools.EDIT, *, resume: str | None = None, prompt: str = PROMPT, **fields: Any
    ) -> Run:
        marker = uuid.uuid4().hex
        folder = self.root / marker
        folder.mkdir()
        (folder / "prompt.md").write_text(prompt)
        candidate = Candidate("c", self.cli, MODEL[self.cli], Credential("c", Billing.METERED))
        request = RunRequest(
            candidate,
            (str(self.program),),
            str(folder / "prompt.md"),
            PromptKind.FIRST,
            resume,
            str(uuid.uuid4()),
            str(self.copy),
            str(folder),
            tools,
            str(self.tmp),
            INSTRUCTIONS,
        )
        command = get(self.cli).command(replace(request, **fields))
        for path, text in command.files.items():
            Path(path).write_text(text)
        with (
            open(command.stdin, "rb") as stdin,
            open(folder / "stdout", "ab") as out,
            open(folder / "stderr", "ab") as err,
        ):
            environment = {**self.environment(), **command.env, "DISPATCHER_ATTEMPT": marker}
            process = subprocess.Popen(
                command.argv,
                cwd=command.cwd,
                env=environment,
                stdin=stdin,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )
        self.runs.append(Run(self.cli, folder, process, marker, time.time()))
        return self.runs[-1]

    def environment(self) -> dict[str, str]:
        """What a person's home would give: opencode's provider in its configuration, claude's in variables."""
        known = {"HOME": str(self.home), "PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8"}
        known |= {"GIT_AUTHOR_NAME": "W", "GIT_AUTHOR_EMAIL": "w@example.org"}
        known |= {"GIT_COMMITTER_NAME": "W", "GIT_COMMITTER_EMAIL": "w@example.org"}
        if self.cli == "claude":
            return known | claude_environment(self.server.url)
        folder = self.home / ".config/opencode"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "opencode.json").write_text(json.dumps(opencode_config(self.server.url, ["m1"])))
        return known | {"OPENCODE_DISABLE_MODELS_FETCH": "1"}

    def tool_results(self) -> list[str]:
        """What the model was told about its calls, from the last main request."""
        request = [request for request in self.server.requests if request.main][-1]
        found: list[str] = []
        for message in request.body["messages"]:
            content = message["content"]
            if message["role"] == "tool":
                found.append(json.dumps(content))
            elif isinstance(content, list):
                found += [json.dumps(part["content"]) for part in content if part.get("type") == "tool_result"]
        return found

    def close(self) -> None:
        self.server.close()
        for run in self.runs:
            end_marked(run.marker)
            run.process.wait(30)


def end_marked(marker: str) -> None:
    """Kill every process that carries the marker, until none is left."""
    while pids := list(_marked(marker)):
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _marked(marker: str) -> Iterator[int]:
    wanted = f"DISPATCHER_ATTEMPT={marker}".encode()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
            if state != "Z" and wanted in (entry / "environ").read_bytes().split(b"\0"):
                yield int(entry.name)
