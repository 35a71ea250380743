"""What `run` would refuse, as far as it can be known before anything is made or started: for `run --dry-run`.

The same questions as `walk.step` and `attempt.start` ask, of the target where the copy does not exist yet. What git
says about a repository is asked once for all tasks.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from dispatcher import enclosure, money, programs
from dispatcher.errors import DispatcherError
from dispatcher.record import record
from dispatcher.repository import copies
from dispatcher.runner import attempt as attempts
from dispatcher.runner.place import folder_of, place_of, starting_point
from dispatcher.runner.settle import describe

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dispatcher.routing import Choice
    from dispatcher.runner.context import Context
    from dispatcher.runner.settings import Settings
    from dispatcher.task import Candidate, Task

_NOT_MADE = Path("/nonexistent")


@record
class Refusal:
    """`stops`: the task needs a person; else this candidate is held and the next one is asked."""

    candidate: str
    reason: str
    stops: bool


class Foresight:
    def __init__(self, ctx: Context) -> None:
        self.ctx = ctx
        self.bases: dict[tuple[Path, str | None], tuple[Path, str | None]] = {}
        self.code: dict[tuple[str, Path, str | None], DispatcherError | None] = {}

    def refusals(self, task: Task, settings: Settings, choices: Sequence[Choice]) -> tuple[Refusal, ...]:
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
