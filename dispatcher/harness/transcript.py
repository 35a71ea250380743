"""What a harness has read out of an ended run, and the one order in which it becomes an outcome.

A cancel and a decision of our own come first, because the transcript of a run that we ended says nothing about it. Then
the positive result, then the error channel, then the exit code: the exit codes of both CLIs lie in both directions.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from dispatcher import failures
from dispatcher.failures import ErrorChannel, Finding
from dispatcher.harness.events import TEXT_LIMIT, shorten
from dispatcher.task import EndReason, ExitRecord, HoldRequest, HoldScope, ModelEvidence, Outcome, OutcomeClass, Usage

PARTIAL = "tokens are partial"  # begins the note of a run that did not live to say what it used

_SILENT = (EndReason.STALLED, EndReason.START_SILENCE)
_SIGNAL_CODES = {129: "HUP", 130: "INT", 137: "KILL", 143: "TERM"}

# What our own supervisor decided while the run lived, when it did not name a class itself.
_DECIDED = {
    EndReason.QUOTA: OutcomeClass.RATE_LIMITED,
    EndReason.RUNAWAY: OutcomeClass.RUNAWAY,
    EndReason.MISMATCH: OutcomeClass.MODEL_MISMATCH,
    EndReason.APPROVAL: OutcomeClass.AWAITING_APPROVAL,
    EndReason.GATE: OutcomeClass.INTERNAL,
    EndReason.CANCELLED: OutcomeClass.CANCELLED,
    EndReason.STOPPED: OutcomeClass.STOPPED,
    EndReason.PERMISSION: OutcomeClass.PERMISSION_DENIED,
    EndReason.SPAWN_FAILED: OutcomeClass.HARNESS_MISSING,
    EndReason.SUPERVISOR_ERROR: OutcomeClass.LOST,
}

_MISMATCH_SCOPE = {
    OutcomeClass.MODEL_MISMATCH: HoldScope.CANDIDATE,
    OutcomeClass.BILLING_MISMATCH: HoldScope.CREDENTIAL,
}

# A silent or endless run may have been waiting for one of these; a passing trouble does not explain an hour.
_EXPLAINS_SILENCE = frozenset(
    {
        OutcomeClass.RATE_LIMITED,
        OutcomeClass.QUOTA_EXHAUSTED,
        OutcomeClass.BILLING,
        OutcomeClass.AUTH,
        OutcomeClass.MODEL_NOT_FOUND,
        OutcomeClass.PERMISSION_DENIED,
    }
)


@dataclass(frozen=True)
class Settled:
    """A class that the transcript itself proves, positive or not."""

    kind: OutcomeClass
    reason: str
    proof: str = ""
    positive: bool = False


@dataclass
class Transcript:
    """Filled by a harness while it reads. `settled` None means that no terminal event was seen."""

    settled: Settled | None = None
    channel: ErrorChannel | None = None
    events: int = 0
    session_id: str | None = None
    session_gone: bool = False
    final_text: str = ""
    usage: Usage = field(default_factory=Usage)
    observed_model: str | None = None
    model_evidence: ModelEvidence = ModelEvidence.UNVERIFIED
    denials: list[str] = field(default_factory=list)
    todo: tuple[str, ...] = ()
    notes: list[str] = field(default_factory=list)
    tool_calls: int = 0
    runaway: str = ""  # evidence of a loop that the run was in when it ended
    last_tool_error: str = ""  # set while a failed tool call is the last thing that happened


def settle(found: Transcript, exit: ExitRecord | None, now: float, zone: str) -> Outcome:
    """The outcome of a run. `exit` None: nothing is known of its end."""
    finding = failures.classify(found.channel, now, default_zone=zone) if found.channel else None
    decided = _decided(exit, finding) or _proved(found, exit) or _failed(found, finding, exit) or _by_exit(found, exit)
    settled, hold = decided
    notes = [*found.notes, *_exit_notes(settled, exit)]
    return Outcome(
        kind=settled.kind,
        reason=settled.reason,
        proof=settled.proof[: failures.PROOF_LIMIT],
        positive=settled.positive,
        hold=hold,
        session_id=found.session_id or (exit.session_id if exit else None),
        final_text=found.final_text[:TEXT_LIMIT],
        usage=found.usage,
        observed_model=found.observed_model or (exit.observed_model if exit else None),
        model_evidence=_model_evidence(found, exit),
        denials=tuple(dict.fromkeys(found.denials)),
        todo=found.todo,
        notes=tuple(dict.fromkeys(notes)),
        tool_calls=found.tool_calls,
        session_gone=found.session_gone,
        never_started=settled.kind is OutcomeClass.STALLED
        and exit is not None
        and exit.reason is EndReason.START_SILENCE,
    )


_Decision = tuple[Settled, HoldRequest | None]


def _decided(exit: ExitRecord | None, finding: Finding | None) -> _Decision | None:
    """What the supervisor decided, with what the transcript adds to it."""
    if exit is None or exit.reason not in _DECIDED:
        return None
    kind = exit.kind or _DECIDED[exit.reason]
    hold = exit.hold
    proof = exit.proof
    if exit.reason is EndReason.QUOTA and finding is not None and finding.hold is not None:
        kind = exit.kind or finding.kind
        hold = hold or finding.hold
        proof = proof or finding.proof
    if hold is None and kind in _MISMATCH_SCOPE:
        hold = HoldRequest(_MISMATCH_SCOPE[kind], None, exit.detail or kind.value)
    if exit.reason is EndReason.SPAWN_FAILED and "too long" in exit.detail:
        kind = OutcomeClass.BRIEF_TOO_LARGE
    return Settled(kind, exit.detail or f"ended by the supervisor: {exit.reason.value}", proof), hold


def _proved(found: Transcript, exit: ExitRecord | None) -> _Decision | None:
    return None if found.settled is None else (found.settled, None)


def _failed(found: Transcript, finding: Finding | None, exit: ExitRecord | None) -> _Decision | None:
    """The error channel; for a run that we ended for its silence or length only what explains that."""
    ended = exit.reason if exit else EndReason.EXITED
    if finding is not None and (finding.kind in _EXPLAINS_SILENCE or ended not in (*_SILENT, EndReason.HARD_CAP)):
        return Settled(finding.kind, finding.reason, finding.proof), finding.hold
    if found.runaway:
        return Settled(OutcomeClass.RUNAWAY, found.runaway, found.runaway), None
    if exit is None:
        return None
    if ended in _SILENT:
        return Settled(OutcomeClass.STALLED, exit.detail or "nothing moved any more", exit.proof), None
    if ended is EndReason.HARD_CAP:
        return Settled(OutcomeClass.TIMED_OUT, exit.detail or "the hard cap was reached", exit.proof), None
    return None


def _by_exit(found: Transcript, exit: ExitRecord | None) -> _Decision:
    """Nothing in the transcript proves a class: the exit code is what is left."""
    said = _said(found.channel)
    if exit is None:
        if said:
            return Settled(OutcomeClass.UNKNOWN, f"an error of no known class: {shorten(said)}", said), None
        return Settled(OutcomeClass.LOST, "no exit record and no terminal event"), None
    signal = exit.signal or None
    if signal is not None or exit.exit_code in _SIGNAL_CODES:
        name = str(signal) if signal is not None else _SIGNAL_CODES[exit.exit_code or 0]
        return Settled(OutcomeClass.KILLED, f"ended by signal {name} that was not ours"), None
    if found.last_tool_error and exit.exit_code != 0:
        reason = "the run ended right after a tool call that could not be carried out"
        if "invalid arguments" in found.last_tool_error or "unavailable tool" in found.last_tool_error:
            return Settled(OutcomeClass.INVALID_TOOL_ARGS, reason, found.last_tool_error), None
    if exit.exit_code == 0:
        if not found.events:
            return Settled(OutcomeClass.EMPTY_OUTPUT, "exit 0 and not a single event", "exit code 0, no output"), None
        found.notes.append("stream truncated: no terminal event")
        return Settled(OutcomeClass.UNKNOWN, "exit 0 without a terminal event", "exit code 0"), None
    reason = f"exit code {exit.exit_code}" + (f": {shorten(said)}" if said else ", no error was reported")
    return Settled(OutcomeClass.UNKNOWN, reason, said), None


def _said(channel: ErrorChannel | None) -> str:
    if channel is None:
        return ""
    return channel.result_text or channel.message or next(iter(channel.log_lines[-1:]), "")


def _exit_notes(settled: Settled, exit: ExitRecord | None) -> list[str]:
    """An exit that does not fit a positive result is kept as a note: the result is what counts."""
    if exit is None or not settled.positive:
        return []
    if exit.reason not in (EndReason.EXITED, EndReason.FINISHED):
        return [f"ended by us after its result: {exit.reason.value}"]
    if exit.reason is EndReason.EXITED and (exit.exit_code or exit.signal):
        return [f"exit code {exit.exit_code} after a positive result"]
    return []


def _model_evidence(found: Transcript, exit: ExitRecord | None) -> ModelEvidence:
    if found.observed_model is None and exit is not None and exit.observed_model:
        return ModelEvidence.CONFIRMED
    return found.model_evidence
