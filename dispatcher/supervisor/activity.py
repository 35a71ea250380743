"""Whether a silent tree works: CPU used and bytes written between two looks.

A harness that hangs still burns a little (opencode: 1.3 to 1.5 % of a core) and may print a heartbeat (claude: every 30
seconds while a tool runs), so a process that was there before the tool call must use a real share of a core. What was
started during the call is the tool's own: there, any write and a hundredth of a core count.
"""

from __future__ import annotations

from dispatcher.supervisor import processes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from dispatcher.supervisor.processes import Identity, Process

OLD_SHARE = 0.05
YOUNG_SHARE = 0.01
TOLERANCE = 2.0  # seconds: the event of a call is read a little after the call began


class Activity:
    def __init__(self) -> None:
        self._last: dict[Identity, tuple[int, int]] | None = None

    def sample(self, found: Iterable[Process], elapsed: float, call_began: float) -> bool:
        """`call_began`: seconds since boot of the open tool call; 0 when every process counts as the tool's own."""
        now = {process.identity: (process.cpu, processes.written(process.pid)) for process in found}
        before, self._last = self._last, now
        if before is None:
            return True  # nothing to compare with: the benefit of the doubt, once
        young = 0.0
        old = 0.0
        wrote = False
        for identity, (cpu, written) in now.items():
            cpu_before, written_before = before.get(identity, (0, 0))
            used = max(0, cpu - cpu_before) / processes.TICKS
            if identity[1] / processes.TICKS >= call_began - TOLERANCE:
                young += used
                wrote = wrote or written > written_before
            else:
                old += used
        share = max(elapsed, 0.001)
        return wrote or young / share >= YOUNG_SHARE or (young + old) / share >= OLD_SHARE
