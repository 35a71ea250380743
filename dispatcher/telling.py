"""What a person is told without asking: a task that waits for them, a batch that has ended.

The message is redacted and small; who wants more asks the command line for the task.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dispatcher import environment, notify, redact
from dispatcher.store import batches, queue
from dispatcher.task import ALARMS, Task

if TYPE_CHECKING:
    from dispatcher.config import Config
    from dispatcher.store import Store
    from dispatcher.store.approvals import Approval

HELD = "held"  # no candidate is left until a person lifts a hold: told once a run, however many tasks wait for it
BATCH_END = "batch_end"


class Teller:
    """`command` replaces the configured one for this run."""

    def __init__(
        self, config: Config, logs: Path, environ: Mapping[str, str], command: Sequence[str] | None = None
    ) -> None:
        self.config = config
        self.logs = logs
        self.environ = environ
        self.command = command or config.notify
        self.told_held = False

    @property
    def listens(self) -> bool:
        """Whether there is anybody to tell."""
        return bool(self.command or self.config.webhook)

    def stand_in(self, store: Store, tasks: Mapping[int, bool], now: float) -> None:
        """Tell what a run that was killed had still to tell."""
        found = [queue.get(store, number) for number in tasks]
        for task in found:
            if not tasks[task.id]:
                self.task(task, now)
        self.batches(store, found, now, untold=True)

    def task(self, task: Task, now: float) -> None:
        """Told when a task waits for a person; nothing otherwise."""
        if task.status in ALARMS or (task.until_lifted and not self.told_held):
            self.told_held = self.told_held or task.until_lifted
            words = {"id": task.id, "title": task.title, "status": str(task.status), "reason": task.status_reason}
            more = {"repository": task.repository, "branch": task.branch, "batch": task.batch}
            self._send(HELD if task.until_lifted else str(task.status), now, {"task": {**words, **more}})

    def approval(self, task: Task, asked: Approval, now: float) -> None:
        """Told when a call waits for a person, while its worker may still hold it."""
        call = {"id": asked.id, "tool": asked.tool, "input": asked.input, "rule": asked.rule}
        self._send("approval", now, {"approval": call, "task": {"id": task.id, "title": task.title}})

    def batches(self, store: Store, tasks: Sequence[Task], now: float, *, untold: bool = False) -> list[dict[str, Any]]:
        """How the batches of these tasks stand. Those that have ended are stored, and told once.

        `untold`: whoever stored the end was killed before it could have told it.
        """
        found = [batches.summary(store, name) for name in batches.named(store, (task.id for task in tasks))]
        for one in found:
            if one["left"] == 0 and (batches.end(store, one["batch"], now, one) or untold):
                self._send(BATCH_END, now, one)
        return found

    def _send(self, event: str, now: float, content: Mapping[str, object]) -> None:
        if not self.listens:
            return
        keys = {name for credential in self.config.credentials.values() for name in credential.env}
        secrets = redact.secrets_of(self.environ, keys)
        message = {"event": event, "at": round(now, 3), "home": str(self.config.home), **content}
        notify.send(
            _redacted(message, secrets),
            command=self.command,
            webhook=self.config.webhook,
            logs=self.logs,
            environ={
                name: value
                for name, value in self.environ.items()
                if name not in keys and not environment.is_money(name)
            },
        )


def _redacted(value: Any, secrets: Sequence[str]) -> Any:
    if isinstance(value, str):
        return redact.redact(value, secrets)[:4000]
    if isinstance(value, Mapping):
        return {key: _redacted(one, secrets) for key, one in value.items()}
    return [_redacted(one, secrets) for one in value] if isinstance(value, list | tuple) else value
