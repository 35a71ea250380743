"""The captured runs of the real CLIs, and what each of them is."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from dispatcher.harness import get
from dispatcher.task import ExitRecord, Outcome, OutcomeClass

FOLDER = Path(__file__).parent.parent / "captures"
NOW = 1795960000.0  # an hour after most of them

O = OutcomeClass  # noqa: E741

EXPECTED: dict[str, OutcomeClass] = {
    "opencode/400ctx": O.CONTEXT_OVERFLOW,
    "opencode/401": O.AUTH,
    "opencode/402": O.BILLING,
    "opencode/429": O.RATE_LIMITED,
    "opencode/429errlog": O.QUOTA_EXHAUSTED,
    "opencode/429ralog": O.QUOTA_EXHAUSTED,
    "opencode/503": O.OVERLOADED,
    "opencode/ask": O.PERMISSION_DENIED,
    "opencode/badargs": O.COMPLETED,
    "opencode/badsess": O.INTERNAL,
    "opencode/drop": O.RUNAWAY,
    "opencode/gate": O.COMPLETED,
    "opencode/half": O.RATE_LIMITED,
    "opencode/nomodel": O.INTERNAL,
    "opencode/nomodellog": O.MODEL_NOT_FOUND,
    "opencode/noprov": O.INTERNAL,
    "opencode/ok": O.COMPLETED,
    "opencode/session-status-retry": O.QUOTA_EXHAUSTED,
    "opencode/sigKILL": O.LOST,
    "opencode/sigTERM": O.LOST,
    "claude/badflag": O.INTERNAL,
    "claude/badsettings": O.INTERNAL,
    "claude/bg-6s": O.COMPLETED,
    "claude/canary": O.COMPLETED,
    "claude/deny-prompts-none": O.COMPLETED,
    "claude/deny-write": O.COMPLETED,
    "claude/df-1": O.AWAITING_APPROVAL,
    "claude/df-1-allow": O.COMPLETED,
    "claude/df-2-deny": O.COMPLETED,
    "claude/df-6": O.AWAITING_APPROVAL,
    "claude/df-6-allow": O.COMPLETED,
    "claude/dk-1-again": O.LOST,
    "claude/dns": O.NETWORK,
    "claude/drop-text-r1": O.NETWORK,
    "claude/drop-then-ok": O.COMPLETED,
    "claude/e400-credit": O.BILLING,
    "claude/e400-long": O.CONTEXT_OVERFLOW,
    "claude/e401": O.AUTH,
    "claude/e401-json": O.AUTH,
    "claude/e402": O.BILLING,
    "claude/e403": O.AUTH,
    "claude/e404-model": O.MODEL_NOT_FOUND,
    "claude/e413": O.CONTEXT_OVERFLOW,
    "claude/e429": O.RATE_LIMITED,
    "claude/e429-midrun": O.RATE_LIMITED,
    "claude/e429-r0": O.RATE_LIMITED,
    "claude/e429-ra3600": O.RATE_LIMITED,
    "claude/e429-then-ok": O.COMPLETED,
    "claude/e500-r1": O.INTERNAL,
    "claude/e529-r1": O.OVERLOADED,
    "claude/empty": O.EMPTY_OUTPUT,
    "claude/fb-529": O.COMPLETED,
    "claude/hang-headers-t3": O.NETWORK,
    "claude/in-open-arg": O.COMPLETED,
    "claude/in-slash-known": O.INTERNAL,
    "claude/k9-bash-res": O.COMPLETED,
    "claude/max-budget": O.RUN_LIMIT,
    "claude/max-tokens-all": O.RUN_LIMIT,
    "claude/max-turns": O.RUN_LIMIT,
    "claude/mt-res": O.COMPLETED,
    "claude/nokey": O.AUTH,
    "claude/ok-json": O.COMPLETED,
    "claude/ok-stream": O.COMPLETED,
    "claude/old-401": O.AUTH,
    "claude/old-429": O.RATE_LIMITED,
    "claude/old-defer": O.AWAITING_APPROVAL,
    "claude/old-ok": O.COMPLETED,
    "claude/pr-deny": O.COMPLETED,
    "claude/q-res": O.COMPLETED,
    "claude/recommended": O.COMPLETED,
    "claude/refusal": O.COMPLETED,
    "claude/res-unknown": O.INTERNAL,
    "claude/rl-oa-200ok": O.COMPLETED,
    "claude/rl-oa-200over": O.COMPLETED,
    "claude/rl-oa-200warn": O.COMPLETED,
    "claude/rl-oa-429-midrun": O.QUOTA_EXHAUSTED,
    "claude/rl-oa-429plain": O.RATE_LIMITED,
    "claude/rl-oa-429rej": O.QUOTA_EXHAUSTED,
    "claude/rl-oa-429rej7": O.QUOTA_EXHAUSTED,
    "claude/self-dis": O.COMPLETED,
    "claude/sig-int": O.INTERNAL,
    "claude/sig-kill": O.LOST,
    "claude/sig-term": O.LOST,
    "claude/skip-root": O.PERMISSION_DENIED,
    "claude/sub-defer": O.COMPLETED,
    "claude/suf-nomarker": O.INTERNAL,
    "claude/term-bash-res": O.COMPLETED,
    "claude/wd-oa-429": O.COMPLETED,
}

# What a run may look like that was cut off while it was still trying: the trouble it was in at that moment.
IN_BETWEEN: dict[str, set[OutcomeClass]] = {
    "claude/drop-then-ok": {O.NETWORK},
    "claude/e429-then-ok": {O.RATE_LIMITED},
    "claude/fb-529": {O.OVERLOADED},
    "claude/rl-oa-429plain": {O.RATE_LIMITED},
    "claude/wd-oa-429": {O.QUOTA_EXHAUSTED, O.RATE_LIMITED},
    "opencode/400ctx": {O.RUNAWAY},
    "opencode/nomodellog": {O.INTERNAL},
}


@cache
def lines(name: str, channel: str) -> tuple[bytes, ...]:
    path = FOLDER / f"{name}.{channel}"
    return tuple(path.read_bytes().splitlines()) if path.exists() else ()


def harness_of(name: str) -> str:
    return name.partition("/")[0]


def read(name: str, exit: ExitRecord | None = None) -> Outcome:
    harness = get(harness_of(name))
    return harness.read(lines(name, "stdout"), lines(name, "stderr"), lines(name, "events"), exit, now=NOW)
