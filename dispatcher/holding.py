"""How long something stays on hold, given how often it was held before; and what a person has to do about it. Pure.

stated by the provider      believed to the second; back although its reset is here: 15, 30, 60 minutes
a plan, window, day, free   (quota_exhausted) a guess; the second time on one UTC day: until the next day
a plain 429                 (rate_limited) a guess that grows: 1, 15, 30, 60 minutes
auth, billing, wrong money  until a person; the reason says what to do
failures in a row           the candidate, until a person
an error without a cause    the candidate, until a person, once two tasks in a row have met it
no network at all           nobody: the host is offline, and everything waits
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from dispatcher import resets
from dispatcher.task import Candidate, HoldRequest, HoldScope, OutcomeClass

DAY = 86400.0
TOGETHER = 60.0  # failures of all candidates that lie this close to each other have one cause
_OFFLINE = (60.0, 120.0, 300.0, 600.0)  # seconds until the network is tried again

_MONEY = "see with `dispatcher doctor` who pays"
_TO_DO: Mapping[OutcomeClass, Mapping[str, str]] = {
    OutcomeClass.AUTH: {
        "claude": "log in again (claude, then /login) or renew the key",
        "opencode": "log in again (opencode auth login) or renew the key",
    },
    OutcomeClass.BILLING: {"": "add money at the provider, or change the key"},
    OutcomeClass.BILLING_MISMATCH: {
        "": f"the first such turn was already charged; {_MONEY}, or allow it with `overage: true` on the credential"
    },
    OutcomeClass.MODEL_MISMATCH: {"": "pin the id that answers, or repair what changes the model"},
    OutcomeClass.MODEL_NOT_FOUND: {
        "opencode": "choose an id that `opencode models` lists and change models.yaml",
        "": "choose an id that exists and change models.yaml",
    },
}


@dataclass(frozen=True)
class Past:
    """Earlier hits of the same limit, each of them over before this attempt began."""

    today: int = 0  # since 00:00 UTC
    in_a_row: int = 0  # in the last day, with no success of the candidate since


def lengthen(asked: HoldRequest, kind: OutcomeClass, past: Past, now: float) -> HoldRequest:
    """The hold as it is placed. It is never shorter than asked."""
    if asked.until is None:
        return asked
    believed = asked.stated and asked.until - now > resets.SOON
    if kind is OutcomeClass.QUOTA_EXHAUSTED and past.today and not asked.stated:
        until = max(asked.until, resets.next_midnight(now))
        return replace(asked, until=until, reason=f"{asked.reason}; twice today, so parked until the next day")
    if believed:
        return asked
    until = resets.bound(asked.until, now, past.in_a_row)
    return replace(asked, until=until) if until > asked.until else asked


def to_do(kind: OutcomeClass, harness: str, key: str) -> str:
    """What a person does about a hold that only a person lifts; empty for other classes."""
    known = _TO_DO.get(kind)
    if known is None:
        return ""
    advice = known.get(harness) or known.get("") or "renew the login or the key"
    return f"{advice}; then: dispatcher release {key}"


def too_many_failures(candidate: Candidate, in_a_row: int, limit: int) -> HoldRequest | None:
    """`in_a_row` counts this attempt too. 0 as the limit switches it off."""
    if limit <= 0 or in_a_row < limit:
        return None
    reason = f"{in_a_row} failures in a row without a success; look at `dispatcher log --candidate {candidate.name}`"
    return HoldRequest(HoldScope.CANDIDATE, None, f"{reason}; then: dispatcher release {candidate.name}")


def is_mask(kind: OutcomeClass, proof: str) -> bool:
    """opencode's UnknownError without a log line that explains it: a typo in a model id looks like this."""
    return kind is OutcomeClass.INTERNAL and proof.startswith("error.name UnknownError")


def masked(candidate: Candidate) -> HoldRequest:
    """The second task in a row that met such an error on one candidate."""
    reason = f"two tasks in a row ended in an error without a cause; check the model id {candidate.model}"
    return HoldRequest(HoldScope.CANDIDATE, None, f"{reason}; then: dispatcher release {candidate.name}")


def host_is_offline(
    usable: Iterable[str], last: Mapping[str, tuple[OutcomeClass, float]], began: float, *, known: bool
) -> bool:
    """Whether a network failure is this host's: every usable candidate has failed so within a minute.

    `last` is how each candidate's newest attempt ended, and when; `began` is the start of the attempt that failed now.
    `known`: the host was offline a moment ago, so one failure is enough. One candidate alone proves nothing.
    """
    if known:
        return True
    names = set(usable)
    return len(names) > 1 and all(
        name in last and last[name][0] is OutcomeClass.NETWORK and last[name][1] >= began - TOGETHER for name in names
    )


def offline_wait(times: int) -> float:
    """Seconds until the network is tried again; `times` it was found dead before without a success since."""
    return _OFFLINE[min(times, len(_OFFLINE) - 1)]
