"""Between the supervisors that ask and the people who answer: what a gate is told, what it asked, what was answered.

Everything goes through `logs/<task>/approvals`, which no sandbox shows to a worker:

    <n>.asked      lines of attempt n's supervisor: calls that wait
    <n>.answers    lines for it: what a person said while it lives
    <id>.used      made once, before the call of approval <id> is let through
    <n>.transcript claude's own record of the session, in case it is deleted before there is an answer
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dispatcher import policy
from dispatcher.errors import Refused
from dispatcher.store import approvals, history
from dispatcher.store.approvals import Approval
from dispatcher.supervisor import plain_json, processes
from dispatcher.task import Attempt, Task, Tools

if TYPE_CHECKING:
    from dispatcher.config import Config
    from dispatcher.store import Store
    from dispatcher.task import Brief

HARNESSES = frozenset({"opencode", "claude"})
_HOOK = Path(__file__).parent / "supervisor" / "claude_gate.py"


# --- before a worker starts ----------------------------------------------------------------------------------------


def rules(config: Config, brief: Brief | None, tools: Tools) -> tuple[policy.Rule, ...]:
    """All rules for a task. Raises BadInput for one that cannot be read."""
    configured = [(rule.fields, f"{config.file.name}:{rule.line}") for rule in config.approvals.rules]
    return policy.rules(configured, brief.approvals if brief else (), full=tools is Tools.FULL)


def applies(config: Config, brief: Brief, tools: Tools, harness: str) -> bool:
    """Whether there is a gate. A worker that may only read needs none; `full` has one when a rule is written."""
    if harness not in HARNESSES or tools is Tools.READ:
        return False
    return tools is not Tools.FULL or bool(config.approvals.rules or brief.approvals)


def hook() -> tuple[str, ...]:
    """How claude starts our hook."""
    return (sys.executable, "-I", "-S", str(_HOOK))


def folder_of(attempt: Attempt) -> Path:
    return Path(attempt.folder).parent / "approvals"


def plan(
    store: Store, config: Config, brief: Brief, task: Task, attempt: Attempt, tools: Tools, inside: tuple[str, ...]
) -> dict[str, object]:
    """What the supervisor's gate is told. Answers given before are bound to their digest; the last one counts."""
    folder = folder_of(attempt)
    folder.mkdir(mode=0o700, exist_ok=True)
    scopes = [("task", str(task.id))] + ([("repository", task.repository)] if task.repository else [])
    latest = {one.digest: _answer(one) for one in approvals.of_task(store, task.id) if one.answered_at is not None}
    return {
        "folder": str(folder),
        "number": attempt.number,
        "rules": [policy.to_plain(rule) for rule in rules(config, brief, tools)],
        "grants": [grant.digest for grant in approvals.grants(store, scopes)],
        "answers": list(latest.values()),
        "park_after": config.approvals.park_after,
        "inside": None if tools is Tools.FULL else list(inside),
    }


def _answer(found: Approval) -> dict[str, object]:
    do = "approve" if found.status in ("approved", "consumed") else "deny"
    reason = found.answer_reason or ("nobody answered in time" if found.status == "expired" else "no reason was given")
    return {"id": found.id, "digest": found.digest, "do": do, "reason": reason, "by": found.answered_by or ""}


# --- what was asked ------------------------------------------------------------------------------------------------


def collect(store: Store, config: Config, attempt: Attempt) -> list[Approval]:
    """Bring what a supervisor wrote into the database; the questions that are new. Safe at any time, by anybody."""
    folder = folder_of(attempt)
    found = []
    for asked in _lines(folder / f"{attempt.number}.asked"):
        new = approvals.ask(store, attempt, asked, config.approvals.expire)
        if new is not None:
            found.append(new)
    _collect_used(store, folder, attempt.task_id)
    return found


def _collect_used(store: Store, folder: Path, task_id: int) -> None:
    for one in approvals.of_task(store, task_id):
        mark = folder / f"{one.id}.used"
        if one.consumed_at is None and mark.exists():
            approvals.consume(store, one.id, mark.stat().st_mtime)


def collect_all(store: Store, config: Config, now: float) -> None:
    """Every attempt that is in flight, then what has waited too long."""
    for attempt in history.open_attempts(store):
        collect(store, config, attempt)
    approvals.withdraw_ended(store)
    for one in approvals.pending(store):
        if one.expires_at is not None and one.expires_at <= now:
            tell(store, one, now, approve=False, by="dispatcher", where="approvals.expire", status="expired")


def _lines(path: Path) -> list[dict[str, Any]]:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return []
    found = []
    for line in text.splitlines():
        try:
            found.append(json.loads(line))
        except ValueError:
            continue  # cut off by a power cut: its call was not let through
    return found


def keep_transcript(attempt: Attempt, waiting: Approval) -> None:
    """claude deletes old sessions; a copy of this one waits with its question."""
    if waiting.transcript and os.path.isfile(waiting.transcript):
        shutil.copyfile(waiting.transcript, folder_of(attempt) / f"{attempt.number}.transcript")


def restore_transcript(store: Store, task: Task) -> None:
    """Put a session back that was deleted while its question waited."""
    for one in approvals.of_task(store, task.id):
        if one.session_id != task.next.session_id or not one.transcript:
            continue
        kept = folder_of(attempt := history.get_attempt(store, one.attempt_id)) / f"{attempt.number}.transcript"
        if kept.exists() and not os.path.exists(one.transcript):
            os.makedirs(os.path.dirname(one.transcript), exist_ok=True)
            shutil.copyfile(kept, one.transcript)


# --- answering -----------------------------------------------------------------------------------------------------


def refuse_inside_a_worker(environ: Mapping[str, str]) -> None:
    """Answers are a person's. Also looked for above us: a worker may take a variable out of its own environment."""
    pid, seen = os.getpid(), 0
    inside = bool(environ.get(processes.MARKER))
    while not inside and pid > 1 and seen < 64:
        seen += 1
        try:
            given = Path(f"/proc/{pid}/environ").read_bytes()
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            break
        inside = f"\0{processes.MARKER}=".encode() in b"\0" + given
    if inside:
        raise Refused("a worker cannot answer for a person", hint="answer from a terminal of your own")


def refuse_others(config: Config, account: str, rule: str) -> None:
    allowed = config.approvals.approvers
    if allowed and not {"*", rule} & set(allowed.get(account, ())):
        names = ", ".join(name for name, named in allowed.items() if {"*", rule} & set(named)) or "nobody"
        raise Refused(f"{account} may not answer the rule {rule!r}", hint=f"`approvers` in models.yaml names: {names}")


def tell(
    store: Store,
    found: Approval,
    now: float,
    *,
    approve: bool,
    by: str,
    where: str,
    reason: str = "",
    remember: tuple[str, str] | None = None,
    status: str = "",
) -> Approval:
    """Store an answer, and hand it to the worker that holds the call, if it does. `remember`: scope and its key."""
    attempt = history.get_attempt(store, found.attempt_id)
    _collect_used(store, folder_of(attempt), found.task_id)
    grant = None
    if remember is not None:
        call = policy.Call(found.tool, json.loads(found.input), found.folder)
        grant = (*remember, policy.digest(call, anywhere=True))
    note = _note(found, approve, by, reason)
    done = approvals.answer(
        store, found.id, now, approve=approve, by=by, where=where, reason=reason, grant=grant, note=note, status=status
    )
    line = plain_json.dumps(_answer(done)).encode() + b"\n"
    path = folder_of(attempt) / f"{attempt.number}.answers"
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(fd, line)
        os.fsync(fd)
    finally:
        os.close(fd)
    return done


def note_of(found: Approval) -> str:
    """The same words for an answer that was given before its task was parked; empty without an answer."""
    if found.answered_at is None:
        return ""
    approve = found.status in ("approved", "consumed")
    return _note(found, approve, found.answered_by or "a person", found.answer_reason or "")


def _note(found: Approval, approve: bool, by: str, reason: str) -> str:
    """What the model is told when its session goes on with a prompt."""
    call = f"tool: {found.tool}\ninput: {found.input}"
    if approve:
        return f"Approved by {by}. Make exactly this call again, with nothing changed in it:\n\n{call}"
    words = reason or "no reason was given"
    return f"Denied by {by}: {words}\n\nDo not make this call, and do not try it in another way:\n\n{call}"
