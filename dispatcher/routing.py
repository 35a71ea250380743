"""Difficulty, roster, holds, spend -> the candidates in order, and why each other one was skipped.

A plan offers only what may be used now. It never mixes billing modes unless the route says `spill: true`: a free route
that is used up waits. Nothing here starts anything or remembers anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field

from dispatcher import quota, words
from dispatcher.quota import Spend
from dispatcher.record import record
from dispatcher.task import Billing, Candidate, Difficulty, Hold, HoldScope, Route


@record
class Roster:
    candidates: Mapping[str, Candidate] = field(default_factory=dict)
    routes: Mapping[Difficulty, Route] = field(default_factory=dict)


@record
class Request:
    """What one attempt needs. `prefer` goes first when it is free; `avoid` was already tried in this walk."""

    difficulty: Difficulty
    pinned: tuple[str, ...] = ()  # the brief's own list: used instead of the route
    prefer: str | None = None
    avoid: tuple[str, ...] = ()
    allowed_credentials: tuple[str, ...] | None = None  # None: the repository allows all
    missing_harnesses: Mapping[str, str] = field(default_factory=dict)  # name -> why it cannot be started
    larger_window_than: int | None = None  # tokens: after a context overflow, larger windows first


@record
class Choice:
    candidate: Candidate
    reason: str


@record
class Skipped:
    """`until` is when it may be used again; None with `needs_person` when only a person can change that.

    `held`: by a hold, which a person can lift at any time.
    """

    name: str
    reason: str
    until: float | None = None
    needs_person: bool = False
    held: bool = False


@record
class Plan:
    """`earliest` is when the first skipped one is free again, None when time alone will not help.

    `walked` are those skipped for one reason only: they were already tried in this walk. When there is no choice and no
    `earliest`, a new walk may start with them.
    """

    choices: tuple[Choice, ...]
    skipped: tuple[Skipped, ...]
    earliest: float | None
    reason: str
    walked: tuple[str, ...] = ()

    @property
    def until_lifted(self) -> bool:
        """Whether no time will help, but a person who lifts a hold."""
        return self.earliest is None and any(skipped.held for skipped in self.skipped)

    @property
    def whole_reason(self) -> str:
        """With what only a person can change, each thing once: `...: a, b: on hold ...; c: ...`."""
        found: dict[str, list[str]] = {}
        for skipped in self.skipped:
            if skipped.needs_person:
                found.setdefault(skipped.reason, []).append(skipped.name)
        whole = "; ".join(f"{', '.join(names)}: {reason}" for reason, names in found.items())
        return f"{self.reason}: {whole}" if found else self.reason


def plan(request: Request, roster: Roster, holds: Sequence[Hold], spend: Spend, now: float) -> Plan:
    """Walk the names in order and sort each into choices or skipped."""
    names, modes, why = _names(request, roster, spend, now)
    choices: list[Choice] = []
    skipped: list[Skipped] = []
    walked: list[str] = []
    for name in names:
        candidate = roster.candidates.get(name)
        if candidate is None:
            skipped.append(Skipped(name, "no candidate of that name in models.yaml", needs_person=True))
            continue
        blocked = _blocked(candidate, request, modes, holds, spend, now)
        if blocked is None and name in request.avoid:
            walked.append(name)
            blocked = Skipped(name, "already tried in this walk")
        if blocked is None:
            choices.append(Choice(candidate, _reason(candidate, request, why)))
        else:
            skipped.append(blocked)
    choices.sort(key=lambda choice: _rank(choice.candidate, request))
    earliest = min((item.until for item in skipped if item.until is not None), default=None)
    return Plan(tuple(choices), tuple(skipped), earliest, _summary(request, names, choices, earliest), tuple(walked))


def hold_key(scope: HoldScope, candidate: Candidate) -> str:
    """The key that a hold of this scope gets when an attempt of `candidate` asks for it."""
    match scope:
        case HoldScope.CANDIDATE:
            return candidate.name
        case HoldScope.MODEL:
            return f"{candidate.credential.name}/{candidate.model}"
        case HoldScope.CREDENTIAL:
            return candidate.credential.name
        case HoldScope.PROVIDER:
            return candidate.provider


def blocks(hold: Hold, candidate: Candidate, now: float) -> bool:
    """Whether the hold keeps this candidate from being used now."""
    return (hold.until is None or hold.until > now) and hold.key == hold_key(hold.scope, candidate)


def harder(roster: Roster, difficulty: Difficulty) -> Difficulty | None:
    """The next level up, if a route for it exists that spends the same kind of money (or spilling is allowed)."""
    level = difficulty.harder
    here, there = roster.routes.get(difficulty), roster.routes.get(level)
    if level is difficulty or there is None:
        return None
    same = here is not None and _mode(here.candidates, roster) == _mode(there.candidates, roster)
    return level if same or (here is not None and here.spill) else None


def _names(request: Request, roster: Roster, spend: Spend, now: float) -> tuple[list[str], set[Billing] | None, str]:
    """The names to walk, the billing modes allowed (None: all of them), and where the list comes from."""
    if request.pinned:
        return _first(request.prefer, request.pinned, request.pinned), None, "named by the brief"
    route = roster.routes.get(request.difficulty)
    if route is None:
        return [], None, ""
    mode = _mode(route.candidates, roster)
    modes = None if route.spill or mode is None else {mode}
    names = list(route.candidates)
    why = f"route {request.difficulty.value}"
    if route.free_first and request.difficulty is not Difficulty.HARD and _too_fast(names, roster, spend, now):
        names = _free(roster) + names
        modes = None if modes is None else modes | {Billing.FREE}
        why += ", free first: above the pace of its budget"
    return _first(request.prefer, names, roster.candidates), modes, why


def _first(prefer: str | None, names: Sequence[str], known: Iterable[str]) -> list[str]:
    """The names without repetition, `prefer` in front when it is known."""
    front = [prefer] if prefer is not None and prefer in known else []
    return list(dict.fromkeys([*front, *names]))


def _mode(names: Sequence[str], roster: Roster) -> Billing | None:
    """A route's billing mode is that of the first candidate it names, held or not."""
    return next((roster.candidates[name].credential.billing for name in names if name in roster.candidates), None)


def _free(roster: Roster) -> list[str]:
    """The free candidates that some route names, easiest route first."""
    named = [name for level in Difficulty if level in roster.routes for name in roster.routes[level].candidates]
    return [n for n in named if n in roster.candidates and roster.candidates[n].credential.billing is Billing.FREE]


def _too_fast(names: Sequence[str], roster: Roster, spend: Spend, now: float) -> bool:
    known = [roster.candidates[name] for name in names if name in roster.candidates]
    return any(quota.above_pace(candidate.credential, spend, now) is not None for candidate in known)


def _blocked(
    candidate: Candidate,
    request: Request,
    modes: set[Billing] | None,
    holds: Sequence[Hold],
    spend: Spend,
    now: float,
) -> Skipped | None:
    """The reason against this candidate that lasts longest; None when there is none."""
    name, credential = candidate.name, candidate.credential
    if candidate.harness in request.missing_harnesses:
        return Skipped(name, request.missing_harnesses[candidate.harness], needs_person=True)
    if request.allowed_credentials is not None and credential.name not in request.allowed_credentials:
        return Skipped(name, f"this repository does not allow the credential {credential.name}", needs_person=True)
    if modes is not None and credential.billing not in modes:
        return Skipped(name, f"billing is {credential.billing.value}: this route does not spill", needs_person=True)
    reasons = [*_held(candidate, holds, now), *_spent(candidate, spend, now)]
    forever = next((item for item in reasons if item.needs_person), None)
    return forever or max(reasons, key=lambda item: item.until or 0.0, default=None)


def _held(candidate: Candidate, holds: Sequence[Hold], now: float) -> list[Skipped]:
    return [
        Skipped(
            candidate.name, f"on hold ({hold.scope.value}): {hold.reason}", hold.until, hold.until is None, held=True
        )
        for hold in holds
        if blocks(hold, candidate, now)
    ]


def _spent(candidate: Candidate, spend: Spend, now: float) -> list[Skipped]:
    found: list[Skipped] = []
    used = spend.per_candidate_today.get(candidate.name, 0)
    if candidate.per_day is not None and used >= candidate.per_day:
        until = quota.bounds("day", now)[1]
        found.append(Skipped(candidate.name, f"{words.of(used, candidate.per_day, 'attempt')} used today", until))
    over = quota.over_budget(candidate.credential, spend, now)
    if over is not None:
        found.append(Skipped(candidate.name, over[0], over[1]))
    return found


def _rank(candidate: Candidate, request: Request) -> int:
    """After a context overflow: larger windows, then unknown ones, then the rest. Otherwise the order as written."""
    if request.larger_window_than is None or candidate.name == request.prefer:
        return 0
    if candidate.context_window is None:
        return 1
    return 0 if candidate.context_window > request.larger_window_than else 2


def _reason(candidate: Candidate, request: Request, why: str) -> str:
    if candidate.name == request.prefer:
        return "goes on with its own work"
    window = candidate.context_window
    if request.larger_window_than is not None and window is not None and window > request.larger_window_than:
        return f"{why}; larger context window"
    return why


def _summary(request: Request, names: Sequence[str], choices: Sequence[Choice], earliest: float | None) -> str:
    if choices:
        return f"{choices[0].candidate.name}: {choices[0].reason}"
    if not names:
        return f"models.yaml has no route for {request.difficulty.value} tasks"
    if earliest is not None:
        return "every candidate is on hold or over its budget"
    return "no candidate can be used: " + (
        "all were tried" if set(names) <= set(request.avoid) else "a person must help"
    )
