"""The schema: every table, column and index, described in words. Imported for migrations and analytical reads only.

The hot path speaks SQL and never imports this file; `schema.py` holds the same schema as plain text for a new database,
and a test proves that this file, that text and the migrations are one and the same.

Times are UTC epoch seconds. "JSON" columns hold one JSON value written in ASCII. Unknown is NULL, never 0. Columns are
stable: a later version may add some, none changes its meaning. Names avoid the reserved words of SQLite and PostgreSQL
(`actor` for "by whom", `window_name`, `next_step`).
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Float, Index, Text, UniqueConstraint, text
from sqlmodel import Field, SQLModel


def _text(description: str, **more: Any) -> Any:
    return Field(sa_type=Text, description=description, **more)


def _number(description: str, **more: Any) -> Any:
    return Field(description=description, **more)


def _real(description: str, **more: Any) -> Any:
    return Field(sa_type=Float, description=description, **more)


def _id() -> Any:
    return Field(default=None, primary_key=True, description="counts up and is never used twice")


_AUTOINCREMENT = {"sqlite_autoincrement": True}


class Meta(SQLModel, table=True):
    """Facts about the home itself, such as the time of the last tick. The schema version is PRAGMA user_version."""

    __tablename__ = "meta"
    key: str = _text("name of the fact", primary_key=True)
    value: str = _text("its value")


class Batch(SQLModel, table=True):
    """Tasks that were added together."""

    __tablename__ = "batch"
    name: str = _text("chosen by the person, or the time of the add", primary_key=True)
    created_at: float = _real("when its first task was added")
    ended_at: float | None = _real("when nothing of it was left to run")
    data: str | None = _text("JSON: the summary at its end")


class Task(SQLModel, table=True):
    """A brief in the queue."""

    __tablename__ = "task"
    __table_args__ = (
        Index("task_status", "status", "id"),
        Index(
            "task_ready",
            text("priority DESC"),
            "id",
            "status",
            "not_before",
            sqlite_where=text("status IN ('queued', 'waiting')"),
        ),
        Index("task_digest", "brief_digest"),
        Index("task_path", "brief_path"),
        Index("task_batch", "batch"),
        Index("task_created", "created_at"),
        Index("task_repository", "repository"),
        _AUTOINCREMENT,
    )
    id: int | None = _id()
    title: str = _text("title of the front matter, else first heading, else first words")
    brief_text: str = _text("the whole brief, front matter included")
    brief_path: str | None = _text("absolute path of the file; NULL when it came from stdin")
    brief_digest: str = _text("sha256 of repository path + brief text")
    repository: str | None = _text("absolute path of the target repository; NULL: a task without one")
    difficulty: str = _text("trivial, easy, medium, hard")
    difficulty_reason: str = _text("what decided the difficulty")
    expect: str = _text("what proves it done: commit, changes, report")
    priority: int = _number("higher runs first")
    status: str = _text(
        "queued, running, waiting, awaiting_approval, needs_review, needs_human, paused, accepted, rejected, "
        "cancelled, expired, failed"
    )
    status_reason: str = _text("why it stands there, in words")
    created_at: float = _real("when it was added")
    updated_at: float = _real("when this row last changed")
    not_before: float | None = _real("it is not claimed before; for `waiting`: when it is tried again")
    batch: str | None = _text("the batch it belongs to", foreign_key="batch.name")
    source: str = _text("where it was added from: terminal, cron, batch, import")
    owner: str | None = _text("the runner that claimed it; alive while that runner's lock is held")
    claimed_at: float | None = _real("when it was last claimed")
    copy_path: str | None = _text("absolute path of the task copy")
    task_base: str | None = _text("JSON: commit and dirty files before the first attempt")
    branch: str | None = _text("branch of the target repository that holds the result")
    result_commit: str | None = _text("the delivered commit")
    final_text: str | None = _text("the worker's last message; for `report` the result")
    flags: str = _text("JSON: list of marks such as unconfirmed")
    next_step: str = _text(
        "JSON: prompt, candidate, session_id, avoid, note of the next attempt; settle: attempt to settle first"
    )
    counters: str = _text(
        "JSON: attempts, finish_attempts, starts, backoffs per candidate, escalations, idle_successes, check_failures, "
        "lost in a row"
    )
    notes: str = _text("what people wrote about it, newest last")


class TaskCount(SQLModel, table=True):
    """How many tasks stand in each status; kept by triggers, so that `status` costs the same with a million tasks."""

    __tablename__ = "task_count"
    status: str = _text("a status", primary_key=True)
    number: int = _number("tasks in it")


class Rollup(SQLModel, table=True):
    """Sums over ended attempts by month, kept by triggers, so that a report costs the same with a million attempts."""

    __tablename__ = "rollup"
    __table_args__ = ({"sqlite_with_rowid": False},)  # grouping walks the key
    candidate: str = _text("entry of models.yaml", primary_key=True)
    harness: str = _text("the CLI", primary_key=True)
    model: str = _text("the pinned model id", primary_key=True)
    credential: str = _text("whose quota or money was spent", primary_key=True)
    billing: str = _text("free, subscription, credit, metered", primary_key=True)
    difficulty: str = _text("of the task as it stands", primary_key=True)
    outcome: str = _text("how the attempts ended", primary_key=True)
    month: str = _text("UTC month of the start, YYYY-MM", primary_key=True)
    attempts: int = _number("attempts that ended")
    tasks: int = _number("of these, the first of their task on this candidate")
    counted: int = _number("of these, counted against the candidate")
    delivered: int = _number("tasks that this candidate brought to review")
    saved: int = _number("of these, by a finish, continue or confirm prompt")
    false_done: int = _number("the worker said done, git or the checks said otherwise")
    nearly_lost: int = _number("failed, with work left behind that was kept")
    accepted: int = _number("tasks accepted whose result came from these")
    rejected: int = _number("tasks rejected whose result came from these")
    seconds: float = _real("worker time")
    cost_usd: float = _real("list price in US dollars, of those that have one")
    priced: int = _number("attempts whose list price is known")
    billed_usd: float = _real("US dollars that were billed, of those where it is known")
    billed: int = _number("attempts of which it is known what was billed")
    tokens_input: int = _number("input tokens")
    tokens_output: int = _number("output tokens")
    tokens_cache_read: int = _number("tokens read from the prompt cache")
    tokens_cache_write: int = _number("tokens written to the prompt cache")
    tokens_reasoning: int = _number("reasoning tokens")


class RollupPart(SQLModel, table=True):
    """Sums of ended attempts by something else than candidates, or of all time at once; kept by triggers."""

    __tablename__ = "rollup_part"
    __table_args__ = ({"sqlite_with_rowid": False},)  # grouping walks the key
    part: str = _text(
        "all: of all time; in: of the repository `name` by month; month, day, repository, batch, source: by that",
        primary_key=True,
    )
    name: str = _text("the day, repository, batch or source; empty: no name, or none is needed", primary_key=True)
    month: str = _text("UTC month of the start, YYYY-MM; empty for all", primary_key=True)
    candidate: str = _text("entry of models.yaml; empty but for all and in", primary_key=True)
    harness: str = _text("the CLI; empty but for all and in", primary_key=True)
    model: str = _text("the pinned model id; empty but for all and in", primary_key=True)
    credential: str = _text("whose quota or money was spent; empty but for all and in", primary_key=True)
    billing: str = _text("free, subscription, credit, metered; empty but for all and in", primary_key=True)
    difficulty: str = _text("of the task as it stands; empty but for all and in", primary_key=True)
    outcome: str = _text("how the attempts ended", primary_key=True)
    attempts: int = _number("attempts that ended")
    tasks: int = _number("of these, the first of their task on this candidate")
    counted: int = _number("of these, counted against the candidate")
    delivered: int = _number("tasks that this candidate brought to review")
    saved: int = _number("of these, by a finish, continue or confirm prompt")
    false_done: int = _number("the worker said done, git or the checks said otherwise")
    nearly_lost: int = _number("failed, with work left behind that was kept")
    accepted: int = _number("tasks accepted whose result came from these")
    rejected: int = _number("tasks rejected whose result came from these")
    seconds: float = _real("worker time")
    cost_usd: float = _real("list price in US dollars, of those that have one")
    priced: int = _number("attempts whose list price is known")
    billed_usd: float = _real("US dollars that were billed, of those where it is known")
    billed: int = _number("attempts of which it is known what was billed")
    tokens_input: int = _number("input tokens")
    tokens_output: int = _number("output tokens")
    tokens_cache_read: int = _number("tokens read from the prompt cache")
    tokens_cache_write: int = _number("tokens written to the prompt cache")
    tokens_reasoning: int = _number("reasoning tokens")


class TaskRollup(SQLModel, table=True):
    """How many tasks of a month stand in each status, by difficulty; kept by triggers."""

    __tablename__ = "task_rollup"
    month: str = _text("UTC month in which they were added, YYYY-MM", primary_key=True)
    difficulty: str = _text("trivial, easy, medium, hard", primary_key=True)
    status: str = _text("a status", primary_key=True)
    number: int = _number("tasks")


class Dependency(SQLModel, table=True):
    """A task that waits for another one."""

    __tablename__ = "dependency"
    __table_args__ = (Index("dependency_needs", "needs_task_id"),)
    task_id: int = _number("the task that waits", foreign_key="task.id", primary_key=True)
    needs_task_id: int = _number("the task it waits for", foreign_key="task.id", primary_key=True)
    kind: str = _text("after: until needs_review or accepted; after_accepted: until accepted")


class Attempt(SQLModel, table=True):
    """One worker process run for a task; the row is written before the process exists."""

    __tablename__ = "attempt"
    __table_args__ = (
        UniqueConstraint("task_id", "number", name="attempt_number"),
        Index("attempt_started", "started_at"),
        Index("attempt_verdict", "verdict", "started_at"),
        Index("attempt_harness", "harness", "started_at"),
        Index("attempt_outcome", "outcome", "started_at"),
        Index("attempt_candidate", "candidate", "started_at", "outcome"),
        Index("attempt_model", "model", "started_at"),
        Index(
            "attempt_spend",
            "credential",
            "started_at",
            "cost_usd",
            "tokens_input",
            "tokens_output",
            "tokens_cache_read",
            "tokens_cache_write",
            "tokens_reasoning",
            "seconds",
        ),
        Index("attempt_open", "task_id", sqlite_where=text("ended_at IS NULL")),
        _AUTOINCREMENT,
    )
    id: int | None = _id()
    task_id: int = _number("its task", foreign_key="task.id")
    number: int = _number("counts from 1 within the task")
    prompt: str = _text("first, finish, continue, confirm, approved")
    candidate: str = _text("entry of models.yaml")
    harness: str = _text("the CLI: opencode, claude")
    model: str = _text("the pinned model id that was requested")
    credential: str = _text("whose quota or money was spent")
    billing: str = _text("free, subscription, credit, metered")
    folder: str = _text("absolute path of the attempt folder: prompt, output, exit record")
    marker: str = _text("unique; in the environment of everything the attempt started")
    started_at: float = _real("when the row was written, just before the process")
    harness_version: str | None = _text("version of the CLI")
    session_id: str | None = _text("the CLI's session")
    ended_at: float | None = _real("when the process tree was dead; NULL while it runs")
    outcome: str | None = _text("how it ended: one of the outcome classes")
    outcome_reason: str = _text("the outcome in words")
    proof: str = _text("the field or line that shows it")
    verdict: str | None = _text("what was decided: check, review, finish, continue, confirm, redispatch, ...")
    verdict_reason: str = _text("why")
    counted: bool = _number("1: counts against its candidate")
    exit_code: int | None = _number("exit code of the worker")
    signal: int | None = _number("signal that ended the worker")
    timed_out: bool = _number("1: ended by the hard cap")
    end_reason: str | None = _text("why the supervisor ended it; exited when it ended by itself")
    survivors: int | None = _number("processes that were still alive after the sweep; must be 0")
    tokens_input: int | None = _number("input tokens as the CLI reports them")
    tokens_output: int | None = _number("output tokens")
    tokens_cache_read: int | None = _number("tokens read from the prompt cache")
    tokens_cache_write: int | None = _number("tokens written to the prompt cache")
    tokens_reasoning: int | None = _number("reasoning tokens")
    cost_usd: float | None = _real("list price in US dollars as the CLI computes it")
    observed_model: str | None = _text("the model that answered")
    model_evidence: str = _text("how that is known: confirmed, logged, unverified")
    detection: str | None = _text("what would have seen a quota signal live: plugin, log, stream")
    base_commit: str | None = _text("commit of the copy at its start")
    result_commit: str | None = _text("commit of the copy at its end")
    evidence: str | None = _text("JSON: what git says was left behind")
    snapshot_ref: str | None = _text("ref in the target repository that keeps the state of the copy")
    final_text: str = _text("the worker's last message")
    notes: str = _text("JSON: list of remarks")
    host: str = _text("machine it ran on")
    source: str = _text("terminal, cron, batch, import")
    seconds: float | None = _real("worker time; waiting for a person or a reset does not count")
    checks: str | None = _text("JSON: configured, outside_touch, error of the checks; NULL: not run")
    billed_usd: float | None = _real("what it was billed in US dollars; 0 by plan or free; NULL: unknown")
    pid: int | None = _number("process id of the worker; known once it has ended, and kept")
    pid_start: int | None = _number("when that process started, in clock ticks since the boot: tells reused ids apart")
    boot: str | None = _text("id of that boot of the machine")


class CheckResult(SQLModel, table=True):
    """One check command that we ran after an attempt."""

    __tablename__ = "check_result"
    attempt_id: int = _number("its attempt", foreign_key="attempt.id", primary_key=True)
    position: int = _number("order in which it ran, from 0", primary_key=True)
    command: str = _text("the command")
    hidden: bool = _number("1: the worker never sees its output")
    passed: bool = _number("1: exit code 0")
    exit_code: int | None = _number("exit code")
    seconds: float = _real("how long it ran")
    output: str = _text("head and tail of its output")
    red_before: bool = _number("1: it failed on the base commit too")


class Event(SQLModel, table=True):
    """What happened to a task, in order; never changed afterwards."""

    __tablename__ = "event"
    __table_args__ = (Index("event_task", "task_id", "id"), _AUTOINCREMENT)
    id: int | None = _id()
    task_id: int | None = _number("its task; NULL: about the home", foreign_key="task.id")
    attempt_id: int | None = _number("its attempt, if it is about one", foreign_key="attempt.id")
    at: float = _real("when")
    kind: str = _text("added, edited, claimed, adopted, status, attempt_started, attempt_ended, note, ...")
    text: str = _text("one sentence for people")
    actor: str = _text("dispatcher, or the account of the person")
    data: str | None = _text("JSON: details")


class Hold(SQLModel, table=True):
    """A candidate, model, provider or credential that may not be used for a while."""

    __tablename__ = "hold"
    __table_args__ = (
        Index("hold_active", "scope", "key", sqlite_where=text("lifted_at IS NULL")),
        Index("hold_key", "scope", "key", "created_at"),
        _AUTOINCREMENT,
    )
    id: int | None = _id()
    scope: str = _text("candidate, model, credential, provider")
    key: str = _text("which one")
    until: float | None = _real("when it ends by itself; NULL: a person lifts it")
    reason: str = _text("why")
    created_at: float = _real("when it was made")
    actor: str = _text("dispatcher, or the account of the person")
    window_name: str | None = _text("quota window as the provider names it: five_hour, day, month, ...")
    attempt_id: int | None = _number("the attempt that met the limit", foreign_key="attempt.id")
    lifted_at: float | None = _real("when it was lifted before its time")
    lifted_by: str | None = _text("who lifted it")


class Review(SQLModel, table=True):
    """A judgement of a finished task."""

    __tablename__ = "review"
    __table_args__ = (Index("review_task", "task_id", "id"), _AUTOINCREMENT)
    id: int | None = _id()
    task_id: int = _number("its task", foreign_key="task.id")
    attempt_id: int | None = _number("the attempt whose result was judged", foreign_key="attempt.id")
    at: float = _real("when")
    decision: str = _text("pending, accepted, rejected, advice")
    kind: str = _text("person, model, checks")
    actor: str = _text("account of the person, or the candidate that reviewed")
    text: str = _text("the judgement in words")
    result_commit: str | None = _text("the commit that was judged")
    data: str | None = _text("JSON: details, such as scores")


class Approval(SQLModel, table=True):
    """A sensitive tool call that waited for a person."""

    __tablename__ = "approval"
    __table_args__ = (
        Index("approval_pending", "asked_at", sqlite_where=text("status = 'pending'")),
        Index("approval_task", "task_id", "id"),
        Index("approval_digest", "digest"),
        _AUTOINCREMENT,
    )
    id: int | None = _id()
    task_id: int = _number("its task", foreign_key="task.id")
    attempt_id: int = _number("the attempt that asked", foreign_key="attempt.id")
    asked_at: float = _real("when the call was held")
    harness: str = _text("the CLI")
    session_id: str | None = _text("the CLI's session, to resume it")
    call_id: str | None = _text("the CLI's id of the call")
    tool: str = _text("name of the tool")
    input: str = _text("JSON: the whole input of the call")
    folder: str = _text("folder the call would run in")
    digest: str = _text("sha256 of tool + input + folder: what an answer is bound to")
    rule: str = _text("the policy rule that asked")
    status: str = _text("pending, approved, denied, expired, consumed, withdrawn")
    answered_at: float | None = _real("when it was answered")
    answered_by: str | None = _text("account of the person")
    answered_from: str | None = _text("terminal or host of the answer")
    answer_reason: str | None = _text("the person's words; a denial hands them to the model")
    remember: str | None = _text("how far the answer reaches: once, task, repository")
    expires_at: float | None = _real("denied by itself then; NULL: never")
    consumed_at: float | None = _real("when the approved call was let through, once")
    transcript: str | None = _text("path of the saved session, in case the CLI deletes its own")


class ApprovalGrant(SQLModel, table=True):
    """A standing answer: calls that need no new question."""

    __tablename__ = "approval_grant"
    __table_args__ = (
        Index("grant_active", "scope", "scope_key", sqlite_where=text("revoked_at IS NULL")),
        _AUTOINCREMENT,
    )
    id: int | None = _id()
    approval_id: int | None = _number("the approval it came from", foreign_key="approval.id")
    scope: str = _text("once, task, repository")
    scope_key: str = _text("task id or absolute repository path")
    tool: str = _text("name of the tool")
    digest: str = _text("sha256 of tool + input + folder that it lets through")
    created_at: float = _real("when")
    actor: str = _text("account of the person")
    used_at: float | None = _real("when a `once` grant was used up")
    revoked_at: float | None = _real("when it was taken back")
    revoked_by: str | None = _text("who took it back")
