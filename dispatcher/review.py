"""Judgements that need no person at the keyboard: by the checks (`auto_accept`), and by a second model.

A review by a model is a task of its own, a report about another task's commit: so holds, budgets, the supervisor and
the log are those of any work, a rate limited reviewer is asked later, and its tools that write are withheld. When it
rests, its text is stored as findings of the task that it is about.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from dispatcher.store import queue, reviews
from dispatcher.task import Attempt, Checks, Status, Task, Verdict

if TYPE_CHECKING:
    from dispatcher.store import Store

FLAG = "review of "
PRIORITY = 1_000  # somebody waits for it
LONGEST_DIFF = 150_000  # characters; the copy of the reviewer holds the rest

_FRONT = re.compile(r"\A---[ \t]*\r?\n(.*?)^(?:---|\.\.\.)[ \t]*\r?$", re.DOTALL | re.MULTILINE)
_REJECTED = "An earlier attempt at this brief was rejected by the person who asked for it:"
_REJECTED_WORK = (
    "Work for this brief is in this folder already (`git log`), and the person who asked for it rejected it. Keep what "
    "is good in it and repair what they say:"
)

_BRIEF = """\
---
{front}---
# Review of task {number}: {title}

You review the work of another developer. The brief they had, and what they changed, follow. This folder holds the
repository with their change applied; read what you need to judge it. Change nothing.

Look for what is wrong: behaviour that the brief asks for and that is missing or broken, cases that fail, tests that
prove nothing, changes that the brief did not ask for. Do not praise, and do not report matters of taste.

Answer with one line for each finding, the gravest first, in the form `- [high|medium|low] path:line: what is wrong and
when it shows`. If you find nothing, say `No findings.` and what you looked at. End with one line `Advice: accept` or
`Advice: reject`.

## The brief they had

{body}

## What they changed

{stat}

```diff
{diff}
```
"""


def brief_text(task: Task, body: str, candidate: str, stat: str, diff: str) -> str:
    """The whole brief of a review, front matter included. `diff` is cut in its middle when it is too long."""
    front = {
        "repo": task.repository,
        "base": task.result_commit,
        "expect": "report",
        "tools": "read",
        "candidates": [candidate],
        "setup": [],
        "verify": [],
    }
    lines = "".join(f"{key}: {json.dumps(value)}\n" for key, value in front.items())
    title = " ".join(task.title.split())
    return _BRIEF.format(front=lines, number=task.id, title=title, body=body.strip(), stat=stat, diff=_cut(diff))


def follow_up_text(task: Task, note: str) -> str:
    """The brief of a rejected task again, with the reason, from the commit that was rejected (else from its base).

    Its front matter is written anew as JSON, which is YAML too; what placed it in a chain is left out.
    """
    from dispatcher import brief, strict_yaml

    parts = _FRONT.match(task.brief_text)
    front = strict_yaml.to_plain(strict_yaml.parse(parts[1], file=f"task {task.id}")) if parts and parts[1] else {}
    assert isinstance(front, dict)
    kept = {key: value for key, value in front.items() if key not in ("title", "after", "after_accepted")}
    kept["title"] = f"Follow-up of task {task.id}: {task.title}"
    if task.result_commit is not None:
        kept["base"] = task.result_commit
    head = "".join(f"{key}: {json.dumps(value)}\n" for key, value in kept.items())
    body = brief.parse(task.brief_text, file=f"task {task.id}").body.strip()
    there = _REJECTED_WORK if task.result_commit is not None else _REJECTED
    return f"---\n{head}---\n{body}\n\n## Why this was rejected\n\n{there}\n\n{note.strip()}\n"


def _cut(diff: str) -> str:
    diff = diff.replace("```", "` ` `")
    if len(diff) <= LONGEST_DIFF:
        return diff
    half = LONGEST_DIFF // 2
    return f"{diff[:half]}\n[... {len(diff) - LONGEST_DIFF} characters left out: read the files ...]\n{diff[-half:]}"


def about(task: Task) -> int | None:
    """The task that this one is a review of, None for ordinary work."""
    found = next((flag for flag in task.flags if flag.startswith(FLAG)), None)
    return None if found is None else int(found.removeprefix(FLAG))


def needs_nobody(task: Task, rule: str | None, judged: Verdict, checks: Checks | None) -> bool:
    """Whether finished work is accepted at once: a review is, and what `auto_accept: checks` says and checks prove.

    Proved means that every check passed; one that was red before the work too, or any doubt, is left to a person.
    """
    if about(task) is not None:
        return True
    proved = checks is not None and checks.passed and checks.results and all(r.passed for r in checks.results)
    return rule == "checks" and bool(proved) and not judged.flags


def log(store: Store, task: Task, attempt: Attempt, now: float) -> None:
    """Store the judgement that came with the end of a task, if there is one."""
    if task.status is not Status.ACCEPTED:
        return
    number = about(task)
    if number is None:
        reviews.write(store, task, now, "accepted", kind="checks", by=queue.BY, text="every check passed")
        return
    found = queue.get(store, number)
    data = {"task": task.id, "attempt": attempt.number, "model": attempt.observed_model or attempt.model}
    cost = {"cost_usd": attempt.usage.cost_usd, "tokens_in": attempt.usage.input, "tokens_out": attempt.usage.output}
    text = (task.final_text or "").strip()
    reviews.write(store, found, now, "advice", kind="model", by=attempt.candidate, text=text, data={**data, **cost})
