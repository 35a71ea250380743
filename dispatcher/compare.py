"""One brief, many candidates: the same work, in a copy each, under the same checks, counted side by side.

Every run is an ordinary task of the queue, so that holds, budgets, the supervisor and the log are those of any work.
What makes it a comparison: each brief names exactly one candidate, all start from the same commit, and nothing of it
is accepted or proposed by itself. Runs share nothing but the repository they were copied from; the harnesses keep their
agents' own memory switched off for every attempt.

The figures are counts. Nobody is ranked by them: one run each says little about a model.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dispatcher import brief as briefs
from dispatcher import strict_yaml
from dispatcher.errors import BadInput, NotFound
from dispatcher.runner.settings import COMPARISON
from dispatcher.store import history, queue
from dispatcher.task import OutcomeClass, Source, Status

if TYPE_CHECKING:
    from dispatcher.config import Config
    from dispatcher.store import Store
    from dispatcher.task import Attempt, Checks, Task

DELIVERED = frozenset({Status.NEEDS_REVIEW, Status.ACCEPTED})
LEFT = frozenset({Status.QUEUED, Status.RUNNING, Status.WAITING})

_STALLED = frozenset({OutcomeClass.STALLED, OutcomeClass.TIMED_OUT, OutcomeClass.RUNAWAY})
_FRONT = re.compile(r"\A\ufeff?---[ \t]*\r?\n(.*?)^(?:---|\.\.\.)[ \t]*\r?\n", re.DOTALL | re.MULTILINE)
_NOT_HERE = ("candidates", "base", "deliver", "auto_accept", "repo")  # decided by the comparison, for all alike
_CHAINS = ("after", "after_accepted")


@dataclass(frozen=True)
class Run:
    """One task of a comparison. `checks` are those of the last attempt that got so far; None is unknown."""

    task: int
    candidate: str
    status: str
    reason: str
    left: bool
    delivered: bool
    checks_passed: int
    checks: int
    hidden_passed: int
    hidden: int
    outside_touch: tuple[str, ...]
    attempts: int
    stalled: int
    seconds: float | None
    tokens: int | None
    cost_usd: float | None
    files: int
    insertions: int
    deletions: int
    branch: str | None


def candidates(names: Sequence[str], config: Config) -> list[str]:
    """The named candidates, in the order given. BadInput for an unknown one or one that is named twice."""
    known = config.roster.candidates
    for name in names:
        if name not in known:
            hint = strict_yaml.closest(name, known)
            raise NotFound(f"there is no candidate {name!r} in models.yaml", hint=hint)
    if not names or len(set(names)) < len(names):
        raise BadInput("name each candidate once", hint="--candidates first,second; --times N for several runs each")
    return list(names)


def brief_for(new: queue.NewTask, candidate: str, base: str | None) -> str:
    """The same brief for one candidate: its front matter is written anew as JSON, which is YAML too; the body stays."""
    text, file = new.brief_text, new.brief_path or "the brief"
    parts = _FRONT.match(text)
    front = strict_yaml.to_plain(strict_yaml.parse(parts[1], file=file)) if parts and parts[1].strip() else {}
    assert isinstance(front, dict)
    if any(front.get(key) for key in _CHAINS):
        raise BadInput(
            f"{file}: a brief that comes after others cannot be compared",
            hint="take out `after` and say with `base` where it starts",
        )
    kept = {key: value for key, value in front.items() if key not in (*_NOT_HERE, *_CHAINS)}
    kept |= {"candidates": [candidate], "repo": new.repository or "none"}
    if base is not None:
        kept["base"] = base
    if new.brief_path and isinstance(hidden := kept.get("hidden_checks"), str):
        beside = Path(new.brief_path).parent / Path(hidden).expanduser()
        kept["hidden_checks"] = str(beside) if beside.exists() else hidden
    head = "".join(f"{key}: {json.dumps(value)}\n" for key, value in kept.items())
    return f"---\n{head}---\n{text[parts.end() :] if parts else text}"


def add(
    store: Store,
    new: queue.NewTask,
    names: Sequence[str],
    times: int,
    base: str | None,
    batch: str,
    now: float,
    by: str,
) -> list[Task]:
    """Queue the runs. The candidates take turns, so that none of them has the quiet hours to itself.

    The tasks do not name the brief's file: an edited brief that is added again must not become part of a comparison.
    """
    texts = {name: brief_for(new, name, base) for name in names}
    new = replace(new, brief_path=None, batch=batch, source=Source.BATCH, flags=(*new.flags, COMPARISON))
    with store.write():
        return [
            queue.add(
                store,
                replace(new, brief_text=texts[name]),
                now,
                again=True,
                by=by,
            ).task
            for _ in range(times)
            for name in names
        ]


def runs(store: Store, batch: str) -> list[Run]:
    """The comparison of that name as it stands, run by run. NotFound when there is none."""
    rows = store.read("SELECT id FROM task WHERE batch = ? ORDER BY id", (batch,))
    tasks = [queue.get(store, row["id"]) for row in rows]
    found = [_run(store, task) for task in tasks if COMPARISON in task.flags]
    if not found:
        raise NotFound(f"there is no comparison {batch!r}", hint="compare prints its name when it begins")
    return found


def _run(store: Store, task: Task) -> Run:
    attempts = history.attempts(store, task.id)
    checks = _last_checks(store, attempts)
    results = checks.results if checks else ()
    hidden = [result for result in results if result.hidden]
    shown = [result for result in results if not result.hidden]
    files, insertions, deletions = _size(attempts)
    return Run(
        task=task.id,
        candidate=briefs.parse(task.brief_text).candidates[0],
        status=str(task.status),
        reason=task.status_reason,
        left=task.status in LEFT,
        delivered=task.status in DELIVERED,
        checks_passed=sum(result.passed for result in shown),
        checks=len(shown),
        hidden_passed=sum(result.passed for result in hidden),
        hidden=len(hidden),
        outside_touch=checks.outside_touch if checks else (),
        attempts=len(attempts),
        stalled=sum(attempt.outcome in _STALLED for attempt in attempts),
        seconds=_sum([attempt.seconds for attempt in attempts]),
        tokens=_sum([_tokens(attempt) for attempt in attempts]),
        cost_usd=_sum([attempt.usage.cost_usd for attempt in attempts]),
        files=files,
        insertions=insertions,
        deletions=deletions,
        branch=task.branch,
    )


def _last_checks(store: Store, attempts: Sequence[Attempt]) -> Checks | None:
    found = (history.checks(store, attempt.id) for attempt in reversed(attempts))
    return next((checks for checks in found if checks is not None), None)


def _size(attempts: Sequence[Attempt]) -> tuple[int, int, int]:
    """Files, lines added, lines taken out, all against the common start."""
    told = [json.loads(attempt.evidence) for attempt in attempts if attempt.evidence]
    last = told[-1] if told else {}
    return len(last.get("files", ())), last.get("insertions", 0), last.get("deletions", 0)


def _tokens(attempt: Attempt) -> int | None:
    usage = attempt.usage
    kinds = [usage.input, usage.output, usage.cache_read, usage.cache_write]
    return None if all(kind is None for kind in kinds) else sum(kind or 0 for kind in kinds)


def _sum(values: Sequence[Any]) -> Any:
    """One unknown part makes a sum unknown; it is never counted as nothing."""
    return None if not values or any(value is None for value in values) else sum(values)


# --- side by side -------------------------------------------------------------------------------------------------


def summary(found: Sequence[Run]) -> list[dict[str, Any]]:
    """One row for each candidate, in the order in which they were named: counts, and means per run."""
    names = dict.fromkeys(run.candidate for run in found)
    return [_row(name, [run for run in found if run.candidate == name]) for name in names]


def _row(name: str, found: Sequence[Run]) -> dict[str, Any]:
    return {
        "candidate": name,
        "runs": len(found),
        "left": sum(run.left for run in found),
        "delivered": sum(run.delivered for run in found),
        "checks_passed": sum(run.checks_passed for run in found),
        "checks": sum(run.checks for run in found),
        "hidden_passed": sum(run.hidden_passed for run in found),
        "hidden": sum(run.hidden for run in found),
        "outside_touch": sum(bool(run.outside_touch) for run in found),
        "attempts": sum(run.attempts for run in found),
        "stalled": sum(run.stalled for run in found),
        "minutes": _mean([None if run.seconds is None else run.seconds / 60 for run in found]),
        "tokens": _mean([run.tokens for run in found]),
        "cost_usd": _mean([run.cost_usd for run in found]),
        "files": _mean([run.files for run in found]),
        "insertions": _mean([run.insertions for run in found]),
        "deletions": _mean([run.deletions for run in found]),
    }


def _mean(values: Sequence[float | None]) -> float | None:
    """Over the runs that know it."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
