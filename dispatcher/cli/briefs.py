"""`new` and `edit`: a brief in the person's editor."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from dispatcher.cli import home
from dispatcher.cli.render import clean, out
from dispatcher.errors import BadInput, BriefError
from dispatcher.task import Status

if TYPE_CHECKING:
    from dispatcher.config import Config
    from dispatcher.task import Brief, Task

_UNFILLED = """\
What is to be done, and why.

How to see that it is done.

What must not be changed.
"""
_TEMPLATE = f"""\
---
title: {{title}}
# difficulty: easy          # trivial, easy, medium, hard; else the rules of models.yaml decide
# verify: ["make test"]     # commands that must pass before it counts as done
# touch: ["src/**"]         # the only paths that may change
---
{_UNFILLED}"""

_EDITABLE = frozenset({Status.QUEUED, Status.WAITING, Status.PAUSED, Status.NEEDS_HUMAN})


def write_new(title: str, folder: Path, *, edit: bool) -> None:
    words = " ".join(title.split())
    if not words:
        raise BadInput("the title is empty", hint='dispatcher new "Fix the login redirect"')
    slug = re.sub(r"[^a-z0-9]+", "-", words.lower()).strip("-")[:60] or "brief"
    path = folder / f"{slug}.md"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(_TEMPLATE.format(title=_quoted(words)))
    except FileExistsError:
        raise BadInput(f"{path} is already there", hint="edit it, or choose another title") from None
    except OSError as error:
        raise BadInput(f"{path} cannot be written: {error.strerror}") from None
    out(str(path))  # also when there is no editor: the brief is there
    if edit:
        _edit(path)


def refuse_unfilled(body: str, label: str) -> None:
    """The template as it was written tells a model nothing."""
    if body.strip() == _UNFILLED.strip():
        raise BriefError(
            "is still the template of `dispatcher new`", file=label, hint=f"say what is to be done: {label}"
        )


def refuse_bad_rules(brief: Brief, label: str) -> None:
    """Now, not when the task is about to start."""
    if not brief.approvals:
        return
    from dispatcher import policy  # it takes shell text apart: more than a brief without rules needs

    for number, fields in enumerate(brief.approvals, start=1):
        policy.read(fields, f"{label}: `approvals`, rule {number}")


def refuse_unknown_candidates(brief: Brief, config: Config, label: str) -> None:
    for name in brief.candidates:
        if name not in config.roster.candidates:
            from dispatcher.strict_yaml import closest

            raise BriefError(
                f"`candidates`: models.yaml has no {name[:60]!r}",
                file=label,
                hint=closest(name, config.roster.candidates),
            )


def edit_task(number: int, explicit: Path | None) -> None:
    from dispatcher.cli import grading
    from dispatcher.store import queue

    config = home.configured(explicit)
    with home.existing(explicit) as store:
        task = _editable(queue.get(store, number))
        text = _edited(task)
        if text == task.brief_text:
            out(f"task {number}: unchanged")
            return
        brief = _parsed(text, number, config)
        level, reason = grading.difficulty_of(brief, config, task.brief_path)
        _editable(queue.get(store, number))  # the editor may have been open for hours
        queue.update(
            store,
            number,
            time.time(),
            event="brief edited",
            by=home.person(),
            brief_text=text,
            brief_digest=queue.digest(task.repository, text),
            title=brief.title,
            difficulty=level,
            difficulty_reason=reason,
            expect=brief.expect,
            priority=brief.priority,
        )
    out(f"task {number}: {clean(brief.title)}  [{level}: {clean(reason)}]")


def _quoted(title: str) -> str:
    """A YAML text whatever the words are."""
    import json

    return (
        title
        if re.fullmatch(r"[A-Za-z][A-Za-z0-9 ,./()'-]*", title) and len(title.split()) > 1
        else json.dumps(title, ensure_ascii=False)
    )


def _editable(task: Task) -> Task:
    if task.status not in _EDITABLE:
        raise BadInput(
            f"task {task.id} is {task.status}, so its brief cannot be changed",
            hint=f"dispatcher pause {task.id} first"
            if task.status is Status.RUNNING
            else f"dispatcher retry {task.id}, then edit it",
        )
    return task


def _edited(task: Task) -> str:
    with tempfile.TemporaryDirectory(prefix="dispatcher-edit-") as folder:
        path = Path(folder, f"task-{task.id}.md")
        path.write_text(task.brief_text, encoding="utf-8")
        _edit(path)
        try:
            return path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            raise BriefError("is not UTF-8 text any more; nothing was changed", file=path.name) from None


def _parsed(text: str, number: int, config: Config) -> Brief:
    from dispatcher import brief as briefs

    try:
        brief = briefs.parse(text, file=f"task {number}", new=True)
        refuse_bad_rules(brief, f"task {number}")
        refuse_unknown_candidates(brief, config, f"task {number}")
        return brief
    except BadInput as error:
        raise BriefError(error.message, hint=_keep(text, number)) from None


def _keep(text: str, number: int) -> str:
    """An editor session is work too: what was typed is kept when it cannot be used."""
    handle, path = tempfile.mkstemp(prefix=f"dispatcher-task-{number}-", suffix=".md")
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
    return f"the queue is unchanged; your text is in {path}"


def _edit(path: Path) -> None:
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    try:
        done = subprocess.run([*shlex.split(editor), str(path)], check=False, stdout=sys.stderr)
    except (OSError, ValueError) as error:
        raise BadInput(f"the editor {editor!r} cannot be started: {error}", hint="set EDITOR") from None
    if done.returncode:
        raise BadInput(f"the editor {editor!r} ended with {done.returncode}; nothing was changed")
