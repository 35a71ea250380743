"""`new`, `add`, `edit`, `run`: briefs in, work done."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dispatcher.cli.catalog import QUEUE
from dispatcher.cli.options import Home, Json, TaskId

app = typer.Typer()


@app.command("new", rich_help_panel=QUEUE)
def new(
    title: Annotated[str, typer.Argument(metavar="TITLE", help="What the task is, in a few words.")],
    folder: Annotated[Path, typer.Option("--folder", metavar="FOLDER", help="Where to put it.")] = Path("briefs"),
    edit: Annotated[bool, typer.Option("--edit", "-e", help="Open it in your editor.")] = False,
) -> None:
    """Write a new brief to fill in."""
    from dispatcher.cli.briefs import write_new

    write_new(title, folder, edit=edit)


@app.command("add", rich_help_panel=QUEUE)
def add(
    briefs: Annotated[
        list[str], typer.Argument(metavar="BRIEF...", help="Files, folders (their *.md), or - for stdin.")
    ],
    home: Home = None,
    repo: Annotated[
        Path | None,
        typer.Option(
            "--repo", metavar="FOLDER", help="The repository of briefs that name none. Default: the one here."
        ),
    ] = None,
    batch: Annotated[
        str | None, typer.Option("--batch", metavar="NAME", help="Name of the batch. Several briefs get one anyway.")
    ] = None,
    again: Annotated[bool, typer.Option("--again", help="Queue briefs anew that were already run.")] = False,
    as_json: Json = False,
) -> None:
    """Queue briefs: files, a folder, or - for stdin.

    Prints the number of each task and its difficulty with the reason. The same brief for the same repository is queued
    once: while it waits it is updated, after it ran it is only named (see --again).
    """
    from dispatcher.cli.adding import add_briefs

    add_briefs(briefs, home, repo, batch=batch, again=again, as_json=as_json)


@app.command("edit", rich_help_panel=QUEUE)
def edit(task: TaskId, home: Home = None) -> None:
    """Change the brief of a task that is not running.

    Opens the stored text in VISUAL or EDITOR; a file that the brief came from is left alone.
    """
    from dispatcher.cli.briefs import edit_task

    edit_task(task, home)


@app.command("run", rich_help_panel=QUEUE)
def run(
    home: Home = None,
    jobs: Annotated[
        int | None,
        typer.Option(
            "--jobs", "-j", metavar="N", min=1, help="How many tasks of the home at once. Default: limits.jobs."
        ),
    ] = None,
    task: Annotated[int | None, typer.Option("--task", metavar="TASK", help="Only this task.")] = None,
    max_tasks: Annotated[
        int | None, typer.Option("--max-tasks", metavar="N", min=1, help="Start at most so many tasks.")
    ] = None,
    add: Annotated[
        list[str] | None, typer.Option("--add", metavar="BRIEF", help="First queue what is new there. Repeatable.")
    ] = None,
    batch: Annotated[
        str | None, typer.Option("--batch", metavar="NAME", help="Name of the batch that --add makes.")
    ] = None,
    until: Annotated[
        str | None, typer.Option("--until", metavar="HH:MM", help="Start nothing from then on; what runs may finish.")
    ] = None,
    max_minutes: Annotated[
        int | None, typer.Option("--max-minutes", metavar="N", min=1, help="Start nothing after so many minutes.")
    ] = None,
    notify: Annotated[
        str | None,
        typer.Option("--notify", metavar="COMMAND", help="Run this when a task needs a person or a batch ends."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print which model each task would get, and every reason. Starts nothing.")
    ] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Stay, and take what is added later.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say only how it ended.")] = False,
    as_json: Json = False,
) -> int:
    """Work on the queue until nothing can run now.

    Safe to start from cron each minute: a second run joins, and --jobs is a limit of the home. Ctrl-C lets the workers
    finish and then stops; a second Ctrl-C ends them, and their tasks go on at the next run.

    Exit codes: 0 fine, also with nothing to do; 1 this run left a task that needs a person; 2 wrong usage or
    configuration, or nothing can be written; 70 a fault of the program itself; 75 work is left but every model is on
    hold (stderr says until when) or the host is busy; 130 a second Ctrl-C, 143 SIGTERM ended workers.
    """
    from dispatcher.cli.running import run_queue

    return run_queue(
        home,
        jobs=jobs,
        task_id=task,
        max_tasks=max_tasks,
        add=add or [],
        batch=batch,
        until_clock=until,
        max_minutes=max_minutes,
        notify=notify,
        dry_run=dry_run,
        watch=watch,
        quiet=quiet,
        as_json=as_json,
    )
