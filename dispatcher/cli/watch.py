"""`watch`: one live screen of a home. What is drawn is one value, made anew each time something may have changed.

Rich draws on a terminal; in a pipe, or with --once, the screen is printed once. A screen is never taller than the
terminal: lists are cut and say how much is left.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dispatcher import host
from dispatcher.cli import home, idle, status
from dispatcher.cli.render import clean, on_terminal, out
from dispatcher.cli.wording import duration, size, until
from dispatcher.store import Store, glance
from dispatcher.words import of

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

Row = dict[str, Any]

_QUEUE = """
SELECT id, title, status, not_before, priority FROM task WHERE status IN ('queued', 'waiting')
ORDER BY status, priority DESC, id LIMIT ?
"""
_APPROVALS = """
SELECT p.id, p.task_id, p.tool, p.input, p.asked_at, t.title FROM approval p JOIN task t ON t.id = p.task_id
WHERE p.status = 'pending' ORDER BY p.asked_at LIMIT ?
"""
_OPEN = "SELECT task_id, folder FROM attempt INDEXED BY attempt_open WHERE ended_at IS NULL"
EVERY = 1.0  # seconds between two looks, if nothing else is said
_LINES = 200  # more of one list fits on no screen


@dataclass(frozen=True)
class Screen:
    """Everything that is drawn."""

    home: str
    now: float
    jobs: int
    counts: dict[str, int]
    slots: list[Row]
    queue: list[Row]
    person: list[Row]
    approvals: list[Row]
    holds: list[Row]
    load: float
    memory: int
    next_wake: float | None
    obstacle: str | None  # to all that could start now, in words


def watch_home(explicit: Path | None, *, once: bool, every: float) -> None:
    if once:
        idle.refuse("with --once", {"--every": every != EVERY}, "leave out one of them")
    folder = home.find(explicit)
    jobs = _jobs(explicit)
    with home.existing(explicit, reading=True) as store:
        if once or not on_terminal():
            return _print_once(look(store, folder, jobs, time.time()))
        return _live(store, folder, jobs, every)


def _jobs(explicit: Path | None) -> int:
    from dispatcher.errors import DispatcherError
    from dispatcher.task import Limits

    try:
        return home.configured(explicit).limits.jobs
    except DispatcherError:
        return Limits().jobs  # the log can be looked at while the configuration is broken


def look(store: Store, folder: Path, jobs: int, now: float) -> Screen:
    found = glance.status(store, now)
    folders = {row["task_id"]: row["folder"] for row in store.read(_OPEN)}
    slots = [{**row, "quiet": _quiet(folders.get(row["id"]), now)} for row in found["running"]]
    return Screen(
        home=str(folder),
        now=now,
        jobs=jobs,
        counts=found["counts"],
        slots=slots,
        queue=[dict(row) for row in store.read(_QUEUE, (_LINES,))],
        person=found["person"][:_LINES],
        approvals=[dict(row) for row in store.read(_APPROVALS, (_LINES,))],
        holds=found["holds"],
        load=host.load_per_core(),
        memory=host.available_memory(),
        next_wake=found["next_wake"],
        obstacle=status.obstacle(status.obstacles(folder, found, now)),
    )


def _quiet(folder: str | None, now: float) -> float | None:
    """Seconds since the worker last wrote something."""
    try:
        return None if folder is None else max(0.0, now - os.stat(os.path.join(folder, "stdout")).st_mtime)
    except OSError:
        return None


def _live(store: Store, folder: Path, jobs: int, every: float) -> None:
    from rich.console import Console
    from rich.live import Live

    console = Console(highlight=False)
    with Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            screen = look(store, folder, jobs, time.time())
            live.update(draw(screen, console), refresh=True)
            time.sleep(every)


def _print_once(screen: Screen) -> None:
    """Plain lines, for a pipe and for `--once`."""
    out(_head(screen))
    out(_load(screen))
    if screen.obstacle:
        out(screen.obstacle)
    for title, rows in _lists(screen):
        if rows:
            out(f"\n{title}")
            for cells in rows:
                out("  " + "  ".join(cells))


def _head(screen: Screen) -> str:
    counts = ", ".join(f"{number} {status}" for status, number in sorted(screen.counts.items())) or "nothing queued"
    wake = f", next try {until(screen.next_wake, screen.now)}" if screen.next_wake is not None else ""
    return f"{clean(screen.home)}: {counts}{wake}"


def _load(screen: Screen) -> str:
    slots = of(len(screen.slots), screen.jobs, "slot")
    return f"{slots}, load {screen.load:.2f} per core, {size(screen.memory)} memory free"


def _lists(screen: Screen) -> list[tuple[str, list[list[str]]]]:
    """Title and rows of each part, in the order in which they matter. Every cell is clean."""
    now = screen.now
    return [
        ("Running", [_slot(row, now) for row in screen.slots]),
        ("Approvals", [_approval(row, now) for row in screen.approvals]),
        (
            "Needs a person",
            [[str(row["id"]), row["status"], _cut(row["title"]), _cut(row["reason"])] for row in screen.person],
        ),
        ("On hold", [[_cut(row["key"]), until(row["until"], now), _cut(row["reason"])] for row in screen.holds]),
        ("Queue", [_queued(row, now) for row in screen.queue]),
    ]


def _slot(row: Row, now: float) -> list[str]:
    quiet = "" if row["quiet"] is None else f"quiet {duration(row['quiet'])}" if row["quiet"] >= 5 else "busy"
    return [
        str(row["id"]),
        _cut(row["candidate"] or "starting"),
        row["prompt"] or "",
        duration(max(0.0, now - row["since"])),
        quiet,
        _cut(row["title"]),
    ]


def _approval(row: Row, now: float) -> list[str]:
    asked = f"{duration(max(0.0, now - row['asked_at']))} ago"
    return [str(row["id"]), f"task {row['task_id']}", _cut(row["tool"]), _cut(row["input"], 80), asked]


def _queued(row: Row, now: float) -> list[str]:
    when = until(row["not_before"], now) if row["status"] == "waiting" else ""
    return [str(row["id"]), row["status"], _cut(row["title"]), when]


def _cut(text: str, limit: int = 60) -> str:
    shown = clean(text[: limit * 2])
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"


# --- on a terminal -------------------------------------------------------------------------------------------------


def draw(screen: Screen, console: Console) -> RenderableType:
    """Panels below each other; each list gets what is left of the height, the queue last."""
    from rich.console import Group

    parts: list[RenderableType] = [_line(_head(screen), "bold"), _line(_load(screen), "")]
    if screen.obstacle:
        parts.append(_line(screen.obstacle, "yellow"))
    left = console.height - 2 - len(parts)
    for title, rows in _lists(screen):
        if left < 4 or (not rows and title != "Running"):
            continue
        most = max(1, left - 3)
        parts.append(_panel(title, rows[:most], len(rows) - most, console.width))
        left -= min(len(rows), most) + 2 + (len(rows) > most) + (not rows)
    return Group(*parts, _line("Ctrl-C ends this screen; the workers go on", "dim"))


def _line(text: str, style: str) -> RenderableType:
    from rich.text import Text

    return Text(text, style=style, no_wrap=True, overflow="ellipsis")


_STYLES = {"Approvals": "bold yellow", "Needs a person": "bold red", "On hold": "yellow", "Running": "cyan"}


def _panel(title: str, rows: list[list[str]], more: int, width: int) -> RenderableType:
    from rich.panel import Panel
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    for place in range(len(rows[0]) if rows else 1):
        table.add_column(no_wrap=True, overflow="ellipsis", justify="right" if place == 0 else "left")
    for cells in rows:
        table.add_row(*(Text(cell) for cell in cells))
    if not rows:
        table.add_row(Text("nothing runs", style="dim"))
    if more > 0:
        table.add_row(Text(f"+{more}", style="dim"))
    return Panel(table, title=title, title_align="left", border_style=_STYLES.get(title, ""), width=width)
