"""`compare`: one brief with several candidates, and the table of what came of it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dispatcher import compare, scheduler
from dispatcher.cli import home, idle, places
from dispatcher.cli.adding import read, sources
from dispatcher.cli.render import Column, clean, json_out, note, out, table
from dispatcher.cli.running import say
from dispatcher.cli.wording import clock, duration, money, tokens
from dispatcher.errors import BadInput
from dispatcher.words import plural

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dispatcher.compare import Run
    from dispatcher.config import Config
    from dispatcher.store import Store

_ENOUGH = 3  # runs of each, below which it is said how little the figures mean


def compare_brief(
    brief: str | None,
    explicit: Path | None,
    repo: Path | None,
    *,
    names: Sequence[str],
    times: int,
    jobs: int | None,
    batch: str | None,
    quiet: bool,
    as_json: bool,
) -> int:
    """0 when every run rests, 75 when some wait for a candidate that is on hold."""
    from dispatcher.config import require_trust

    config = home.configured(explicit)
    if brief is None:
        if batch is None or names:
            raise BadInput(
                "which brief?", hint="dispatcher compare BRIEF --candidates a,b, or --batch NAME of an old one"
            )
        words = {"--times": times != 1, "--repo": repo is not None, "--jobs": jobs is not None, "--quiet": quiet}
        idle.refuse("without BRIEF", words, f"dispatcher compare --batch {batch} prints its table, and runs nothing")
        with home.existing(explicit) as store:
            return _report(batch, compare.runs(store, batch), as_json=as_json)
    require_trust(config.home)
    with home.opened(config.home) as store:
        name = batch or f"compare-{Path(brief).stem}-{time.strftime('%Y%m%d-%H%M%S')}"
        _queue(config, store, brief, repo, compare.candidates(names, config), times, name)
        return _run(config, store, name, jobs, quiet=quiet, as_json=as_json)


def _queue(
    config: Config, store: Store, brief: str, repo: Path | None, names: list[str], times: int, batch: str
) -> None:
    from dispatcher.repository import copies

    if Path(brief).is_dir():
        raise BadInput(f"{brief} is a folder", hint="compare takes one brief")
    [source] = sources([brief])
    ready = read(source, config, places.checked(repo, "--repo") if repo is not None else None)
    new = ready.new
    base = None
    if new.repository is not None:
        from dispatcher.brief import parse

        wanted = parse(new.brief_text).base or config.repository(new.repository).base
        base = copies.commit_of(Path(new.repository), wanted)
    compare.add(store, new, names, times, base, batch, time.time(), home.person())
    note(f"{batch}: {plural(len(names), 'candidate')}, {plural(times, 'run')} each, from {(base or 'nothing')[:12]}")


def _run(config: Config, store: Store, batch: str, jobs: int | None, *, quiet: bool, as_json: bool) -> int:
    from dispatcher.config import logs_dir

    options = scheduler.Options(jobs=jobs, batch=batch, say=None if quiet else say, tell=lambda text: note(clean(text)))
    summary = scheduler.run(config, store, logs_dir(config.home), options)
    if summary.note:
        note(clean(summary.note))
    if summary.waiting_until is not None:
        note(f"not all of it has run: the next try is at {clock(summary.waiting_until)}")
    return _report(batch, compare.runs(store, batch), as_json=as_json)


def _report(batch: str, found: list[Run], *, as_json: bool) -> int:
    rows = compare.summary(found)
    if as_json:
        json_out({"batch": batch, "candidates": rows, "runs": found})
    else:
        table([_shown(row) for row in rows], COLUMNS, title=clean(batch))
        out()
        for run in found:
            out(_line(run))
    left = sum(run.left for run in found)
    if left:
        note(f"{plural(left, 'run')} left: dispatcher run, then dispatcher compare --batch {clean(batch)}")
    elif min(row["runs"] for row in rows) < _ENOUGH:
        note("So few runs count what happened; they rank nobody. More of them: --times N")
    return scheduler.ALL_HELD if left else 0


def _shown(row: dict[str, Any]) -> dict[str, Any]:
    """The row as the table prints it: counts as `2/3`."""
    outside = f", {row['outside_touch']} outside touch" if row["outside_touch"] else ""
    return {
        **row,
        "delivered": f"{row['delivered']}/{row['runs']}",
        "checks": f"{row['checks_passed']}/{row['checks']}{outside}",
        "hidden": f"{row['hidden_passed']}/{row['hidden']}",
        "diff": f"{plural(round(row['files']), 'file')} +{row['insertions']:.0f} -{row['deletions']:.0f}",
    }


def _line(run: Run) -> str:
    at = f" on {run.branch}" if run.branch else ""
    return f"task {run.task} {clean(run.candidate)} {run.status}{clean(at)}: {clean(run.reason)}"


COLUMNS = (
    Column("candidate", "candidate"),
    Column("delivered", "delivered", right=True),
    Column("checks", "checks", right=True),
    Column("hidden", "hidden", right=True, least=90),
    Column("attempts", "tries", right=True, least=90),
    Column("stalled", "stalled", right=True),
    Column("minutes", "time/run", lambda minutes: duration(minutes * 60), right=True),
    Column("tokens", "tokens/run", lambda count: tokens(round(count)), none="?", right=True, least=80),
    Column("cost_usd", "cost/run", money, none="?", right=True),
    Column("diff", "diff/run", least=100),
)
