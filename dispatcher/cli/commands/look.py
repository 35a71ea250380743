"""`status`, `show`, `log`, `tail`, `work`: what happened and what is happening."""

from __future__ import annotations

from typing import Annotated

import typer

from dispatcher.cli.catalog import LOOK
from dispatcher.cli.complete import candidate_names, statuses
from dispatcher.cli.options import Csv, Home, Json, TaskId

app = typer.Typer()


@app.command("status", rich_help_panel=LOOK)
def status(home: Home = None, as_json: Json = False) -> None:
    """What runs, waits, and needs a person."""
    from dispatcher.cli.status import show_status

    show_status(home, as_json=as_json)


@app.command("ready", rich_help_panel=LOOK)
def ready(home: Home = None, as_json: Json = False, as_csv: Csv = False) -> None:
    """What can run now, and what other tasks wait for."""
    from dispatcher.cli.ready import show_ready

    show_ready(home, as_json=as_json, as_csv=as_csv)


@app.command("show", rich_help_panel=LOOK)
def show(
    task: TaskId,
    home: Home = None,
    brief: Annotated[bool, typer.Option("--brief", help="Also print the brief.")] = False,
    as_json: Json = False,
) -> None:
    """One task whole: attempts, evidence, verdicts."""
    from dispatcher.cli.show import show_task

    show_task(task, home, brief=brief, as_json=as_json)


@app.command("log", rich_help_panel=LOOK)
def log(
    home: Home = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="How many attempts.")] = 20,
    task: Annotated[int | None, typer.Option("--task", metavar="TASK", help="Only this task.")] = None,
    candidate: Annotated[
        str | None, typer.Option("--candidate", metavar="NAME", help="Only this one.", autocompletion=candidate_names)
    ] = None,
    status: Annotated[
        str | None, typer.Option("--status", help="Only tasks with this status.", autocompletion=statuses)
    ] = None,
    as_json: Json = False,
    as_csv: Csv = False,
) -> None:
    """The attempts, newest first.

    Example: dispatcher log -n 50 --candidate sonnet --csv
    """
    from dispatcher.cli.log import show_log

    show_log(home, limit=limit, task_id=task, candidate=candidate, status=status, as_json=as_json, as_csv=as_csv)


@app.command("tail", rich_help_panel=LOOK)
def tail(
    task: TaskId,
    home: Home = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the task rests.")] = False,
    attempt: Annotated[
        int | None, typer.Option("--attempt", min=1, help="Number within the task. Default: the last.")
    ] = None,
    raw: Annotated[
        bool, typer.Option("--raw", help="The worker's own lines, with control characters made visible.")
    ] = False,
    errors: Annotated[bool, typer.Option("--stderr", help="The worker's stderr instead.")] = False,
) -> None:
    """What a worker says and does, readable."""
    from dispatcher.cli.tail import tail_task

    tail_task(task, home, follow=follow, wanted=attempt, raw=raw, errors=errors)


@app.command("work", rich_help_panel=LOOK)
def work(task: TaskId, home: Home = None) -> None:
    """Print the path of a task's copy.

    Example: cd "$(dispatcher work 12)"
    """
    from dispatcher.cli.show import print_copy

    print_copy(task, home)
