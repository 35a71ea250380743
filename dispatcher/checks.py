"""The brief's `setup`, `verify` and hidden commands, run by us and supervised like a worker.

`verify` runs in a clean checkout of the produced commit: what only works because of files that were not committed does
not pass. A command that fails is run on the base as well: what was red before is not the worker's fault.

`hidden_checks` are the examination that the worker never sees. A folder is laid over that checkout, a command is run in
it. Their output is kept in the database only, and no base excuses them: they ask for what was not there before.
"""

from __future__ import annotations

import os
import shlex
import shutil
import uuid
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
from anyio import to_thread

from dispatcher import enclosure, environment
from dispatcher.errors import DispatcherError, Refused, RepositoryError
from dispatcher.repository import copies, globs
from dispatcher.store import queue
from dispatcher.supervisor import client, spec
from dispatcher.supervisor.attempt_files import ATTEMPT
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
_NOT_RUN = (126, 127)  # the shell's words for a command that cannot be executed or is not there


class Stopped(DispatcherError):
    """This run is ending and took its checks with it: the next one runs them anew."""


class Withdrawn(Stopped):
    """A person paused or cancelled the task in the middle of its checks: what they said so far is of no account."""


@dataclass(frozen=True)
class Step:
    """One command to run in one folder."""

    task_id: int
    command: str
    cwd: Path
    folder: Path  # where its output and exit record go
    cap: float
    tmp: Path
    hidden: bool = False
    box: enclosure.Enclosure | None = None  # the sandbox of the task: a check runs what its worker wrote


@dataclass(frozen=True)
class Job:
    """What the checks of one attempt have in common."""

    ctx: Context
    task: Task
    settings: Settings
    target: Path
    room: Path  # the task's own folder: checkouts are made and removed there
    box: enclosure.Enclosure | None


@dataclass(frozen=True)
class Checkout:
    """A clean checkout with `setup` done; gone when the checks are over."""

    path: Path
    tmp: Path


@dataclass(frozen=True)
class Hidden:
    """What to lay over the checkout, what to put beside it, and the commands (None: those of `verify`)."""

    folder: Path | None = None
    file: Path | None = None
    commands: tuple[str, ...] | None = None


def has_any(settings: Settings) -> bool:
    return bool(settings.verify or settings.hidden_checks or settings.brief.touch)


async def run_setup(ctx: Context, task: Task, settings: Settings, copy: Path, tmp: Path) -> CheckResult | None:
    """Run the setup commands in the fresh copy, in order. Gives the one that failed, or None."""
    folder = ctx.logs / str(task.id) / "setup"
    box = enclosure.applies(ctx.config, settings, None, task.difficulty, tmp.parent, ctx.environ)
    for number, command in enumerate(settings.setup, 1):
        ctx.say(task, None, f"setup: {command}")
        step = Step(task.id, command, copy, folder / str(number), settings.limits.setup_cap, tmp, box=box)
        result = await run_step(ctx, step)
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
    try:
        outside = globs.outside(evidence.files, settings.brief.touch)
    except Refused as error:
        return Checks(configured=True, error=error.message)
    if outside or place.target is None or place.base is None or not (settings.verify or settings.hidden_checks):
        return Checks(configured=True, outside_touch=outside)
    produced = evidence.head if not evidence.dirty else snapshot_ref
    if produced is None:
        return Checks(configured=True, error="there is no commit to check")
    candidate = ctx.config.roster.candidates.get(attempt.candidate)
    room, folder = place.tmp.parent, Path(attempt.folder) / "checks"
    try:
        hidden = find_hidden(ctx, task, settings, place.target)
        box = enclosure.applies(ctx.config, settings, candidate, task.difficulty, room, ctx.environ)
        job = Job(ctx, task, settings, place.target, room, box)
        await end_left(room, folder)
        results = await examine(job, produced, hidden, folder / "result")
        red = tuple(result.command for result in results if not (result.passed or result.hidden))
        if red and place.base.base is not None:
            failing = await red_on(job, place.base.base, red, folder / "base")
            results = [replace(r, red_before=not r.hidden and r.command in failing) for r in results]
    except Stopped:
        raise
    except DispatcherError as error:
        return Checks(configured=True, error=error.message)
    return Checks(configured=True, results=tuple(results))


async def end_left(room: Path, folder: Path) -> None:
    """End and remove what checks of this attempt left when the dispatcher was killed in the middle of them."""
    for there in await to_thread.run_sync(begun, room, folder):
        if spec.alive(there):
            client.send(there, {"do": "cancel", "by": "a later run"})
            await client.wait(there, None)
        if spec.read_exit(there) is None:
            await to_thread.run_sync(client.end_leftovers, there)
    await to_thread.run_sync(remove_checkouts, room)


def remove_checkouts(room: Path) -> None:
    for left in room.glob("check-*"):
        shutil.rmtree(left, ignore_errors=True)


def begun(room: Path, folder: Path) -> list[Path]:
    """The folders of commands that were started for this attempt."""
    return [found.parent for found in (*folder.rglob(ATTEMPT), *room.glob(f"check-*-tmp/*/{ATTEMPT}"))]


async def examine(job: Job, commit: str, hidden: Hidden | None, folder: Path) -> list[CheckResult]:
    """`verify`, then the hidden checks, on one commit."""
    async with clean_checkout(job, commit, folder) as checkout:
        results = [await verify(job, checkout, command, folder / str(n)) for n, command in enumerate(named(job), 1)]
        return results if hidden is None else [*results, *await run_hidden(job, checkout, hidden)]


async def red_on(job: Job, base: str, commands: Sequence[str], folder: Path) -> frozenset[str]:
    """Which of these commands fail on the base. None do when the base cannot even be set up: that excuses nobody."""
    try:
        async with clean_checkout(job, base, folder) as checkout:
            results = [await verify(job, checkout, command, folder / str(n)) for n, command in enumerate(commands, 1)]
    except RepositoryError:
        return frozenset()
    return frozenset(result.command for result in results if not result.passed)


def named(job: Job) -> tuple[str, ...]:
    return tuple(dict.fromkeys(job.settings.verify))


async def verify(job: Job, checkout: Checkout, command: str, folder: Path) -> CheckResult:
    job.ctx.say(job.task, None, f"check: {command}")
    cap = job.settings.limits.verify_cap
    return await run_step(job.ctx, Step(job.task.id, command, checkout.path, folder, cap, checkout.tmp, box=job.box))


@asynccontextmanager
async def clean_checkout(job: Job, commit: str, folder: Path) -> AsyncIterator[Checkout]:
    """A fresh checkout of a commit, `copy_files` and `setup` included. RepositoryError when it cannot be set up."""
    name = f"check-{uuid.uuid4().hex[:8]}"
    checkout = Checkout(job.room / name, job.room / f"{name}-tmp")
    checkout.tmp.mkdir(parents=True, mode=0o700)
    try:
        await to_thread.run_sync(
            lambda: copies.prepare(job.target, checkout.path, base=commit, mode=CopyMode.CLONE, marker=name, pin=False)
        )
        await to_thread.run_sync(bring_files, job.target, checkout.path, job.settings.copy_files)
        cap = job.settings.limits.setup_cap
        for number, command in enumerate(job.settings.setup, 1):
            there = folder / f"setup-{number}"
            step = Step(job.task.id, command, checkout.path, there, cap, checkout.tmp, box=job.box)
            done = await run_step(job.ctx, step)
            if not done.passed:
                raise RepositoryError(f"setup failed in the clean checkout: `{command}` (exit {done.exit_code})")
        yield checkout
    finally:
        for path in (checkout.path, checkout.tmp):
            with anyio.CancelScope(shield=True):
                await to_thread.run_sync(shutil.rmtree, path, True)


# --- hidden checks ------------------------------------------------------------------------------------------------


def find_hidden(ctx: Context, task: Task, settings: Settings, target: Path) -> Hidden | None:
    """What `hidden_checks` names: a folder or a file beside the brief or in the home, else a command.

    Refused when it lies in the repository: the worker has a copy of that.
    """
    said = settings.hidden_checks
    if said is None:
        return None
    beside = [Path(task.brief_path).parent] if task.brief_path and settings.brief.hidden_checks else []
    for place in (*beside, ctx.config.home):
        path = place / Path(said).expanduser()
        if not path.exists():
            continue
        real = Path(os.path.realpath(path))
        if real.is_relative_to(os.path.realpath(target)):
            raise Refused(f"the hidden checks lie in the repository, where the worker sees them: {path}")
        return hidden_folder(real, settings) if real.is_dir() else Hidden(file=real)
    return Hidden(commands=(said,))


def hidden_folder(folder: Path, settings: Settings) -> Hidden:
    """Programs called `check*` in it are the checks; without one, `verify` is run again over its files."""
    programs = sorted(p.name for p in folder.glob("check*") if p.is_file() and os.access(p, os.X_OK))
    if not programs and not settings.verify:
        raise Refused(f"the hidden checks say nothing to run: no program `check*` in {folder}, and no `verify`")
    return Hidden(folder=folder, commands=tuple(f"./{shlex.quote(name)}" for name in programs) or None)


async def run_hidden(job: Job, checkout: Checkout, hidden: Hidden) -> list[CheckResult]:
    """Their output goes to a folder that is removed with the checkout: nothing of it stays where a worker looks."""
    job.ctx.say(job.task, None, "hidden checks")
    commands = named(job) if hidden.commands is None else hidden.commands
    if hidden.folder is not None:
        await to_thread.run_sync(overlay, hidden.folder, checkout.path)
    if hidden.file is not None:  # copied: a sandbox would not show the original
        program = checkout.tmp / "hidden" / hidden.file.name
        program.parent.mkdir(mode=0o700)
        await to_thread.run_sync(shutil.copy2, hidden.file, program)
        commands = (shlex.quote(str(program)),)
    results = []
    for number, command in enumerate(commands, 1):
        there, cap = checkout.tmp / f"hidden-{number}", job.settings.limits.verify_cap
        step = Step(job.task.id, command, checkout.path, there, cap, checkout.tmp, hidden=True, box=job.box)
        result = await run_step(job.ctx, step)
        if result.exit_code in _NOT_RUN:
            raise Refused(f"a hidden check cannot be run (exit {result.exit_code}): {result.output.strip()[-300:]}")
        results.append(replace(result, command=hidden.file.name) if hidden.file is not None else result)
    return results


def overlay(folder: Path, checkout: Path) -> None:
    """Lay the files of a folder over a checkout. A link that the worker put in the way is replaced, never followed."""
    for found in sorted(folder.rglob("*")):
        inner = found.relative_to(folder)
        if inner.parts[0] == ".git":
            continue
        there = checkout / inner
        is_folder = found.is_dir() and not found.is_symlink()
        if there.is_symlink() or (there.exists() and there.is_dir() != is_folder):
            shutil.rmtree(there) if there.is_dir() and not there.is_symlink() else there.unlink()
        if is_folder:
            there.mkdir(exist_ok=True)
        else:
            there.unlink(missing_ok=True)
            shutil.copy2(found, there, follow_symlinks=False)


# --- one command --------------------------------------------------------------------------------------------------


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
    """One shell command. It runs once more when its supervisor was killed: that says nothing about the work."""
    record = await supervised(ctx, step)
    if record is None and not ctx.stopping:
        record = await supervised(ctx, step)
    return result_of(step, its_own_end(ctx, step, record))


async def supervised(ctx: Context, step: Step) -> ExitRecord | None:
    """The command under a supervisor of its own, so that its whole tree ends with it."""
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
    argv: tuple[str, ...] = ("/bin/sh", "-c", step.command)
    variables = built.variables
    if step.box is not None:
        argv, variables = step.box.close(
            argv, str(step.cwd), variables, copy=step.cwd, folder=step.folder, tmp=step.tmp, marker=marker
        )
    spec.write(
        spec.AttemptSpec(
            marker=marker,
            argv=argv,
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
    record = await watched(ctx, step, variables)
    if step.box is not None:
        await to_thread.run_sync(enclosure.end_containers, ctx.config, marker)
    if record is None:
        await to_thread.run_sync(client.end_leftovers, step.folder)
    return record


def its_own_end(ctx: Context, step: Step, record: ExitRecord | None) -> ExitRecord:
    """A command that did not come to its own end, or to our cap, says nothing about the work."""
    if ctx.stopping:
        raise Stopped("the run was stopped")
    if not queue.get(ctx.store, step.task_id).runs_under(ctx.owner):
        raise Withdrawn("the task was paused or cancelled meanwhile")
    if record is None:
        raise RepositoryError("the supervisor of a check was killed")
    if record.reason in (EndReason.CANCELLED, EndReason.STOPPED, EndReason.SUPERVISOR_ERROR, EndReason.SPAWN_FAILED):
        raise RepositoryError(f"a check was ended before its time: {record.detail or record.reason}")
    return record


async def watched(ctx: Context, step: Step, variables: Mapping[str, str]) -> ExitRecord | None:
    """Start it and wait. It is ended with the run, and when a person pauses or cancels the task meanwhile."""
    process = await to_thread.run_sync(client.launch, step.folder, variables)
    ctx.live[step.task_id] = step.folder
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(end_when_withdrawn, ctx, step)
            record = await client.wait(step.folder, process)
            group.cancel_scope.cancel()
    finally:
        ctx.live.pop(step.task_id, None)
    return record


async def end_when_withdrawn(ctx: Context, step: Step) -> None:
    """The person's command tells the worker of the attempt, which is dead by now; the row tells us."""
    while True:
        await anyio.sleep(1.0)
        if not queue.get(ctx.store, step.task_id).runs_under(ctx.owner):
            client.send(step.folder, {"do": "cancel", "by": "a person"})
            return


def result_of(step: Step, record: ExitRecord) -> CheckResult:
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
