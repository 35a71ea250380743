"""Times, durations and sizes as people say them. Times come in as epoch seconds and are shown in local time."""

from __future__ import annotations

import time

from dispatcher.words import plural as plural  # one helper for all rooms


def duration(seconds: float | None) -> str:
    """`9s`, `4m05s`, `2h10m`, `3d4h`; empty for unknown."""
    if seconds is None:
        return ""
    whole = int(seconds + 0.5)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    if whole < 86400:
        return f"{whole // 3600}h{whole % 3600 // 60:02d}m"
    return f"{whole // 86400}d{whole % 86400 // 3600}h"


def ago(moment: float, now: float) -> str:
    return "now" if abs(now - moment) < 1 else f"{duration(max(0.0, now - moment))} ago"


def clock(moment: float) -> str:
    """Local date and time, to the minute."""
    try:
        return time.strftime("%Y-%m-%d %H:%M", time.localtime(moment))
    except (OverflowError, ValueError, OSError):
        return f"time {moment:g}"  # no calendar reaches that far


def until(moment: float | None, now: float) -> str:
    """When a wait ends: the clock and how long that is; a wait that only a person ends says so."""
    if moment is None:
        return "until a person lifts it"
    return f"until {clock(moment)} (in {duration(max(0.0, moment - now))})"


def busy(against: str) -> str:
    """That the host takes no worker now, why, and what a run does then."""
    from dispatcher import host

    patience = f"{host.PATIENCE / 60:.0f} min"
    return f"no worker would start now: {against}; a run waits up to {patience} for the host, from cron it ends with 75"


def tokens(count: int | None) -> str:
    if count is None:
        return ""
    return str(count) if count < 10_000 else f"{count / 1000:.0f}k" if count < 10_000_000 else f"{count / 1e6:.1f}M"


def money(usd: float | None) -> str:
    """Unknown stays empty and is never 0."""
    return "" if usd is None else f"${usd:.2f}" if usd >= 0.01 or usd == 0 else f"${usd:.4f}"


def delivered(commit: str | None, branch: str | None) -> str:
    """The commit that the branch holds: a copy of the worker's, with trailers, so of another name."""
    return f"as {commit} on {branch}" if commit and branch else ""


def size(octets: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if octets < 1024:
            return f"{octets:.0f} {unit}"
        octets /= 1024
    return f"{octets:.1f} TiB"
