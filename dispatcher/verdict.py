"""Outcome, evidence, checks, counters -> what happens next, with the reason in words. Pure and total.

The columns are `Shape`, read against the task's base; the rows are the groups of outcome classes below. Git has the
last word: no exit code and no sentence of a model makes a task done.

Who counts what: `starts` was raised when the attempt was begun and is only read here. `attempts` counts redispatches,
`finish_attempts` counts finish, continue and confirm prompts that ran to an end of their own. Quota events, short
troubles, holds that need a person, `lost` and `stopped` move neither of the two; `starts` caps everything together.
Checks that have not run, or could not, move nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from dispatcher.task import (
    Action,
    CheckResult,
    Checks,
    Counters,
    Difficulty,
    Evidence,
    Expect,
    Limits,
    NextStep,
    Outcome,
    PromptKind,
    Shape,
    Verdict,
)
from dispatcher.task import OutcomeClass as Kind
from dispatcher.words import of, plural

ENDED_EARLY = frozenset(
    {
        Kind.STALLED,
        Kind.TIMED_OUT,
        Kind.RUN_LIMIT,
        Kind.KILLED,
        Kind.UNKNOWN,
        Kind.INTERNAL,
        Kind.INVALID_TOOL_ARGS,
        Kind.EMPTY_OUTPUT,
        Kind.LOST,
    }
)
QUOTA = frozenset({Kind.RATE_LIMITED, Kind.QUOTA_EXHAUSTED})
SHORT = frozenset({Kind.OVERLOADED, Kind.NETWORK, Kind.HARNESS_LOCKED})
FRESH = frozenset({Kind.CONTEXT_OVERFLOW, Kind.RUNAWAY})
BLOCKED = frozenset({Kind.AUTH, Kind.BILLING, Kind.MODEL_NOT_FOUND, Kind.BILLING_MISMATCH, Kind.MODEL_MISMATCH})
PERSON = frozenset({Kind.PERMISSION_DENIED, Kind.HARNESS_MISSING, Kind.GIT_SIGNING, Kind.BRIEF_TOO_LARGE})

INTERRUPTED = frozenset({Kind.LOST, Kind.STOPPED})  # it was at work, and did not come to an end of its own
UNCOUNTED = QUOTA | SHORT | BLOCKED | INTERRUPTED  # nobody's failure, or not the work's
NOT_ITS_FAULT = UNCOUNTED | {Kind.CONTEXT_OVERFLOW, Kind.RUN_LIMIT}  # moves the task's counter, not the candidate's
QUALITY = frozenset(
    {Kind.COMPLETED, Kind.TIMED_OUT, Kind.RUN_LIMIT, Kind.INVALID_TOOL_ARGS, Kind.RUNAWAY}
)  # may escalate
FINISHING = frozenset({PromptKind.FINISH, PromptKind.CONTINUE, PromptKind.CONFIRM})

_ACTION: Mapping[PromptKind, Action] = {
    PromptKind.FIRST: Action.REDISPATCH,
    PromptKind.APPROVED: Action.REDISPATCH,
    PromptKind.FINISH: Action.FINISH,
    PromptKind.CONTINUE: Action.CONTINUE,
    PromptKind.CONFIRM: Action.CONFIRM,
}
_BACKOFF = 15.0  # seconds; doubled with each one
_LOCKED_BACKOFF = 3.0  # another process of the CLI holds its store for moments
_RETRY_DELAY = 2.0
LOST_DELAYS = (0.0, 2.0, 4.0, 8.0, 16.0, 32.0)  # seconds before the next start, by lost attempts in a row
_NOTE = 8_000  # characters of a note for the next prompt


@dataclass(frozen=True)
class Situation:
    """Everything that is known of an ended attempt. `checks` is None until they have run."""

    outcome: Outcome
    evidence: Evidence
    counters: Counters
    limits: Limits
    expect: Expect
    prompt: PromptKind
    candidate: str
    session_id: str | None = None
    checks: Checks | None = None
    has_checks: bool = False
    difficulty: Difficulty = Difficulty.MEDIUM
    avoid: tuple[str, ...] = ()
    candidate_held: bool = False
    note: str = ""  # of the step that led to this attempt: repeated when the attempt did not really happen
    can_escalate: bool = True  # a harder route exists that may be used

    @property
    def column(self) -> Shape:
        """The shape as the brief sees it: where changes are the result, nothing needs a commit."""
        shape = self.evidence.shape
        return Shape.COMMITS if self.expect is Expect.CHANGES and shape is not Shape.NOTHING else shape

    @property
    def positive(self) -> bool:
        """A positive result event. A denial inside a completed run is a note when work came of it."""
        if self.outcome.kind is Kind.PERMISSION_DENIED:
            return self.outcome.positive and self.evidence.shape is not Shape.NOTHING
        return self.outcome.kind is Kind.COMPLETED


def judge(s: Situation) -> Verdict:
    """The verdict. Every combination has one; asking for the checks moves no counter."""
    decided = _decide(replace(s, counters=_counters_after(s)))
    unchecked = decided.action is Action.CHECK or (s.checks is not None and s.checks.error is not None)
    counters = s.counters if unchecked else decided.counters
    flags = tuple(dict.fromkeys((*decided.flags, *_flags(s.evidence))))
    delay = decided.delay
    if s.outcome.kind is Kind.LOST and decided.next is not None:
        delay = max(delay, lost_delay(s.counters.lost))
    return replace(decided, counters=counters, flags=flags, delay=delay)


def lost_delay(before: int) -> float:
    """Seconds to wait after a lost attempt: the first is made good at once, whoever is lost again waits longer.

    `before` counts the lost attempts right before this one. What loses workers (no memory, a power that flickers)
    seldom passes within a second, and `starts` would be used up by then.
    """
    return LOST_DELAYS[min(before, len(LOST_DELAYS) - 1)]


def _counters_after(s: Situation) -> Counters:
    """A finish, continue or confirm prompt counts when it ran to an end of its own."""
    counters = replace(s.counters, lost=s.counters.lost + 1 if s.outcome.kind is Kind.LOST else 0)
    free = UNCOUNTED | {Kind.CANCELLED, Kind.AWAITING_APPROVAL}
    if s.prompt not in FINISHING or s.outcome.kind in free or s.outcome.session_gone:
        return counters
    return replace(counters, finish_attempts=counters.finish_attempts + 1)


def _decide(s: Situation) -> Verdict:
    kind = s.outcome.kind
    if kind is Kind.CANCELLED:
        return _rest(s, Action.CANCEL, f"cancelled; {_work(s.evidence)}")
    if kind is Kind.AWAITING_APPROVAL:
        step = NextStep(PromptKind.APPROVED, s.candidate, s.session_id, s.avoid, s.note)
        return Verdict(Action.AWAIT_APPROVAL, s.outcome.reason or "a call waits for a person", step, s.counters)
    if s.outcome.session_gone:
        step = NextStep(s.prompt, s.candidate, None, s.avoid, s.note)
        return _start(s, step, "the session to resume is gone: the same prompt in a fresh one, as the same attempt")
    broken = _broken_evidence(s)
    if broken is not None:
        return _rest(s, Action.NEEDS_HUMAN, broken)
    if kind in PERSON and not s.positive:
        reason = _because(s, f"no other candidate would fare better; {_work(s.evidence)}")
        return _rest(s, Action.NEEDS_HUMAN, reason)
    if s.expect is Expect.REPORT:
        return _report(s)
    if s.evidence.hook_output is not None and s.evidence.dirty and s.expect is Expect.COMMIT:
        return _hook_refused(s, s.evidence.hook_output)
    if s.outcome.kind is Kind.STOPPED and s.evidence.shape is not Shape.NOTHING:
        return _stopped(s)
    match s.column:
        case Shape.NOTHING:
            return _nothing(s)
        case Shape.COMMITS:
            return _committed(s)
        case _:
            return _unfinished(s)


def _broken_evidence(s: Situation) -> str | None:
    """Git's side cannot be trusted or is not where it should be: never run again, never "no changes"."""
    evidence = s.evidence
    if evidence.error is not None:
        return _clean(evidence.error, 500) if evidence.gone else f"git_error: {_clean(evidence.error, 500)}"
    if evidence.rewritten:
        return f"the history was rewritten: HEAD no longer descends from the base; {_work(evidence)}"
    if evidence.elsewhere and evidence.shape is Shape.NOTHING:
        return f"the worker committed outside of its task copy: {_listed(evidence.elsewhere)}"
    return None


# --- report briefs ------------------------------------------------------------------------------------------------


def _report(s: Situation) -> Verdict:
    """The text is the result and the copy stays as it was."""
    if s.evidence.shape is not Shape.NOTHING:
        return _rest(s, Action.NEEDS_HUMAN, f"a report must change nothing, but {_work(s.evidence)}")
    if s.positive and s.outcome.final_text.strip():
        return _rest(s, Action.REVIEW, "the report is written and nothing was changed")
    return _nothing(s)


# --- nothing in git -----------------------------------------------------------------------------------------------


def _nothing(s: Situation) -> Verdict:
    kind = s.outcome.kind
    if kind is Kind.COMPLETED and s.outcome.denials:
        denied = _listed(s.outcome.denials)
        return _rest(s, Action.NEEDS_HUMAN, f"permission_denied: nothing was done, and these were refused: {denied}")
    if _never_began(s) and s.limits.backoffs > 0 and s.counters.backoffs.get(s.candidate, 0) == 0:
        again = _count_backoff(s)
        reason = _because(s, "the work was not even begun; one more try on the same candidate")
        return _redispatch(again, reason, same=True, delay=_RETRY_DELAY)
    if kind is Kind.COMPLETED:
        return _idle_success(s)
    if kind in SHORT:
        return _short(s, s.prompt if s.prompt is PromptKind.APPROVED else PromptKind.FIRST)
    if kind in QUOTA:
        return _redispatch(s, _because(s, "a quota event: held, the next candidate gets the brief"))
    if kind in INTERRUPTED:
        return _redispatch(s, _because(s, "nobody's failure and nothing is in git, so the brief starts again"))
    return _redispatch(s, _because(s, "nothing is in git; the next candidate gets the brief"))


def _never_began(s: Situation) -> bool:
    """Chance rather than the model: an error of the CLI itself, silence from the start, a success of zero turns, or an
    answer without a single tool call that is no more than a question. Seen when a CLI starts without its prompt."""
    outcome = s.outcome
    if outcome.kind in (Kind.EMPTY_OUTPUT, Kind.INTERNAL) or outcome.never_started:
        return True
    said = outcome.final_text.strip()
    return outcome.kind is Kind.COMPLETED and outcome.tool_calls == 0 and (not said or said.endswith("?"))


def _idle_success(s: Situation) -> Verdict:
    words = "said done, said nothing" if s.expect is Expect.REPORT else "said done, changed nothing"
    if s.evidence.ignored:
        words += f" but files that git ignores ({_listed(s.evidence.ignored)})"
    counted = replace(s, counters=replace(s.counters, idle_successes=s.counters.idle_successes + 1))
    if s.counters.idle_successes >= 1:
        return _rest(counted, Action.NEEDS_HUMAN, f"{words}, twice; last by {s.candidate}", counted=True)
    note = f"An earlier worker {words}. Look for yourself before you say that there is nothing to do."
    return _redispatch(counted, f"{words}: one more try on the next candidate", note=note, may_escalate=False)


# --- commits, clean -----------------------------------------------------------------------------------------------


def _committed(s: Situation) -> Verdict:
    """Complete only with a positive result event; otherwise checks that pass, or a confirm prompt, must say so."""
    if s.checks is None and s.has_checks:
        return Verdict(Action.CHECK, f"{_work(s.evidence)}: the checks decide", None, s.counters)
    checked = s.checks if s.checks is not None and s.checks.configured else None
    if s.checks is not None and s.checks.error is not None:
        return _rest(s, Action.NEEDS_HUMAN, f"the checks could not be run: {_clean(s.checks.error, 500)}")
    if s.checks is not None and s.checks.outside_touch:
        paths = _listed(s.checks.outside_touch)
        reason = f"changed paths that `touch` does not allow: {paths}"
        return _rest(s, Action.NEEDS_HUMAN, reason, flags=("outside_touch",))
    if checked is not None and not checked.passed:
        return _checks_failed(s, checked)
    if s.positive:
        return _done(s, checked, "complete")
    if checked is not None and checked.results:
        return _done(s, checked, f"{s.outcome.kind.value}, but the work is committed")
    return _confirm(s)


def _done(s: Situation, checked: Checks | None, words: str) -> Verdict:
    if checked is None or not checked.results:
        return _rest(s, Action.REVIEW, f"{words}: {_work(s.evidence)}; there are no checks")
    red = sum(1 for result in checked.results if not result.passed)
    passed = f"{of(len(checked.results) - red, len(checked.results), 'check')} passed"
    before = f", {red} failed before the work too" if red else ""
    flags = ("red_before",) if red else ()
    return _rest(s, Action.REVIEW, f"{words}: {_work(s.evidence)}; {passed}{before}", flags=flags)


def _confirm(s: Situation) -> Verdict:
    if _finish_cap(s):
        reason = f"{_work(s.evidence)}, but no run confirmed that it is all: {_tally(s)}"
        return _rest(s, Action.REVIEW, reason, flags=("unconfirmed",))
    reason = _because(s, f"{_work(s.evidence)}, but nothing proves that this is all")
    return _carry_on(s, PromptKind.CONFIRM, reason)


def _checks_failed(s: Situation, checked: Checks) -> Verdict:
    """One bounded chance with the output, one escalation, then a person."""
    names = ", ".join(_check_name(r) for r in checked.results if not (r.passed or r.red_before))
    reason = f"{_work(s.evidence)}, but {_clean(names, 300)} failed"
    note = _check_note(checked)
    if not s.positive:  # it did not claim to be done: the confirm prompt is its chance
        return _carry_on(s, PromptKind.CONFIRM, _because(s, reason), note=note)
    failures = s.counters.check_failures + 1
    counted = replace(s, counters=replace(s.counters, check_failures=failures))
    if failures == 1:
        return _carry_on(counted, PromptKind.CONTINUE, f"{reason}: one chance with the output", note=note)
    if failures == 2 and _may_escalate(s) and not _finish_cap(s):
        step = NextStep(PromptKind.CONTINUE, None, None, _with(s.avoid, s.candidate), note)
        return _start(counted, step, f"{reason} again: escalated to {s.difficulty.harder.value}", escalate=True)
    return _rest(counted, Action.NEEDS_HUMAN, f"{reason}; {_tally(s)}", counted=True)


def _check_note(checked: Checks) -> str:
    """What the next prompt may know. Of a hidden check only that it failed: neither its command nor its output."""
    parts: list[str] = []
    for result in checked.results:
        if result.passed or result.red_before:
            continue
        if result.hidden:
            parts.append("A hidden check failed.")
        else:
            parts.append(
                f"The check `{result.command}` failed (exit code {result.exit_code}):\n{result.output.strip()}"
            )
    return _cut("\n\n".join(dict.fromkeys(parts)), _NOTE)


def _check_name(result: CheckResult) -> str:
    return "a hidden check" if result.hidden else f"`{result.command}`"


# --- something is there that is not committed ---------------------------------------------------------------------


def _unfinished(s: Situation) -> Verdict:
    reason = f"said done, but {_work(s.evidence)}" if s.positive else _because(s, _work(s.evidence))
    return _carry_on(s, _unfinished_prompt(s), reason)


def _stopped(s: Situation) -> Verdict:
    """Stopped in the middle, so part of the work is missing, whatever is committed: also checks that pass do not say
    that it is all."""
    kind = _unfinished_prompt(s) if s.evidence.dirty else PromptKind.CONFIRM
    return _carry_on(s, kind, _because(s, _work(s.evidence)))


def _unfinished_prompt(s: Situation) -> PromptKind:
    """Cut off in the middle with no commit: part of the work is missing. Otherwise it only wants finishing."""
    if s.outcome.kind is Kind.STOPPED:
        return PromptKind.CONTINUE
    cut_off = s.outcome.kind in QUOTA | FRESH | BLOCKED and s.column is Shape.DIRTY
    return PromptKind.CONTINUE if cut_off else PromptKind.FINISH


def _hook_refused(s: Situation, output: str) -> Verdict:
    """A commit hook has a say in what is committed: its words go to the worker, never around it."""
    words = _clean(output, 300)
    note = (
        "A commit hook of this repository refused the commit. Repair what it complains about; never skip it. "
        f"It said:\n{_cut(output.strip(), _NOTE - 400)}"
    )
    reason = f"{_work(s.evidence)}; a commit hook refused: {words}"
    return _carry_on(s, _unfinished_prompt(s), reason, note=note)


# --- how the next attempt starts ----------------------------------------------------------------------------------


def _carry_on(s: Situation, kind: PromptKind, reason: str, *, note: str | None = None) -> Verdict:
    """Go on from work that is there: same candidate and session, unless the row says otherwise."""
    if note is None:
        note = s.note if s.outcome.kind in UNCOUNTED else ""
    if s.outcome.kind in SHORT:
        return _short(s, kind, reason=reason, note=note)
    if _finish_cap(s):
        return _rest(s, Action.NEEDS_HUMAN, f"{reason}; {_tally(s)}", counted=_counts_against(s))
    return _start(s, _next_step(s, kind, note), reason)


def _next_step(s: Situation, kind: PromptKind, note: str) -> NextStep:
    outcome = s.outcome.kind
    if outcome in QUOTA:
        return NextStep(kind, None, None, _avoid_unheld(s), note)
    if outcome in BLOCKED or (outcome in FRESH and s.column is Shape.DIRTY):
        return NextStep(kind, None, None, _with(s.avoid, s.candidate), note)
    if s.candidate_held:
        return NextStep(kind, None, None, s.avoid, note)
    session = None if outcome in FRESH else s.session_id
    return NextStep(kind, s.candidate, session, _without(s.avoid, s.candidate), note)


def _redispatch(
    s: Situation,
    reason: str,
    *,
    same: bool = False,
    note: str | None = None,
    delay: float = 0.0,
    may_escalate: bool = True,
) -> Verdict:
    """The first prompt again. A counted one is bounded by `attempts`."""
    kind = s.outcome.kind
    counts = kind not in UNCOUNTED
    if note is None:
        note = "" if counts else s.note
    if counts and s.counters.attempts >= s.limits.attempts:
        return _rest(s, Action.NEEDS_HUMAN, f"{reason}; {_tally(s)}", counted=_counts_against(s))
    # A first disappointment may be chance. The second one asks for a stronger model, once.
    escalate = may_escalate and not same and kind in QUALITY and s.counters.attempts >= 1 and _may_escalate(s)
    if escalate:
        reason += f"; escalated to {s.difficulty.harder.value}"
    if same:
        avoid, candidate = _without(s.avoid, s.candidate), s.candidate
    elif kind in QUOTA:
        avoid, candidate = _avoid_unheld(s), None
    else:
        avoid, candidate = (s.avoid if kind in INTERRUPTED else _with(s.avoid, s.candidate)), None
    counters = replace(s.counters, attempts=s.counters.attempts + 1) if counts else s.counters
    step = NextStep(PromptKind.FIRST, candidate, None, avoid, note)
    return _start(replace(s, counters=counters), step, reason, delay=delay, escalate=escalate)


def _short(s: Situation, kind: PromptKind, *, reason: str = "", note: str | None = None) -> Verdict:
    """Overloaded, network, locked: the same candidate after a pause, a few times, then the next one."""
    note = s.note if note is None else note
    used = s.counters.backoffs.get(s.candidate, 0)
    words = _because(s, reason or "nothing is in git")
    if kind in FINISHING and _finish_cap(s):
        return _rest(s, Action.NEEDS_HUMAN, f"{words}; {_tally(s)}")
    if used >= s.limits.backoffs:
        step = NextStep(_elsewhere(kind), None, None, _with(s.avoid, s.candidate), note)
        return _start(s, step, f"{words}; {s.candidate} was given {used} pauses: the next candidate")
    base = _LOCKED_BACKOFF if s.outcome.kind is Kind.HARNESS_LOCKED else _BACKOFF
    delay = base * 2.0 ** min(used, 6)
    if s.candidate_held:
        step = NextStep(_elsewhere(kind), None, None, s.avoid, note)
    else:
        session = None if kind is PromptKind.FIRST else s.session_id
        step = NextStep(kind, s.candidate, session, _without(s.avoid, s.candidate), note)
    pause = f"again after {delay:.0f} s (pause {used + 1} of {s.limits.backoffs})"
    return _start(_count_backoff(s), step, f"{words}; {pause}", delay=delay)


def _start(s: Situation, step: NextStep, reason: str, *, delay: float = 0.0, escalate: bool = False) -> Verdict:
    """The one place where another attempt is allowed: the cap on starts stands above every row."""
    if s.counters.starts >= s.limits.starts:
        return _rest(s, Action.NEEDS_HUMAN, f"{reason}; {_tally(s)}", counted=_counts_against(s))
    counters = s.counters
    if escalate:
        counters = replace(counters, escalations=counters.escalations + 1)
    return Verdict(_ACTION[step.prompt], reason, step, counters, _counts_against(s), delay, escalate)


def _rest(s: Situation, action: Action, reason: str, *, counted: bool = False, flags: tuple[str, ...] = ()) -> Verdict:
    return Verdict(action, reason, None, s.counters, counted, flags=flags)


# --- small words --------------------------------------------------------------------------------------------------


def _finish_cap(s: Situation) -> bool:
    return s.counters.finish_attempts >= s.limits.finish_attempts


def _may_escalate(s: Situation) -> bool:
    return s.can_escalate and s.counters.escalations == 0 and s.difficulty.harder is not s.difficulty


def _counts_against(s: Situation) -> bool:
    """Whether the candidate did badly: not by quota or network, and not when it merely forgot the commit."""
    if s.outcome.kind in NOT_ITS_FAULT or s.outcome.never_started or s.outcome.session_gone:
        return False
    failed_checks = s.checks is not None and not s.checks.passed
    return not s.positive or s.evidence.shape is Shape.NOTHING or failed_checks


def _count_backoff(s: Situation) -> Situation:
    used = {**s.counters.backoffs, s.candidate: s.counters.backoffs.get(s.candidate, 0) + 1}
    return replace(s, counters=replace(s.counters, backoffs=used))


def _elsewhere(kind: PromptKind) -> PromptKind:
    """Another candidate has no parked call to go on at: it gets the brief."""
    return PromptKind.FIRST if kind is PromptKind.APPROVED else kind


def _avoid_unheld(s: Situation) -> tuple[str, ...]:
    """A hold keeps the candidate out by itself, until its reset; without one the walk must remember it."""
    return s.avoid if s.outcome.hold is not None else _with(s.avoid, s.candidate)


def _with(names: tuple[str, ...], name: str) -> tuple[str, ...]:
    return (*_without(names, name), name)


def _without(names: tuple[str, ...], name: str) -> tuple[str, ...]:
    return tuple(other for other in names if other != name)


def _flags(evidence: Evidence) -> tuple[str, ...]:
    """What does not change a verdict but must be seen."""
    seen = {
        "commits_elsewhere": evidence.elsewhere,
        "detached": evidence.detached,
        "nested_repository": evidence.nested,
        "stale_lock": evidence.stale_lock,
    }
    return tuple(name for name, value in seen.items() if value)


def _because(s: Situation, words: str) -> str:
    reason = _clean(s.outcome.reason, 200)
    return f"{s.outcome.kind.value}{f' ({reason})' if reason else ''}: {words}"


def _work(evidence: Evidence) -> str:
    """The work that is there, by name."""
    parts: list[str] = []
    if evidence.commits:
        named = _listed([f"{commit.sha[:10]} {commit.subject}" for commit in evidence.commits])
        parts.append(f"{plural(len(evidence.commits), 'commit')} ({named})")
    if evidence.dirty:
        parts.append(f"{plural(len(evidence.dirty), 'file')} not committed ({_listed(evidence.dirty)})")
    if not parts:
        ignored = f", only files that git ignores ({_listed(evidence.ignored)})" if evidence.ignored else ""
        return f"nothing in git{ignored}"
    return " and ".join(parts)


def _tally(s: Situation) -> str:
    counters, limits = s.counters, s.limits
    used = (
        of(counters.attempts, limits.attempts, "redispatch", "redispatches"),
        of(counters.finish_attempts, limits.finish_attempts, "finish attempt"),
        of(counters.starts, limits.starts, "start"),
    )
    return f"used up: {', '.join(used)}"


def _listed(names: Sequence[str], most: int = 5) -> str:
    shown = ", ".join(_clean(name, 120) for name in names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def _clean(text: str, limit: int) -> str:
    """One printable line: words from git and from workers may hold anything, also what UTF-8 cannot carry."""
    text = text.encode("utf-8", "backslashreplace").decode("utf-8")
    line = " ".join(re.sub(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+", " ", text).split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def _cut(text: str, limit: int) -> str:
    """Head and tail."""
    text = text.encode("utf-8", "backslashreplace").decode("utf-8")
    if len(text) <= limit:
        return text
    head = limit * 2 // 3
    return f"{text[:head]}\n[... {len(text) - limit} characters left out ...]\n{text[-(limit - head) :]}"
