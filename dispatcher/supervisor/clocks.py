"""How long a worker may be silent, and how long it may live. Pure: the time comes in.

Time is counted in steps between two looks. A step is never longer than `STEP`: if more has passed, it was this process
(or the whole machine) that slept, not the worker. A wall clock that jumps is ignored altogether. Waiting that the
provider asked for, and that was left to the harness, does not count.
"""

from __future__ import annotations

STEP = 5.0
START_STRETCH = 3.0  # a worker that burns CPU may take this many times `start`: a loaded machine is not a hung worker
SLEPT = 60.0  # a gap of this size is worth a note

START_SILENCE = "start_silence"
STALLED = "stalled"
HARD_CAP = "hard_cap"
FINISHED = "finished"


class Clocks:
    """All limits in seconds; 0 switches one off. `plain`: no harness tells of tools, so activity alone is enough."""

    def __init__(
        self, *, start: float, stall: float, hard_cap: float, grace: float, mono: float, wall: float, plain: bool
    ) -> None:
        self.start = start
        self.stall = stall
        self.hard_cap = hard_cap
        self.grace = grace
        self.plain = plain
        self.active = 0.0  # seconds that count
        self.slept = 0.0  # seconds that this process or the machine slept
        self.waited = 0.0  # seconds of waiting for the provider
        self._mono = mono
        self._wall = wall
        self._excused = 0.0
        self._heard = 0.0  # when something was heard last, in active seconds
        self._started = start <= 0
        self._busy_start = False
        self._finished: float | None = None
        self._tools: dict[str, None] = {}
        self._sampled = 0.0

    def advance(self, mono: float, wall: float) -> None:
        passed = max(0.0, mono - self._mono)
        jump = (wall - self._wall) - passed
        if jump > SLEPT:
            self.slept += jump
        self._mono, self._wall = mono, wall
        step = min(passed, STEP)
        self.slept += passed - step
        excused = min(step, self._excused)
        self._excused -= excused
        self.waited += excused
        self.active += step - excused

    def heard(self) -> None:
        """The worker moved. After its terminal event that means it goes on after all."""
        self._started = True
        self._heard = self.active
        self._excused = 0.0
        self._finished = None

    def alive(self) -> None:
        """A sign of life that proves no progress: it ends the start-up clock only."""
        if not self._started:
            self.heard()

    def finished(self) -> None:
        self.heard()
        self._tools.clear()
        self._finished = self.active

    def tool_started(self, call: str) -> None:
        self.heard()
        self._tools[call] = None

    def tool_ended(self, call: str) -> None:
        self.heard()
        self._tools.pop(call, None)

    @property
    def tool_open(self) -> bool:
        return self.plain or bool(self._tools)

    @property
    def is_finished(self) -> bool:
        return self._finished is not None

    def excuse(self, seconds: float) -> None:
        """The harness waits this long because the provider said so."""
        self.heard()
        self._excused = seconds

    def sample_due(self) -> float | None:
        """Seconds since the last look at the tree's CPU, when it is time for another; None while it is not."""
        limit = self.stall if self._started else self.start
        if limit <= 0 or self.is_finished or self.active - self._heard < limit / 4:
            return None
        since = self.active - max(self._sampled, self._heard)
        return since if since >= min(15.0, limit / 8) else None

    def sampled(self, busy: bool) -> None:
        """What the look found: `busy` = something in the tree uses CPU or writes."""
        self._sampled = self.active
        if not self._started:
            self._busy_start = busy
        elif busy and self.tool_open:
            self._heard = self.active

    def due(self) -> str | None:
        """The limit that has passed, if one has."""
        if self._finished is not None:
            return FINISHED if self.active - self._finished >= self.grace else None
        if 0 < self.hard_cap <= self.active:
            return HARD_CAP
        if not self._started and self.start > 0:
            limit = self.start * START_STRETCH if self._busy_start else self.start
            return START_SILENCE if self.active >= limit else None
        if 0 < self.stall <= self.active - self._heard:
            return STALLED
        return None
