"""What `run` would do with each task, and what it would refuse, as far as it can be known before anything is made or
started: for `run --dry-run` and `ready`.

The same questions as `walk.step` and `attempt.start` ask, of the target where the copy does not exist yet. What git
says about a repository is asked once for all tasks.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from dispatcher import enclosure, money, programs, routing
from dispatcher.errors import DispatcherError
from dispatcher.record import record
from dispatcher.repository import copies
from dispatcher.runner import attempt as attempts
from dispatcher.runner import walk
from dispatcher.runner.context import Context
from dispatcher.runner.place import folder_of, place_of, starting_point
from dispatcher.runner.settings import Settings, settings_for
from dispatcher.runner.settle import describe
from dispatcher.store import queue
from dispatcher.task import Candidate, Status, Task

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dispatcher.config import Config
    from dispatcher.store import Store

CHECKS_GO_ON = "its work is there, its checks go on"
_NOT_MADE = Path("/nonexistent")


@record
class Refusal:
    """`stops`: the task needs a person; else this candidate is held and the next one is asked."""

    candidate: str
    reason: str
    stops: bool


@record
class PlannedTask:
    task: Task
    plan: routing.Plan
    refusals: tuple[Refusal, ...] = ()  # of the first candidates of the plan

    @property
    def choices(self) -> tuple[routing.Choice, ...]:
        """The candidates that a run would start, in their order."""
        return () if any(one.stops for one in self.refusals) else self.plan.choices[len(self.refusals) :]


def plan(
    config: Config, store: Store, logs: Path, now: float, environ: Mapping[str, str], task_id: int | None = None
) -> list[PlannedTask]:
    """What `run` would do with each task that may be claimed (or with one of them), and why. Starts nothing."""
    foresight = Foresight(Context(config, store, logs, "", environ, lambda: now))
    wanted = queue.tasks(store, status=(Status.QUEUED, Status.WAITING))
    return [foresight.planned(task) for task in wanted if task_id in (None, task.id)]


class Foresight:
    def __init__(self, ctx: Context) -> None:
        self.ctx = ctx
        self.bases: dict[tuple[Path, str | None], tuple[Path, str | None]] = {}
        self.code: dict[tuple[str, Path, str | None], DispatcherError | None] = {}

    def planned(self, task: Task) -> PlannedTask:
        if task.next.settle is not None:
            return PlannedTask(task, routing.Plan((), (), None, CHECKS_GO_ON))
        try:
            settings = settings_for(self.ctx.config, task)
        except DispatcherError as wrong:
            return PlannedTask(task, routing.Plan((), (), None, f"needs a person: {describe(wrong)}"))
        spent = walk.over_budget(self.ctx, task, settings)
        if spent is not None:
            return PlannedTask(task, routing.Plan((), (), None, f"needs a person: {spent}"))
        found = walk.route(self.ctx, task, settings)
        return PlannedTask(task, found, self.refusals(task, settings, found.choices))

    def refusals(self, task: Task, settings: Settings, choices: Sequence[routing.Choice]) -> tuple[Refusal, ...]:
        """Of the candidates in their order, up to the one that stops the task or would be started."""
        found: list[Refusal] = []
        for choice in choices:
            refusal = self.refusal(task, settings, choice.candidate)
            if refusal is not None:
                found.append(refusal)
            if refusal is None or refusal.stops:
                break
        return tuple(found)

    def refusal(self, task: Task, settings: Settings, candidate: Candidate) -> Refusal | None:
        try:
            self.look(task, settings, candidate)
        except money.WrongMoney as wrong:
            return Refusal(candidate.name, describe(wrong), stops=False)
        except DispatcherError as wrong:
            return Refusal(candidate.name, describe(wrong), stops=True)
        return None

    def look(self, task: Task, settings: Settings, candidate: Candidate) -> None:
        """In the order of a start: the repository, the program, the money, the version, the code that would run."""
        ctx, place = self.ctx, place_of(self.ctx, task)
        base = place.base.base if place.base else None
        if place.target is not None and not (place.base is not None and place.copy.is_dir()):
            copy, base = self.start(place.target, starting_point(ctx, task, settings))
            place = replace(place, copy=_NOT_MADE)
        else:
            copy = place.copy
        program = programs.find(candidate.harness, ctx.config, ctx.environ)
        attempts.refuse_wrong_money(ctx, settings, candidate, place)
        attempts.refuse_unpinned(candidate)
        attempts.refuse_untested(candidate, programs.version(program, ctx.logs))
        folder = folder_of(ctx, task.id)
        box = enclosure.applies(ctx.config, settings, candidate, task.difficulty, folder, ctx.environ)
        if box is None and not settings.trusted:
            self.refuse_own_code(candidate.harness, copy, base)

    def start(self, target: Path, name: str | None) -> tuple[Path, str | None]:
        if (target, name) not in self.bases:
            self.bases[target, name] = copies.resolve(target).root, copies.commit_of(target, name)
        return self.bases[target, name]

    def refuse_own_code(self, harness: str, copy: Path, base: str | None) -> None:
        key = (harness, copy, base)
        if key not in self.code:
            try:
                enclosure.refuse_own_code(harness, copy, base)
            except DispatcherError as wrong:
                self.code[key] = wrong
            else:
                self.code[key] = None
        wrong_code = self.code[key]
        if wrong_code is not None:
            raise wrong_code
