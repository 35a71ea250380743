"""`log`, `watch`, `report`, `export`, `import`: the record of what was done, and what it cost."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dispatcher.cli.catalog import LOOK, RECORD
from dispatcher.cli.complete import candidate_names, statuses
from dispatcher.cli.options import Csv, Home, Json

app = typer.Typer()

_DATES = "7d, yesterday, 'last week', 2026-11-01, '2026-11-01 14:30'"
Since = Annotated[str | None, typer.Option("--since", metavar="WHEN", help=f"Started then or later: {_DATES}.")]
Until = Annotated[str | None, typer.Option("--until", metavar="WHEN", help="Started before that is over.")]
Candidate = Annotated[
    str | None, typer.Option("--candidate", metavar="NAME", help="Of models.yaml.", autocompletion=candidate_names)
]
Model = Annotated[str | None, typer.Option("--model", metavar="ID", help="The model id that was asked for.")]
HarnessName = Annotated[str | None, typer.Option("--harness", metavar="NAME", help="opencode, claude, ...")]
CredentialName = Annotated[str | None, typer.Option("--credential", metavar="NAME", help="Whose quota or money.")]
Difficulty = Annotated[str | None, typer.Option("--difficulty", metavar="LEVEL", help="trivial, easy, medium, hard.")]
Repository = Annotated[str | None, typer.Option("--repository", metavar="FOLDER", help="Tasks of this repository.")]
Batch = Annotated[str | None, typer.Option("--batch", metavar="NAME", help="Tasks of this batch.")]
JsonLines = Annotated[bool, typer.Option("--jsonl", help="Print one JSON object a line, as they are found.")]


@app.command("log", rich_help_panel=LOOK)
def log(
    what: Annotated[
        str | None, typer.Argument(metavar="[path|backup|metadata]", help="The database itself; see above.")
    ] = None,
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="Where a backup goes: a new file; - is stdout.")
    ] = None,
    home: Home = None,
    limit: Annotated[int, typer.Option("--limit", "-n", metavar="N", min=0, help="How many attempts; 0: all.")] = 20,
    task: Annotated[int | None, typer.Option("--task", metavar="TASK", help="Attempts of this task.")] = None,
    status: Annotated[
        str | None,
        typer.Option("--status", metavar="STATUS", help="Of the task, as it stands now.", autocompletion=statuses),
    ] = None,
    outcome: Annotated[
        str | None, typer.Option("--outcome", metavar="OUTCOME", help="How it ended; failed: not completed.")
    ] = None,
    verdict: Annotated[str | None, typer.Option("--verdict", metavar="VERDICT", help="What was decided.")] = None,
    difficulty: Difficulty = None,
    candidate: Candidate = None,
    model: Model = None,
    harness: HarnessName = None,
    credential: CredentialName = None,
    repository: Repository = None,
    batch: Batch = None,
    since: Since = None,
    until: Until = None,
    text: Annotated[
        str | None,
        typer.Option("--text", metavar="WORDS", help="All of them in title, brief, notes or final message; wor*."),
    ] = None,
    where: Annotated[
        str | None, typer.Option("--where", metavar="SQL", help="A condition on the columns of v_attempts.")
    ] = None,
    sort: Annotated[
        str | None, typer.Option("--sort", metavar="COLUMN", help="Smallest first; ~COLUMN: largest first.")
    ] = None,
    columns: Annotated[
        str | None, typer.Option("--columns", metavar="NAMES", help="Which, in which order: task,outcome,title.")
    ] = None,
    as_json: Json = False,
    as_jsonl: JsonLines = False,
    as_csv: Csv = False,
) -> None:
    """The attempts, newest first.

    Filters combine; a list (--outcome killed,lost) means any of them. JSON and CSV have every column.

    log path prints where the database is, log backup FILE makes a whole copy of it, log metadata describes it for
    Datasette.
    """
    if what is not None:
        from dispatcher.cli.logfile import run

        filters = (task, status, outcome, verdict, difficulty, candidate, model, harness, credential, repository)
        more = (batch, since, until, text, where, sort, columns)
        listing = limit != 20 or any(word is not None for word in (*filters, *more)) or as_json or as_jsonl or as_csv
        return run(what, file, home, listing=listing)
    from dispatcher.cli.log import show_log

    return show_log(
        home,
        limit=limit,
        task_id=task,
        status=status,
        outcome=outcome,
        verdict=verdict,
        difficulty=difficulty,
        candidate=candidate,
        model=model,
        harness=harness,
        credential=credential,
        repository=repository,
        batch=batch,
        since=since,
        until=until,
        text=text,
        where=where,
        sort=sort,
        columns=columns,
        as_json=as_json,
        as_jsonl=as_jsonl,
        as_csv=as_csv,
    )


@app.command("watch", rich_help_panel=LOOK)
def watch(
    home: Home = None,
    once: Annotated[bool, typer.Option("--once", help="Draw it once and end.")] = False,
    every: Annotated[float, typer.Option("--every", min=0.2, metavar="SECONDS", help="How often to look.")] = 1.0,
) -> None:
    """One live screen: slots, queue, holds, approvals, load."""
    from dispatcher.cli.watch import watch_home

    watch_home(home, once=once, every=every)


@app.command("report", rich_help_panel=RECORD)
def report(
    home: Home = None,
    since: Since = None,
    until: Until = None,
    by: Annotated[
        str,
        typer.Option("--by", metavar="GROUP", help="candidate, model, harness, credential, billing, difficulty, ..."),
    ] = "candidate",
    unit: Annotated[
        str | None, typer.Option("--unit", metavar="STEP", help="day, week or month. Default: fits the period.")
    ] = None,
    difficulty: Difficulty = None,
    candidate: Candidate = None,
    model: Model = None,
    harness: HarnessName = None,
    credential: CredentialName = None,
    repository: Repository = None,
    batch: Batch = None,
    table: Annotated[
        str | None, typer.Option("--table", metavar="NAME", help="Only this one: summary, main, outcomes, ...")
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option(
            "--html", metavar="FILE", help="Write one self-contained page, in place of an older one; - is stdout."
        ),
    ] = None,
    tasks: Annotated[int, typer.Option("--tasks", metavar="N", min=0, help="How many tasks the page lists.")] = 5000,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown.")] = False,
    as_json: Json = False,
    as_csv: Csv = False,
) -> None:
    """What was done, on which model, and what it cost.

    Counts, never bare rates: tasks and attempts by candidate and outcome, delivered or not, saved by a finish prompt,
    quota events, minutes and money by credential, the cost of an accepted task by difficulty and model.

    --csv prints one table: that of --table, else the main one.
    """
    from dispatcher.cli.report import show_report

    show_report(
        home,
        since=since,
        until=until,
        by=by,
        unit=unit,
        difficulty=difficulty,
        candidate=candidate,
        model=model,
        harness=harness,
        credential=credential,
        repository=repository,
        batch=batch,
        table=table,
        html=html,
        tasks=tasks,
        markdown=markdown,
        as_json=as_json,
        as_csv=as_csv,
    )


@app.command("export", rich_help_panel=RECORD)
def export(
    file: Annotated[Path | None, typer.Argument(metavar="[FILE]", help="Into a new file. Default: stdout.")] = None,
    home: Home = None,
) -> None:
    """Write the whole log as JSON lines; import reads it back."""
    from dispatcher.cli.moving import export_log

    export_log(file, home)


@app.command("import", rich_help_panel=RECORD)
def import_(
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="What to read; a CLI's own store is found by itself.")
    ] = None,
    home: Home = None,
    source: Annotated[
        str,
        typer.Option("--from", metavar="KIND", help="export (default), joblog, opencode or claude."),
    ] = "export",
    since: Annotated[
        str | None, typer.Option("--since", metavar="WHEN", help="Only runs that began then or later.")
    ] = None,
    credential: Annotated[
        str | None, typer.Option("--credential", metavar="NAME", help="Who paid, where models.yaml does not tell.")
    ] = None,
    rebuild: Annotated[
        bool, typer.Option("--rebuild", help="Make a lost database anew from the journal and the attempt folders.")
    ] = False,
) -> None:
    """Read an export, a joblog, or what was run by hand.

    An export goes into an empty home and keeps all numbers. A joblog of GNU parallel, and the session stores of
    opencode and claude, become tasks and attempts of their own (source: import); what is known already is left out.
    """
    from dispatcher.cli.moving import import_log

    import_log(file, home, source=source, since=since, credential=credential, rebuild=rebuild)
