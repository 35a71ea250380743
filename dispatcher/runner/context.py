"""What the walk of a task needs from outside: configuration, store, clock, and a voice."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from dispatcher.supervisor.forks import ForkServer
from dispatcher.task import Attempt, Source, Task

if TYPE_CHECKING:
    from dispatcher.config import Config
    from dispatcher.store import Store
    from dispatcher.store.approvals import Approval


def _silent(task: Task, attempt: Attempt | None, text: str) -> None:
    """The default voice."""


def _nobody(task: Task, asked: Approval) -> None:
    """The default listener to questions."""


@dataclass
class Context:
    """One `run`. `clock` gives UTC epoch seconds; `say` is told each step; `stopping` is set by a second Ctrl-C."""

    config: Config
    store: Store
    logs: Path
    owner: str
    environ: Mapping[str, str]
    clock: Callable[[], float]
    source: Source = Source.TERMINAL
    say: Callable[[Task, Attempt | None, str], None] = _silent
    asked: Callable[[Task, Approval], None] = _nobody  # a call waits for a person
    stopping: bool = False
    told: set[int] = field(default_factory=set)  # approvals that this run has told a person of
    forks: ForkServer = field(init=False)
    live: dict[int, Path] = field(default_factory=dict)  # task id -> folder of the attempt in flight

    def __post_init__(self) -> None:
        self.forks = ForkServer(self.logs)
