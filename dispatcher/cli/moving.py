"""`export` and `import`: the log as a file, and what others wrote as part of the log. Says how far it is."""

from __future__ import annotations

import os
import time
from contextlib import closing
from pathlib import Path

from dispatcher import intake
from dispatcher.cli import home, idle, infile, outfile, when
from dispatcher.cli.progress import counted, counting
from dispatcher.cli.render import clean, note, out
from dispatcher.errors import BadInput
from dispatcher.store import transfer
from dispatcher.words import plural

KINDS = ("export", "joblog", "opencode", "claude")


def export_log(file: Path | None, explicit: Path | None) -> None:
    with home.existing(explicit, reading=True) as store, closing(transfer.export_lines(store)) as lines:
        if file is None or outfile.is_stdout(file):
            for line in lines:
                out(line)
            return
        count = -1
        with outfile.opened(file) as opened:
            for line in counted(lines, "rows"):
                opened.write(line.encode("ascii") + b"\n")
                count += 1
        note(f"{plural(count, 'row')} written to {clean(str(file))}")


def import_log(
    file: Path | None,
    explicit: Path | None,
    *,
    source: str,
    since: str | None,
    credential: str | None,
    rebuild: bool,
) -> None:
    beside = {"--since": since is not None, "--credential": credential is not None}
    if rebuild:
        words = {"FILE": file is not None, "--from": source != KINDS[0], **beside}
        idle.refuse("with --rebuild", words, "dispatcher import --rebuild reads the journal and the attempt folders")
    elif source == KINDS[0]:
        idle.refuse("with an export", beside, "an export goes in whole; runs by hand can be chosen: see --from")
    folder = home.find(explicit, may_be_missing=True)
    if rebuild:
        return _rebuild(folder)
    if source not in KINDS:
        raise BadInput(f"--from knows no {source!r}", hint="one of " + ", ".join(KINDS))
    if source == "export":
        return _import_export(_needed(file, source), folder)
    return _import_runs(file, folder, source, since, credential)


def _needed(file: Path | None, source: str) -> Path:
    if file is None:
        raise BadInput(f"import --from {source} needs a file", hint="dispatcher import FILE; - reads stdin")
    return file


def _import_export(file: Path, folder: Path) -> None:
    with home.opened(folder) as store, counting("rows") as tell:
        count = transfer.import_lines(
            store, infile.lines(file, "name a file that export wrote"), file=str(file), tell=tell
        )
    note(f"{plural(count, 'row')} read into {clean(str(folder))}")


def _import_runs(file: Path | None, folder: Path, source: str, since: str | None, credential: str | None) -> None:
    start = when.since(since, time.time()) if since is not None else None
    if source == "joblog":
        runs = intake.joblog(infile.lines(_needed(file, source), "name a file that --joblog wrote"), str(file))
    else:
        runs = intake.sessions(source, file, os.environ)
    roster = home.configured(folder).roster if (folder / "models.yaml").exists() else None
    with home.opened(folder) as store:
        wanted = (run for run in runs if start is None or run.started_at >= start)
        with counting("runs") as tell:
            counts = intake.store_runs(store, wanted, roster=roster, credential=credential, now=time.time(), tell=tell)
    known = f"; {counts.known:,} were in the log already" if counts.known else ""
    added = plural(counts.added, f"run of {source} added as a task", f"runs of {source} added as tasks")
    note(f"{added}{known}")


def _rebuild(folder: Path) -> None:
    from dispatcher.config import database
    from dispatcher.intake import rebuild

    with counting("entries") as tell:
        done = rebuild.rebuild(database(folder), time.time(), tell=tell)
    note(f"{plural(done.tasks, 'task')} and {plural(done.attempts, 'attempt')} are back in {clean(str(done.database))}")
    for line in done.notes:
        note(clean(line))
