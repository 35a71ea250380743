"""Where a task works: its copy of the repository, made once, and a folder for temporary files beside it."""

from __future__ import annotations

import hashlib
import itertools
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
from anyio import to_thread

from dispatcher import checks
from dispatcher.errors import NotFound, Refused, RepositoryError
from dispatcher.repository import copies, delivery, evidence
from dispatcher.repository.marker import NAME, identity_of
from dispatcher.runner.settings import Settings
from dispatcher.store import queue, reviews
from dispatcher.task import TERMINAL, CheckResult, CopyMode, Status, Task

if TYPE_CHECKING:
    from dispatcher.runner.context import Context


TURN_POLL = 1.0  # seconds between looks at a checkout in which another task is at work
TURN_LATER = 60.0  # seconds until a task tries again that found the checkout taken by one that waits
_DONE = TERMINAL | {Status.NEEDS_REVIEW}
_COMES_BACK = frozenset({Status.QUEUED, Status.WAITING})


@dataclass(frozen=True)
class Place:
    copy: Path
    tmp: Path
    target: Path | None  # None: a task without a repository
    base: evidence.TaskBase | None


class SetupFailed(RepositoryError):
    """A `setup` command failed: no worker is started in a copy that does not stand."""


class Busy(RepositoryError):
    """The checkout is another task's, which will go on by itself: this one has its turn later."""

    def __init__(self, checkout: Path, other: Task, until: float) -> None:
        super().__init__(f"task {other.id} works in the same checkout {checkout}")
        self.until = until


def folder_of(ctx: Context, task_id: int) -> Path:
    """`<copies.root>/<home>/<task>`: two homes never share a copy."""
    home = hashlib.sha256(str(ctx.config.home).encode()).hexdigest()[:10]
    return ctx.config.copies_root / home / str(task_id)


def place_of(ctx: Context, task: Task) -> Place:
    """The place of a task that has one already; touches no disk."""
    folder = folder_of(ctx, task.id)
    copy = Path(task.copy_path) if task.copy_path else folder / "work"
    base = evidence.TaskBase.from_json(task.task_base) if task.task_base else None
    return Place(copy, folder / "tmp", Path(task.repository) if task.repository else None, base)


async def prepare(ctx: Context, task: Task, settings: Settings) -> tuple[Task, Place]:
    """Make the copy on the first attempt, reuse it afterwards. Raises RepositoryError with what is in the way."""
    place = place_of(ctx, task)
    place.tmp.mkdir(parents=True, exist_ok=True)
    target = place.target
    if target is not None and not target.is_dir():
        raise RepositoryError(f"the repository {target} is gone", hint="bring it back, then try the task again")
    if target is None:
        place.copy.mkdir(parents=True, exist_ok=True)
        with ctx.store.write(durable=False):  # whoever does not find it written comes to the same folder
            task = queue.update(ctx.store, task.id, ctx.clock(), owner=ctx.owner, copy_path=str(place.copy))
        return task, place
    identity = identity_of(task)
    if settings.copy_mode is CopyMode.IN_PLACE:
        await take_turn(ctx, task, target)
    if place.base is not None and place.copy.is_dir():
        return task, place
    copy = target if settings.copy_mode is CopyMode.IN_PLACE else own_folder(place.copy, task.id, identity)
    ctx.say(task, None, "makes its copy of the repository")
    base_name = await to_thread.run_sync(starting_point, ctx, task, settings)
    made = await to_thread.run_sync(
        lambda: copies.prepare(
            target,
            copy,
            base=base_name,
            mode=settings.copy_mode,
            marker=str(task.id),
            identity=identity,
        )
    )
    await to_thread.run_sync(checks.bring_files, target, made.path, settings.copy_files)
    # The path is stored before setup runs, so that a crash in setup leaves a copy that the next run finds.
    task = queue.update(ctx.store, task.id, ctx.clock(), owner=ctx.owner, copy_path=str(made.path))
    failed = await checks.run_setup(ctx, task, settings, made.path, place.tmp)
    if failed is not None:
        raise setup_failed(failed, settings, ctx.logs / str(task.id) / "setup")
    base = await to_thread.run_sync(evidence.snapshot, made.path)
    task = queue.update(ctx.store, task.id, ctx.clock(), owner=ctx.owner, task_base=base.to_json())
    return task, Place(made.path, place.tmp, target, base)


async def take_turn(ctx: Context, task: Task, checkout: Path) -> None:
    """One task at a time in a checkout that is used in place: wait for the one at work there, and be the next."""
    own, said = (str(task.id), identity_of(task)), False
    while (user := await to_thread.run_sync(copies.user_of, checkout)) != own:
        other = None if user is None else _task_of(ctx, user)
        if user is None or (other is not None and other.status in _DONE):
            if user is not None:
                await to_thread.run_sync(copies.let_go, checkout, user)
            with suppress(copies.Taken):
                await to_thread.run_sync(begin_in_place, checkout, *own)
                return
            continue
        if other is None:
            hint = f"if that home is gone: rm {checkout}/.git/{NAME}"
            raise RepositoryError(f"{checkout} is in use by task {user[0]} of another home", hint=hint)
        if other.status in _COMES_BACK:
            raise Busy(checkout, other, max(other.not_before or 0.0, ctx.clock() + TURN_LATER))
        if other.status is not Status.RUNNING:
            hint = f"finish or cancel task {other.id}, then try this one again"
            raise RepositoryError(f"{checkout} is in use by task {other.id}, which is {other.status}", hint=hint)
        if not said:
            ctx.say(task, None, f"waits for task {other.id}, which works in the same checkout")
            said = True
        if ctx.stopping or queue.get(ctx.store, task.id).status is not Status.RUNNING:
            raise Busy(checkout, other, ctx.clock())
        await anyio.sleep(TURN_POLL)


def begin_in_place(checkout: Path, marker: str, identity: str) -> None:
    copies.prepare(checkout, checkout, mode=CopyMode.IN_PLACE, marker=marker, identity=identity)


def _task_of(ctx: Context, user: tuple[str, str]) -> Task | None:
    """The task of this home that the marker of a checkout names."""
    try:
        found = queue.get(ctx.store, int(user[0]))
    except (NotFound, ValueError):
        return None
    return found if identity_of(found) == user[1] else None


def setup_failed(failed: CheckResult, settings: Settings, folder: Path) -> SetupFailed:
    """The first and the last line of what the command said, and where all of it is."""
    lines = [line.strip() for line in failed.output.splitlines() if line.strip()]
    said = " ... ".join(f'"{line[:200]}"' for line in dict.fromkeys((*lines[:1], *lines[-1:]))) or "nothing"
    place = folder / str(settings.setup.index(failed.command) + 1)
    whole = " and ".join(str(file) for file in (place / "stdout", place / "stderr") if _holds_something(file))
    where = f"; whole output: {whole}" if whole else ""
    return SetupFailed(f"setup failed: `{failed.command}` (exit {failed.exit_code}); it said {said}{where}")


def _holds_something(file: Path) -> bool:
    return file.is_file() and file.stat().st_size > 0


def own_folder(wanted: Path, number: int, identity: str) -> Path:
    """The wanted folder, or one beside it: the copy of an earlier task of this number, whose queue is lost, stays."""
    folders = (wanted.with_name(f"{wanted.name}.{count}") if count > 1 else wanted for count in itertools.count(1))
    return next(f for f in folders if not copies.is_anothers(f, marker=str(number), identity=identity))


def starting_point(ctx: Context, task: Task, settings: Settings) -> str | None:
    """The brief's `base`, else the results of the tasks it comes after, else the repository's `base`, else None (HEAD).

    Several results are merged. One that was accepted into a branch counts as what it became there; one that the
    ordinary start holds already needs no other start. Refused when they conflict.
    """
    if settings.brief.base is not None or task.repository is None:
        return settings.brief.base or settings.base
    target, ordinary = Path(task.repository), settings.base or "HEAD"
    results: dict[str, str] = {}
    for before in queue.predecessors(ctx.store, task.id):
        result = reviews.landed(ctx.store, before.id) or before.result_commit
        if result is not None and not delivery.contains(target, result, by=ordinary):
            results[f"task {before.id}"] = result
    try:
        return delivery.combined(target, results) if results else settings.base
    except delivery.Conflict as conflict:
        hint = f"merge their branches by hand and name the result as `base`: dispatcher edit {task.id}, then retry it"
        raise Refused(conflict.message, hint=hint) from conflict
