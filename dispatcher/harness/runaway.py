"""Is a worker busy or is it spinning? Counters over steps and tool results, without a clock.

Both CLIs have loops that never end and never fall silent: a context overflow that compaction does not cure, and a
stream that ends without a finish and is asked for again at once (opencode 1.18: 414 requests in 50 s). What they have
in common is that nothing comes of them. So every counter starts again at a tool result, and a healthy run of hundreds
of steps, each with its tool call, stays at zero.
"""

from __future__ import annotations

OVERFLOWS = 3  # in a row
COMPACTIONS = 4  # in a row
UNFINISHED = 5  # answers in a row that ended without a finish
STEPS = 20  # answers in a row without a tool result; the runs that are healthy end after one
SAME_FAILURE = 8  # the same call failing in the same way, in a row
ANY_FAILURE = 40  # failed calls in a row, of whatever kind


class Runaway:
    """Fed by a watch; each method answers with the evidence once a limit is reached, else None."""

    def __init__(self) -> None:
        self._failure: tuple[str, int] | None = None
        self._same = self.failures = 0  # in a row
        self.answered()

    def answered(self) -> None:
        """A call has a result, whichever."""
        self._overflows = self._compactions = self._unfinished = self.steps = 0

    def step(self) -> str | None:
        """A new answer of the model begins."""
        self.steps += 1
        return self._over(self.steps, STEPS, "answers in a row without a tool result")

    def unfinished(self) -> str | None:
        """An answer ended without a finish, so the CLI asks again."""
        self._unfinished += 1
        return self._over(self._unfinished, UNFINISHED, "answers in a row that ended without a finish")

    def overflow(self) -> str | None:
        self._overflows += 1
        return self._over(self._overflows, OVERFLOWS, "context overflows in a row, compaction does not help")

    def compaction(self) -> str | None:
        self._compactions += 1
        return self._over(self._compactions, COMPACTIONS, "compactions in a row without a tool result")

    def tool_succeeded(self) -> None:
        self.answered()
        self.worked()

    def tool_failed(self, tool: str, call: int) -> str | None:
        """`call` is a hash of the arguments and the error. A failed call is still an answer to the model."""
        self.answered()
        return self.failed(tool, call)

    def worked(self) -> None:
        self._failure = None
        self._same = self.failures = 0

    def failed(self, tool: str, call: int) -> str | None:
        self.failures += 1
        self._same = self._same + 1 if self._failure == (tool, call) else 1
        self._failure = (tool, call)
        return self._over(self._same, SAME_FAILURE, f"identical failures of the tool {tool} in a row") or self._over(
            self.failures, ANY_FAILURE, "failed tool calls in a row"
        )

    @staticmethod
    def _over(count: int, limit: int, what: str) -> str | None:
        return f"{count} {what}" if count >= limit else None
