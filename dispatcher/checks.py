"""The brief's `setup`, `verify` and hidden commands, run by us and supervised like a worker.

`verify` runs in a clean checkout of the produced commit: what only works because of files that were not committed does
not pass. A command that fails is run on the base as well: what was red before is not the worker's fault.
"""

from __future__ import annotations

import fnmatch
import shutil
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from anyio import to_thread

from dispatcher import environment
from dispatcher.errors import RepositoryError
from dispatcher.repository import copies
from dispatcher.supervisor import client, spec
from dispatcher.task import (
    Attempt,
    Billing,
    CheckResult,
    Checks,
    CopyMode,
    Credential,
    EndReason,
    Evidence,
    ExitRecord,
    Task,
)

if TYPE_CHECKING:
    from dispatcher.runner.context import Context
    from dispatcher.runner.place import Place
    from dispatcher.runner.settings import Settings

_NOBODY = Credential("none", Billing.FREE)  # a check spends nobody's quota and gets nobody's key
_HEAD = _TAIL = 6_000  # characters of output that are kept


@dataclass(frozen=True)
class Step:
    """One command to run in one folder."""

    command: str
    cwd: Path
    folder: Path  # where its output and exit record go
    cap: float
    tmp: Path
    hidden: bool = False


def has_any(settings: Settings) -> bool:
    return bool(settings.verify or settings.hidden_checks or settings.brief.touch)


async def run_setup(ctx: Context, task: Task, settings: Settings, copy: Path, tmp: Path) -> CheckResult | None:
    """Run the setup commands in the fresh copy, in order. Gives the one that failed, or None."""
    folder = ctx.logs / str(task.id) / "setup"
    for number, command in enumerate(settings.setup, 1):
        ctx.say(task, None, f"setup: {command}")
        result = await run_step(ctx, Step(command, copy, folder / str(number), settings.limits.setup_cap, tmp))
        if not result.passed:
            return result
    return None


async def run(
    ctx: Context,
    task: Task,
    attempt: Attempt,
    settings: Settings,
    place: Place,
    evidence: Evidence,
    snapshot_ref: str | None,
) -> Checks:
    """Touch gate first, then the commands in a clean checkout; red ones once more on the base."""
    outside = outside_touch(evidence.files, settings.brief.touch)
    if outside or not settings.verify or place.target is None or place.base is None:
        return Checks(configured=True, outside_touch=outside)
    produced = evidence.head if not evidence.dirty else snapshot_ref
    if produced is None:
        return Checks(configured=True, error="there is no commit to check")
    folder = Path(attempt.folder) / "checks"
    try:
        results = await run_on(ctx, settings, place, produced, settings.verify, folder / "result")
        red = tuple(r.command for r in results if not r.passed)
        if red and place.base.base is not None:
            before = await run_on(ctx, settings, place, place.base.base, red, folder / "base")
            results = [mark_red_before(result, before) for result in results]
    except RepositoryError as error:
        return Checks(configured=True, error=error.message)
    return Checks(configured=True, results=tuple(results))


def outside_touch(files: Iterable[str], globs: tuple[str, ...]) -> tuple[str, ...]:
    """Changed paths that no glob allows; no globs allow everything."""
    if not globs:
        return ()
    return tuple(path for path in files if not any(fnmatch.fnmatchcase(path, glob) for glob in globs))


def mark_red_before(result: CheckResult, before: list[CheckResult]) -> CheckResult:
    failed_before = any(not b.passed and b.command == result.command for b in before)
    if result.passed or not failed_before:
        return result
    return CheckResult(
        result.command, result.hidden, False, result.exit_code, result.seconds, result.output, red_before=True
    )


async def run_on(
    ctx: Context, settings: Settings, place: Place, commit: str, commands: Iterable[str], folder: Path
) -> list[CheckResult]:
    """The commands in a clean checkout of `commit` that is removed afterwards."""
    assert place.target is not None
    checkout = place.copy.parent / f"check-{uuid.uuid4().hex[:8]}"
    tmp = place.copy.parent / f"{checkout.name}-tmp"
    tmp.mkdir(parents=True)
    target = place.target
    try:
        await to_thread.run_sync(
            lambda: copies.prepare(
                target,
                checkout,
                base=commit,
                mode=CopyMode.CLONE,
                marker=checkout.name,
                pin=False,
            )
        )
        await to_thread.run_sync(bring_files, target, checkout, settings.copy_files)
        for number, command in enumerate(settings.setup, 1):
            done = await run_step(
                ctx, Step(command, checkout, folder / f"setup-{number}", settings.limits.setup_cap, tmp)
            )
            if not done.passed:
                raise RepositoryError(f"setup failed in the clean checkout: `{command}` (exit {done.exit_code})")
        return [
            await run_step(ctx, Step(command, checkout, folder / str(number), settings.limits.verify_cap, tmp))
            for number, command in enumerate(commands, 1)
        ]
    finally:
        for path in (checkout, tmp):
            await to_thread.run_sync(shutil.rmtree, path, True)


def bring_files(target: Path, copy: Path, patterns: Iterable[str]) -> None:
    """Untracked files that a fresh copy needs (`copy_files`): never over something that is there."""
    for pattern in patterns:
        for found in sorted(target.glob(pattern)):
            there = copy / found.relative_to(target)
            if there.exists() or ".git" in found.relative_to(target).parts:
                continue
            there.parent.mkdir(parents=True, exist_ok=True)
            if found.is_dir():
                shutil.copytree(found, there, symlinks=True)
            else:
                shutil.copy2(found, there, follow_symlinks=False)


async def run_step(ctx: Context, step: Step) -> CheckResult:
    """One shell command under a supervisor of its own, so that its whole tree ends with it."""
    marker = f"check-{uuid.uuid4().hex[:12]}"
    if step.folder.exists():
        shutil.rmtree(step.folder)
    step.folder.mkdir(parents=True)
    (step.folder / "prompt.md").touch()
    built = environment.build(
        ctx.environ,
        passed=ctx.config.environment_pass,
        credential=_NOBODY,
        harness="",
        marker=marker,
        extra={"TMPDIR": str(step.tmp)},
    )
    spec.write(
        spec.AttemptSpec(
            marker=marker,
            argv=("/bin/sh", "-c", step.command),
            cwd=str(step.cwd),
            stdin=str(step.folder / "prompt.md"),
            folder=str(step.folder),
            harness=None,
            model="",
            billing="",
            start=step.cap,
            stall=step.cap,
            hard_cap=step.cap,
            grace=5.0,
            switch_after=0.0,
            others_free=False,
            log_bytes=16 * 1024 * 1024,
            keep_daemons=(),
            versions={},
        )
    )
    process = await to_thread.run_sync(client.launch, step.folder, built.variables)
    record = await client.wait(step.folder, process)
    return result_of(step, record)


def result_of(step: Step, record: ExitRecord | None) -> CheckResult:
    if record is None:
        return CheckResult(step.command, step.hidden, False, None, 0.0, "its supervisor was killed")
    output = head_and_tail(read_text(step.folder / "stdout") + read_text(step.folder / "stderr"))
    if record.reason is EndReason.HARD_CAP:
        output += f"\n[ended after {step.cap:.0f} s]"
    passed = record.reason is EndReason.EXITED and record.exit_code == 0
    return CheckResult(step.command, step.hidden, passed, record.exit_code, record.ended_at - record.started_at, output)


def read_text(path: Path) -> str:
    """Head and tail of a log file, read without loading its middle."""
    if not path.exists():
        return ""
    with path.open("rb") as file:
        head = file.read(4 * _HEAD)
        size = path.stat().st_size
        if size <= len(head):
            return head.decode("utf-8", "replace")
        file.seek(max(len(head), size - 4 * _TAIL))
        return (head + b"\n" + file.read()).decode("utf-8", "replace")


def head_and_tail(text: str) -> str:
    if len(text) <= _HEAD + _TAIL:
        return text
    return f"{text[:_HEAD]}\n[... {len(text) - _HEAD - _TAIL} characters left out ...]\n{text[-_TAIL:]}"
