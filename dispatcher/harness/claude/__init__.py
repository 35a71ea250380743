"""claude 2.1: `claude -p` with stream-json events on stdout.

Every API failure is a `result` event with subtype "success" and exit code 1; a run that was interrupted exits 0; one
that waits for an approval exits 0 too. So the verdict is read from `is_error`, the API status and the CLI's own enums,
in the words of two generations: 2.1.197 says `terminal_reason: completed` for API errors and lacks `api_error`. Several
results may follow each other in one stream, all of them count. No result at all means that it did not finish, whatever
the code.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from dispatcher.harness.base import Command, RunRequest, Watch
from dispatcher.task import Billing, ExitRecord, Outcome


@dataclass(frozen=True)
class Claude:
    """`zone` is the time zone of this machine: old versions name clock times without one.

    A supervisor only watches: each part is imported when it is asked for.
    """

    zone: str = "UTC"

    @property
    def name(self) -> str:
        return "claude"

    @property
    def programs(self) -> tuple[str, ...]:
        return ("claude",)

    @property
    def tested(self) -> str:
        return "2.1"

    def version_ok(self, text: str) -> bool:
        return bool(re.match(r"\s*2\.\d+", text))

    def command(self, request: RunRequest) -> Command:
        from dispatcher.harness.claude.command import build

        return build(request)

    def watch(self, candidate_model: str, billing: Billing, *, overage: bool = False) -> Watch:
        from dispatcher.harness.claude.live import ClaudeWatch

        return ClaudeWatch(candidate_model, billing, overage, self.zone)

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
        from dispatcher.harness.claude.ended import Reader
        from dispatcher.harness.transcript import settle

        return settle(Reader().read(stdout, stderr, session), exit, now, self.zone)

    def render(self, line: bytes) -> str | None:
        from dispatcher.harness.claude.shown import render

        return render(line)
