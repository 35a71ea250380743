"""opencode 1.18: `opencode run` with JSON events on stdout, the ERROR log on stderr, and our plugin's bridge file.

What its output lacks decides the shape of this file. There is no final result event: the last `step_finish` with a
finish is the positive sign. Nothing on stdout says that a rate limit is being waited for, or which model answers: the
plugin says both, the ERROR log is the fallback. And an `ask` rule ends a run with exit 0 and nothing done, so every
permission is stated here, for all agents, and none of them is `ask`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from dispatcher.harness.base import Command, RunRequest, Watch
from dispatcher.task import Billing, ExitRecord, Outcome


@dataclass(frozen=True)
class Opencode:
    """`name` "scripted" is the demo's own worker, which speaks this format; `zone` is that of this machine.

    A supervisor only watches: each part is imported when it is asked for.
    """

    name: str = "opencode"
    zone: str = "UTC"

    @property
    def programs(self) -> tuple[str, ...]:
        return ("opencode",) if self.name == "opencode" else ()

    @property
    def tested(self) -> str:
        return "1.18"

    def version_ok(self, text: str) -> bool:
        return self.name == "scripted" or bool(re.match(r"\s*v?1\.\d+", text))

    def command(self, request: RunRequest) -> Command:
        from dispatcher.harness.opencode.command import build

        return build(request)

    def watch(self, candidate_model: str, billing: Billing, *, overage: bool = False) -> Watch:
        from dispatcher.harness.opencode.live import OpencodeWatch

        return OpencodeWatch(candidate_model, self.zone)

    def read(
        self,
        stdout: Iterable[bytes],
        stderr: Iterable[bytes],
        bridge: Iterable[bytes],
        exit: ExitRecord | None,
        *,
        now: float,
        session: Iterable[bytes] = (),
    ) -> Outcome:
        from dispatcher.harness.opencode.ended import Reader
        from dispatcher.harness.transcript import settle

        return settle(Reader().read(stdout, stderr, bridge), exit, now, self.zone)

    def render(self, line: bytes) -> str | None:
        from dispatcher.harness.opencode.shown import render

        return render(line)
