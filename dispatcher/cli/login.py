"""`doctor --login`: one word from one model of each credential, through the same command and environment as a run."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from dispatcher import environment, harness
from dispatcher.cli.finding import BAD, OK, UNSEEN, Finding
from dispatcher.harness.base import RunRequest
from dispatcher.task import EndReason, ExitRecord, PromptKind, Tools

if TYPE_CHECKING:
    from dispatcher.config import Config
    from dispatcher.task import Candidate

_SECONDS = 120.0
_PROMPT = "Answer with the single word ok. Use no tool.\n"


def try_logins(config: Config) -> Iterator[Finding]:
    """One candidate per credential and harness: the first one in models.yaml."""
    first: dict[tuple[str, str], Candidate] = {}
    for candidate in config.roster.candidates.values():
        first.setdefault((candidate.credential.name, candidate.harness), candidate)
    for candidate in first.values():
        yield _try(candidate, config)


def _try(candidate: Candidate, config: Config) -> Finding:
    from dispatcher.config import find_program

    program = find_program(candidate.harness, config, os.environ)
    if program is None:
        return Finding("login", UNSEEN, f"{candidate.name}: not tried, since {candidate.harness} is not installed")
    with tempfile.TemporaryDirectory(prefix="dispatcher-login-") as name:
        folder = Path(name)
        (folder / "work").mkdir()
        (folder / "prompt.md").write_text(_PROMPT, encoding="utf-8")
        started = time.time()
        code, timed_out = _run(candidate, config, program, folder)
        record = ExitRecord(
            marker="login",
            started_at=started,
            ended_at=time.time(),
            reason=EndReason.HARD_CAP if timed_out else EndReason.EXITED,
            exit_code=code,
            timed_out=timed_out,
        )
        lines = [(folder / file).read_bytes().splitlines() for file in ("stdout", "stderr")]
        outcome = harness.get(candidate.harness).read(lines[0], lines[1], (), record, now=time.time())
    label = f"{candidate.name} ({candidate.credential.name}): {outcome.kind}"
    return Finding("login", OK if outcome.positive else BAD, f"{label}: {outcome.reason}", outcome.proof)


def _run(candidate: Candidate, config: Config, program: tuple[str, ...], folder: Path) -> tuple[int | None, bool]:
    """Exit code, and whether our own time was up."""
    request = RunRequest(
        candidate=candidate,
        executable=program,
        prompt_file=str(folder / "prompt.md"),
        kind=PromptKind.FIRST,
        resume=None,
        new_session=str(uuid.uuid4()),
        cwd=str(folder / "work"),
        folder=str(folder),
        tools=Tools.READ,
        tmp=str(folder),
    )
    command = harness.get(candidate.harness).command(request)
    for path, text in command.files.items():
        Path(path).write_text(text, encoding="utf-8")
    worker = environment.build(
        os.environ,
        passed=config.environment_pass,
        credential=candidate.credential,
        harness=candidate.harness,
        marker="login",
        extra=command.env,
    )
    with (
        open(command.stdin, "rb") as stdin,
        (folder / "stdout").open("wb") as out,
        (folder / "stderr").open("wb") as err,
    ):
        process = subprocess.Popen(
            command.argv,
            cwd=command.cwd,
            env=dict(worker.variables),
            stdin=stdin,
            stdout=out,
            stderr=err,
            start_new_session=True,
        )
        try:
            return process.wait(_SECONDS), False
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait(), True
