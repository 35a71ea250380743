"""What this worker's own git did, from the file that GIT_TRACE2_EVENT names.

git 2.22 and later: one JSON object per line. `sid` tells the processes apart (a child's begins with its parent's and a
slash), `def_repo` names the work tree, `cmd_name` the command, `child_start`/`child_exit` hooks and programs, `exit`
the code. Times are ISO 8601 in UTC. Other people's commands are not in it, which is the point.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

COMMITTING = frozenset(["commit", "merge", "cherry-pick", "revert", "rebase", "am", "pull", "commit-tree"])
SIGNERS = ("gpg", "ssh-keygen", "gpgsm")
_WANTED = (b'"start"', b'"def_repo"', b'"cmd_name"', b'"child_start"', b'"child_exit"', b'"exit"', b'"signal"')


@dataclass
class Command:
    """One git process."""

    started: float
    folder: str | None = None
    name: str = ""
    ended: float | None = None
    code: int | None = None  # None: it never came to its end
    failed_hook: str | None = None
    failed_signer: str | None = None
    children: dict[int, tuple[str, str]] = field(default_factory=dict)  # hook and program, while they run

    @property
    def signer(self) -> str | None:
        """The signing program that stopped this command, with what it did."""
        hung = [program for _, program in self.children.values() if program.startswith(SIGNERS)]
        if self.failed_signer is None and self.ended is None and hung:
            return f"{hung[-1]} (did not end)"
        return self.failed_signer


def read(file: Path) -> list[Command]:
    """The commands in the order of their start. A missing or damaged file is simply less to know."""
    try:
        with file.open("rb") as lines:
            return parse(lines)
    except OSError:
        return []


def parse(lines: Iterable[bytes]) -> list[Command]:
    commands: dict[str, Command] = {}
    for line in lines:
        if not any(word in line for word in _WANTED):
            continue
        try:
            event = json.loads(line)
            kind, sid, at = event["event"], event["sid"], datetime.fromisoformat(event["time"]).timestamp()
        except (ValueError, KeyError, TypeError):  # cut by a kill, or written by two processes at once
            continue
        if isinstance(sid, str):
            _take(commands.setdefault(sid, Command(at)), kind, event, at)
    return list(commands.values())


def _take(command: Command, kind: object, event: Mapping[str, Any], at: float) -> None:
    if kind == "def_repo":
        command.folder = command.folder or str(event.get("worktree", ""))
    elif kind == "cmd_name":
        command.name = command.name or str(event.get("name", ""))
    elif kind == "child_start":
        words = event.get("argv") or [""]
        hook = str(event.get("hook_name") or "") if event.get("child_class") == "hook" else ""
        command.children[int(event.get("child_id", -1))] = (hook, Path(str(words[0])).name)
    elif kind == "child_exit":
        hook, program = command.children.get(int(event.get("child_id", -1)), ("", ""))
        if event.get("code") != 0 and hook:
            command.failed_hook = f"{hook} (exit code {event.get('code')})"
        elif event.get("code") != 0 and program.startswith(SIGNERS):
            command.failed_signer = f"{program} (exit code {event.get('code')})"
        elif event.get("code") == 0:
            command.children.pop(int(event.get("child_id", -1)), None)
    elif kind in ("exit", "signal"):
        command.ended, command.code = at, event.get("code", -1)


def commits(commands: Iterable[Command]) -> list[Command]:
    """Those that made, or tried to make, a commit."""
    return [command for command in commands if command.name in COMMITTING and command.folder]
