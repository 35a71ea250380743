"""Before and start: the attempt's row and folder exist before its process does."""

from __future__ import annotations

import os
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from anyio import to_thread

from dispatcher import approving, enclosure, environment, harness, host, money, programs, prompts
from dispatcher.errors import DispatcherError, InternalError, Refused
from dispatcher.harness.base import BRIDGE_FILE, BRIDGE_VARIABLE, Command, RunRequest
from dispatcher.repository import copies, evidence
from dispatcher.runner import trouble
from dispatcher.runner.place import Place, folder_of
from dispatcher.runner.reading import read_outcome
from dispatcher.runner.settings import Settings
from dispatcher.store import history
from dispatcher.supervisor import client, spec
from dispatcher.task import Attempt, Candidate, CheckResult, Evidence, Shape, Task

if TYPE_CHECKING:
    from dispatcher.runner.context import Context

TRACE_FILE = "git-trace"  # each git command of the worker's tree, with its folder (git's trace2)
BEFORE_FILE = "before.json"  # what the copy held when the attempt started


@dataclass(frozen=True)
class Started:
    attempt: Attempt
    process: client.Launched


@dataclass(frozen=True)
class Worker:
    """Who is about to be started, and how."""

    candidate: Candidate
    command: tuple[str, ...]
    version: str | None
    box: enclosure.Enclosure | None
    resume: str | None  # session id


async def start(
    ctx: Context, task: Task, settings: Settings, candidate: Candidate, place: Place, *, others_free: bool
) -> Started:
    """One worker under its supervisor. Raises Refused when the run would not be what the route says."""
    program = programs.find(candidate.harness, ctx.config, ctx.environ)
    await to_thread.run_sync(refuse_wrong_money, ctx, settings, candidate, place)
    version = await to_thread.run_sync(programs.version, program, ctx.logs)
    refuse_unpinned(candidate)
    refuse_untested(candidate, version)
    box = enclosure.applies(ctx.config, settings, candidate, task.difficulty, folder_of(ctx, task.id), ctx.environ)
    base = place.base.base if place.base else None
    if box is None and not settings.trusted:
        await to_thread.run_sync(enclosure.refuse_own_code, candidate.harness, place.copy, base)
    session = resumable(ctx, task, candidate, place)
    attempt = open_row(ctx, task, candidate, version, place, session)
    try:
        worker = Worker(candidate, program.command, version, box, session)
        process = await launch(ctx, task, settings, place, attempt, worker, others_free=others_free)
    except (DispatcherError, OSError) as error:
        trouble.never_started(ctx, attempt, str(error))
        raise
    return Started(history.get_attempt(ctx.store, attempt.id), process)


async def launch(
    ctx: Context,
    task: Task,
    settings: Settings,
    place: Place,
    attempt: Attempt,
    started: Worker,
    *,
    others_free: bool,
) -> client.Launched:
    """The folder, the prompt, the environment; the process comes last."""
    candidate, version, box = started.candidate, started.version, started.box
    folder = Path(attempt.folder)
    make_folder(folder, ctx.clock())
    before = await to_thread.run_sync(evidence.snapshot, place.copy) if place.base else None
    if before is not None:
        (folder / BEFORE_FILE).write_text(before.to_json(), encoding="utf-8")
    gated = approving.applies(ctx.config, settings.brief, settings.tools_for(candidate), candidate.harness)
    hook = approving.hook() if gated else ()
    prompt = await prompt_text(ctx, task, settings, place)
    command = build_command(task, settings, place, attempt, started, prompt, hook)
    write_files({**command.files, str(folder / "prompt.md"): prompt})
    if command.session_id:
        history.update_attempt(ctx.store, attempt.id, session_id=command.session_id)
    worker = environment.build(
        ctx.environ,
        passed=ctx.config.environment_pass,
        credential=candidate.credential,
        harness=candidate.harness,
        marker=attempt.marker,
        extra={
            **ctx.config.harness(candidate.harness).env,
            **command.env,
            "TMPDIR": str(place.tmp),
            "GIT_TRACE2_EVENT": str(folder / TRACE_FILE),
            BRIDGE_VARIABLE: str(folder / BRIDGE_FILE),
        },
        programs=[started.command[0]],
    )
    notes = (*attempt.notes, *worker.notes, *who_pays(candidate, worker), *withheld(candidate, worker))
    if notes:
        history.update_attempt(ctx.store, attempt.id, notes=notes)
    variables = worker.variables
    if box is not None:
        command, variables = enclose(box, command, variables, candidate, place, attempt)
    supervised = attempt_spec(attempt, command, settings, candidate, version, others_free=others_free)
    supervised = replace(supervised, sessions=sessions_of(candidate.harness, worker.variables, box))
    if gated:
        supervised = replace(
            supervised, gate_required=True, gate=gate_plan(ctx, task, settings, candidate, place, attempt)
        )
    return await to_thread.run_sync(write_and_launch, ctx, supervised, variables)


def write_and_launch(ctx: Context, supervised: spec.AttemptSpec, variables: Mapping[str, str]) -> client.Launched:
    """Beside the loop, because it waits for the disk."""
    spec.write(supervised)
    return client.launch(Path(supervised.folder), variables, ctx.forks)


def enclose(
    box: enclosure.Enclosure,
    command: Command,
    variables: Mapping[str, str],
    candidate: Candidate,
    place: Place,
    attempt: Attempt,
) -> tuple[Command, Mapping[str, str]]:
    """The same command inside the task's sandbox; the files that it appends to must be there to be seen in it."""
    folder = Path(attempt.folder)
    for name in (BRIDGE_FILE, TRACE_FILE):
        (folder / name).touch(mode=0o600)
    argv, inside = box.close(
        command.argv,
        command.cwd,
        variables,
        copy=place.copy,
        folder=folder,
        tmp=place.tmp,
        marker=attempt.marker,
        harness=candidate.harness,
        login=not candidate.credential.env,
    )
    return replace(command, argv=argv), inside


def sessions_of(harness: str, variables: Mapping[str, str], box: enclosure.Enclosure | None) -> str:
    """Where claude keeps its sessions, as this machine sees it: its output does not tell what a killed run used."""
    if harness != "claude":
        return ""
    from dispatcher.intake import claude_store

    private = box is not None and box.box.kind != "command"
    home = {"HOME": str(box.task_folder / "home")} if box is not None and private else variables
    return str(claude_store.place(home))


def gate_plan(
    ctx: Context, task: Task, settings: Settings, candidate: Candidate, place: Place, attempt: Attempt
) -> dict[str, object]:
    """What the gate of this attempt is told; a session that was deleted while it waited is put back first."""
    approving.restore_transcript(ctx.store, task)
    tools, inside = settings.tools_for(candidate), (str(place.copy), str(place.tmp))
    return approving.plan(ctx.store, ctx.config, settings.brief, task, attempt, tools, inside)


def refuse_wrong_money(ctx: Context, settings: Settings, candidate: Candidate, place: Place) -> None:
    """What this worker would read by itself must not pay otherwise than its credential says."""
    worker = environment.build(
        ctx.environ,
        passed=ctx.config.environment_pass,
        credential=candidate.credential,
        harness=candidate.harness,
        marker="",
        extra=ctx.config.harness(candidate.harness).env,
    )
    money.refuse(candidate, worker.variables, place.copy, trusted=settings.trusted)


def who_pays(candidate: Candidate, worker: environment.WorkerEnvironment) -> tuple[str, ...]:
    """The names of the variables that carry the credential; what is in them is never written down."""
    credential = candidate.credential
    names = [name for name in credential.env if name in worker.variables]
    return (f"pays with {', '.join(names)} ({credential.name}, {credential.billing})",) if names else ()


def withheld(candidate: Candidate, worker: environment.WorkerEnvironment) -> tuple[str, ...]:
    """Only what this worker would have paid with: the other keys of this machine are of no concern to it."""
    names = ", ".join(name for name in worker.stripped if money.pays(candidate, name))
    kept = f"kept from the worker, since credential {candidate.credential.name} does not name it: {names}"
    return (kept,) if names else ()


def refuse_unpinned(candidate: Candidate) -> None:
    """A run without a full model id would be about whatever default the CLI had stored."""
    if not candidate.model.strip():
        raise Refused(f"candidate {candidate.name} names no model", hint="give it a full model id in models.yaml")


def refuse_untested(candidate: Candidate, version: str | None) -> None:
    if version is None or candidate.allow_untested or harness.get(candidate.harness).version_ok(version):
        return
    tried = harness.get(candidate.harness).tested
    raise Refused(
        f"{candidate.harness} {version} is of a major version that was not tried (tried: {tried})",
        hint=f"set `allow_untested: true` on candidate {candidate.name} to run it all the same",
    )


def open_row(
    ctx: Context, task: Task, candidate: Candidate, version: str | None, place: Place, session: str | None
) -> Attempt:
    return history.begin_attempt(
        ctx.store,
        owner=ctx.owner,
        task_id=task.id,
        prompt=task.next.prompt,
        candidate=candidate.name,
        harness=candidate.harness,
        harness_version=version,
        model=candidate.model,
        credential=candidate.credential.name,
        billing=candidate.credential.billing,
        folder=str(ctx.logs / str(task.id) / "{number}"),
        marker=f"{task.id}-{uuid.uuid4().hex[:16]}",
        session_id=session,
        started_at=ctx.clock(),
        host=host.name(),
        source=ctx.source,
        base_commit=place.base.base if place.base else None,
    )


def make_folder(folder: Path, now: float) -> None:
    """A fresh folder. What another attempt of this number left, which no row knows, is kept beside it: the database
    was lost or put back."""
    if spec.alive(folder):
        raise Refused(f"a worker that the log does not know is at work in {folder}", hint="wait for it, or end it")
    if folder.exists():
        folder.rename(folder.with_name(f"{folder.name}.before-{now:.0f}"))
    folder.mkdir(parents=True, mode=0o700)
    (folder / "stdout").touch(mode=0o600)
    (folder / "stderr").touch(mode=0o600)


def write_files(files: Mapping[str, str]) -> None:
    for path, text in files.items():
        Path(path).write_text(text, encoding="utf-8", errors="replace")


def resumable(ctx: Context, task: Task, candidate: Candidate, place: Place) -> str | None:
    """A session is resumed only by the candidate that made it, and only in the folder where it was made: elsewhere
    opencode was reported to hang after its turn, and claude not to find it."""
    session = task.next.session_id
    if session is None or task.next.candidate != candidate.name:
        return None
    made = [attempt for attempt in history.attempts(ctx.store, task.id) if attempt.session_id == session]
    with suppress(InternalError):
        if made and spec.read(Path(made[-1].folder)).cwd != str(place.copy):
            return None
    return session


def build_command(
    task: Task,
    settings: Settings,
    place: Place,
    attempt: Attempt,
    worker: Worker,
    prompt: str,
    gate: tuple[str, ...] = (),
) -> Command:
    base, candidate = place.base.base if place.base else None, worker.candidate
    return harness.get(candidate.harness).command(
        RunRequest(
            candidate=candidate,
            executable=worker.command,
            prompt_file=os.path.join(attempt.folder, "prompt.md"),
            kind=task.next.prompt,
            resume=worker.resume,
            new_session=str(uuid.uuid4()),
            cwd=str(place.copy),
            folder=attempt.folder,
            tools=settings.tools_for(candidate),
            tmp=str(place.tmp),
            instructions=copies.instructions(place.copy, base) if place.target and base else None,
            trusted=settings.trusted,
            gate=gate,
            prompt=prompt,
        )
    )


async def prompt_text(ctx: Context, task: Task, settings: Settings, place: Place) -> str:
    """The prompt of this step, told from what the attempts before left behind."""
    settled = [a for a in history.attempts(ctx.store, task.id) if a.ended_at is not None]
    last = settled[-1] if settled else None
    found = None
    base = place.base
    if last is not None and base is not None:
        found = await to_thread.run_sync(
            lambda: evidence.inspect(place.copy, base, None, trace=None, target=place.target)
        )
    parts = prompts.Parts(
        title=task.title,
        body=settings.brief.body,
        expect=settings.expect,
        rules=ctx.config.rules,
        verify=settings.verify,
        copy=str(place.copy),
        timeout_binary=programs.timeout_binary(ctx.environ),
        evidence=found,
        previous=read_outcome(last, spec.read_exit(Path(last.folder)), ctx.clock()) if last else None,
        failed_checks=failed_checks(ctx, settled),
        note=task.next.note,
        touch=settings.brief.touch,
        salvaged=salvaged(settled, found, place),
    )
    return prompts.build(task.next.prompt, parts)


def salvaged(settled: Sequence[Attempt], found: Evidence | None, place: Place) -> tuple[str, str] | None:
    """Where earlier work lies that the copy does not hold: the copy was made anew, or a worker threw the work away."""
    if place.target is None or (found is not None and found.shape is not Shape.NOTHING):
        return None
    ref = next((attempt.snapshot_ref for attempt in reversed(settled) if attempt.snapshot_ref), None)
    return None if ref is None else (str(place.target), ref)


def failed_checks(ctx: Context, settled: Sequence[Attempt]) -> tuple[CheckResult, ...]:
    """What failed when the checks last ran."""
    for attempt in reversed(settled):
        results = history.checks_of(ctx.store, attempt.id)
        if results:
            return tuple(result for result in results if not (result.passed or result.red_before))
    return ()


def attempt_spec(
    attempt: Attempt,
    command: Command,
    settings: Settings,
    candidate: Candidate,
    version: str | None,
    *,
    others_free: bool,
) -> spec.AttemptSpec:
    limits = settings.limits
    return spec.AttemptSpec(
        marker=attempt.marker,
        argv=command.argv,
        cwd=command.cwd,
        stdin=command.stdin,
        folder=attempt.folder,
        harness=candidate.harness,
        model=candidate.model,
        candidate=candidate.name,
        credential=candidate.credential.name,
        billing=str(candidate.credential.billing),
        start=limits.start,
        stall=limits.stall,
        hard_cap=limits.hard_cap,
        grace=limits.grace,
        switch_after=limits.switch_after,
        others_free=others_free,
        log_bytes=limits.log_bytes,
        keep_daemons=settings.keep_daemons,
        versions={candidate.harness: version or "unknown"},
        overage=candidate.credential.overage,
        zone=host.zone(os.environ),
        held=command.held,
    )
