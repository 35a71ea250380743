"""One ordered table: what the error channel of a run says -> how it ended, what is held, until when.

The first row that fits wins. The order is the knowledge: fields that a machine wrote for machines come first (the
provider's error type, the CLI's own enum), then wordings, then HTTP statuses, then whatever is left. So a body in
Chinese is still a used-up allowance, a "credit balance" inside an HTTP 400 is still money, and a 401 that a gateway
uses for an empty purse is not a bad key.

Only the error channel is looked at: error events, results that say they are errors, log lines of level ERROR, the
CLI's own standard error. Never what a model said, never what a tool printed: an agent that works on a rate limiter
writes all of these words.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from dispatcher import resets
from dispatcher.failures.channel import ErrorChannel as ErrorChannel
from dispatcher.failures.channel import enriched, of_line, texts_of
from dispatcher.failures.channel import window_rejected as window_rejected
from dispatcher.failures.hold import hold_of
from dispatcher.failures.table import TABLE as TABLE
from dispatcher.failures.table import Match, Row
from dispatcher.failures.table import Until as Until
from dispatcher.task import HoldRequest, OutcomeClass

PROOF_LIMIT = 500


@dataclass(frozen=True)
class Finding:
    """What an error channel says, with the row that said it."""

    kind: OutcomeClass
    reason: str
    proof: str
    hold: HoldRequest | None
    row: str


_GENERIC = frozenset({OutcomeClass.INTERNAL})  # a mask: the log may know better
_ERROR_FIELD = re.compile(r'\s(?:error\.error|error|cause)="((?:[^"\\]|\\.)+)"')


def classify(channel: ErrorChannel, now: float, *, default_zone: str = "UTC") -> Finding | None:
    """The class of a failure, or None when the channel proves nothing.

    Structured fields and their texts are judged first; log lines only when those say nothing or no more than "an
    error", because a log also keeps what was overcome.
    """
    facts = enriched(channel)
    first = _first(replace(facts, log_lines=()), now, default_zone)
    if first is not None and first.kind not in _GENERIC:
        return first
    for line in reversed(channel.log_lines):
        found = _first(of_line(line, channel.harness), now, default_zone)
        if found is not None and found.kind not in _GENERIC:
            return found
        first = first or found
    return first


def _first(channel: ErrorChannel, now: float, zone: str) -> Finding | None:
    texts = tuple(texts_of(channel))
    for row in TABLE:
        for match in row.matches:
            proof = _fits(match, channel, texts)
            if proof is not None:
                return _finding(row, channel, proof, now, zone)
    return None


def _finding(row: Row, channel: ErrorChannel, proof: str, now: float, zone: str) -> Finding:
    text = channel.result_text or channel.message or _logged(next(iter(channel.log_lines), ""))
    said = resets.normalise(text)[:200]
    reason = f"{row.reason}: {said}" if said and said not in row.reason else row.reason
    return Finding(row.kind, reason, proof[:PROOF_LIMIT], hold_of(row, channel, now, zone), row.id)


def _logged(line: str) -> str:
    """What a log line says: its error field, without the fields around it."""
    match = _ERROR_FIELD.search(line)
    return match[1] if match else line


def _fits(match: Match, channel: ErrorChannel, texts: tuple[str, ...]) -> str | None:
    """The proof when every given part of the match fits."""
    proofs: list[str] = []
    if match.rejected:
        if not window_rejected(channel.rate_limit_info):
            return None
        proofs.append(f"rate_limit_event {json.dumps(channel.rate_limit_info, default=str)}")
    for wanted, name, value in (
        (match.types, "error.type", channel.error_type.lower()),
        (match.names, "error.name", channel.error_name),
    ):
        if wanted:
            if value not in wanted:
                return None
            proofs.append(f"{name} {value}")
    if match.words:
        hit = next(((n, v) for n, v in _word_fields(channel) if v in match.words), None)
        if hit is None:
            return None
        proofs.append(f"{hit[0]} {hit[1]}")
    if match.statuses:
        if channel.status not in match.statuses:
            return None
        proofs.append(f"status {channel.status}")
    if match.text:
        hits = (found for text in texts if (found := re.search(match.text, text, re.I)))
        place = next(hits, None)
        return None if place is None else _around(place)
    said = next(iter(texts), "")
    return ", ".join(proofs) + (f": {said}" if said else "")


def _word_fields(channel: ErrorChannel) -> Iterator[tuple[str, str]]:
    yield "api_error", channel.api_error
    yield "error", channel.error
    yield "terminal_reason", channel.terminal_reason
    yield "subtype", channel.subtype
    yield "action", channel.action


def _around(match: re.Match[str]) -> str:
    """The line, or the part of a long one that holds the match."""
    start = 0 if len(match.string) <= PROOF_LIMIT else max(0, match.start() - PROOF_LIMIT // 2)
    return match.string[start : start + PROOF_LIMIT]
