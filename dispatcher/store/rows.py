"""Rows of the database <-> the values of `dispatcher.task`. The only place that knows which column holds which field.

Enums are stored by value, tuples and small records as JSON in ASCII (a name that is no UTF-8 stays readable as
\\udcXX), booleans as 0 and 1, usage as one column per kind.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from enum import Enum

from dispatcher.errors import InternalError
from dispatcher.store import text
from dispatcher.task import (
    Attempt,
    Billing,
    CheckResult,
    Counters,
    Difficulty,
    Expect,
    Hold,
    HoldScope,
    ModelEvidence,
    NextStep,
    OutcomeClass,
    PromptKind,
    Source,
    Status,
    Task,
    Usage,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

USAGE_COLUMNS = {
    "input": "tokens_input",
    "output": "tokens_output",
    "cache_read": "tokens_cache_read",
    "cache_write": "tokens_cache_write",
    "reasoning": "tokens_reasoning",
    "cost_usd": "cost_usd",
}
_PATHS = frozenset({"brief_path", "repository", "copy_path", "folder"})
_LINES = frozenset(
    {"title", "difficulty_reason", "status_reason", "outcome_reason", "proof", "verdict_reason", "end_reason", "batch"}
)
_WHOLE = frozenset({"task_base", "evidence"})  # JSON that the caller made: cut, it would be no JSON


def columns(fields: Mapping[str, object], known: Mapping[str, object]) -> dict[str, object]:
    """Fields of a Task or an Attempt as columns. `known` are the fields of that class: anything else is a mistake."""
    values: dict[str, object] = {}
    for name, value in fields.items():
        if name not in known:
            raise InternalError(f"there is no field {name!r}")
        if isinstance(value, Usage):
            values |= {column: getattr(value, kind) for kind, column in USAGE_COLUMNS.items()}
        elif isinstance(value, NextStep):
            values["next_step"] = dump(vars(value))
        elif isinstance(value, Counters):
            values["counters"] = dump({**vars(value), "backoffs": dict(value.backoffs)})
        else:
            values[name] = _plain(name, value)
    return values


def _plain(name: str, value: object) -> object:
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, tuple | list):
        # Not in ASCII: the text search reads these lists as they stand.
        words = [text.clean(str(word), text.MAX_LINE) for word in value]
        return json.dumps(words, ensure_ascii=False, separators=(",", ":"))
    if not isinstance(value, str):
        return value
    if name in _PATHS:
        return text.path(value)
    if name == "brief_text":
        return text.brief(value)
    if name in _WHOLE:
        return text.clean(value, len(value))
    return text.clean(value, text.MAX_LINE if name in _LINES else text.MAX_TEXT)


def dump(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def _known(found: Mapping[str, object], known: Mapping[str, object]) -> dict[str, object]:
    """Keys of an older or newer version that this one does not have are left out."""
    return {name: value for name, value in found.items() if name in known}


def _named(row: sqlite3.Row) -> dict[str, Any]:
    """A row looks for a name among all its columns each time; forty names of forty columns are felt in long lists."""
    return dict(zip(row.keys(), row, strict=True))


def task_of(found: sqlite3.Row) -> Task:
    row = _named(found)
    return Task(
        id=row["id"],
        title=row["title"],
        brief_text=row["brief_text"],
        brief_path=row["brief_path"],
        brief_digest=row["brief_digest"],
        repository=row["repository"],
        difficulty=Difficulty(row["difficulty"]),
        difficulty_reason=row["difficulty_reason"],
        expect=Expect(row["expect"]),
        priority=row["priority"],
        status=Status(row["status"]),
        status_reason=row["status_reason"],
        created_at=row["created_at"],
        updated_at=row["updated_at"],
        not_before=row["not_before"],
        batch=row["batch"],
        source=Source(row["source"]),
        owner=row["owner"],
        copy_path=row["copy_path"],
        task_base=row["task_base"],
        branch=row["branch"],
        result_commit=row["result_commit"],
        final_text=row["final_text"],
        flags=tuple(json.loads(row["flags"])),
        next=_next_of(row["next_step"]),
        counters=counters_of(row["counters"]),
    )


def _next_of(stored: str) -> NextStep:
    found = _known(json.loads(stored), NextStep.__dataclass_fields__)
    prompt, avoid = PromptKind(str(found.pop("prompt", "first"))), found.pop("avoid", ())
    return NextStep(prompt=prompt, avoid=tuple(avoid), **found)  # type: ignore[arg-type]


def counters_of(stored: str) -> Counters:
    return Counters(**_known(json.loads(stored), Counters.__dataclass_fields__))  # type: ignore[arg-type]


def attempt_of(found: sqlite3.Row) -> Attempt:
    row = _named(found)
    return Attempt(
        id=row["id"],
        task_id=row["task_id"],
        number=row["number"],
        prompt=PromptKind(row["prompt"]),
        candidate=row["candidate"],
        harness=row["harness"],
        model=row["model"],
        credential=row["credential"],
        billing=Billing(row["billing"]),
        folder=row["folder"],
        marker=row["marker"],
        started_at=row["started_at"],
        harness_version=row["harness_version"],
        session_id=row["session_id"],
        ended_at=row["ended_at"],
        outcome=None if row["outcome"] is None else OutcomeClass(row["outcome"]),
        outcome_reason=row["outcome_reason"],
        proof=row["proof"],
        verdict=row["verdict"],
        verdict_reason=row["verdict_reason"],
        counted=bool(row["counted"]),
        exit_code=row["exit_code"],
        signal=row["signal"],
        timed_out=bool(row["timed_out"]),
        end_reason=row["end_reason"],
        survivors=row["survivors"],
        usage=Usage(**{kind: row[column] for kind, column in USAGE_COLUMNS.items()}),
        observed_model=row["observed_model"],
        model_evidence=ModelEvidence(row["model_evidence"]),
        detection=row["detection"],
        base_commit=row["base_commit"],
        result_commit=row["result_commit"],
        evidence=row["evidence"],
        snapshot_ref=row["snapshot_ref"],
        final_text=row["final_text"],
        notes=tuple(json.loads(row["notes"])),
        host=row["host"],
        source=Source(row["source"]),
        seconds=row["seconds"],
        billed_usd=row["billed_usd"],
        pid=row["pid"],
        pid_start=row["pid_start"],
        boot=row["boot"],
    )


def hold_of(row: sqlite3.Row) -> Hold:
    return Hold(
        id=row["id"],
        scope=HoldScope(row["scope"]),
        key=row["key"],
        until=row["until"],
        reason=row["reason"],
        created_at=row["created_at"],
        by=row["actor"],
        window=row["window_name"],
    )


def check_of(row: sqlite3.Row) -> CheckResult:
    return CheckResult(
        command=row["command"],
        hidden=bool(row["hidden"]),
        passed=bool(row["passed"]),
        exit_code=row["exit_code"],
        seconds=row["seconds"],
        output=row["output"],
        red_before=bool(row["red_before"]),
    )
