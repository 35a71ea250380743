"""`status`, `show`, `tail`, `work`: what happened and what is happening."""

from __future__ import annotations

from typing import Annotated

import typer

from dispatcher.cli.catalog import LOOK
from dispatcher.cli.options import Csv, Home, Json, TaskId

app = typer.Typer()


@app.command("status", rich_help_panel=LOOK)
def status(
    home: Home = None,
    every: Annotated[bool, typer.Option("--all", help="List all tasks by number.")] = False,
    as_json: Json = False,
) -> None:
    """What runs, waits, and needs a person."""
    from dispatcher.cli.status import show_status

    show_status(home, every=every, as_json=as_json)


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
    attempt: Annotated[
        int | None, typer.Option("--attempt", metavar="N", min=1, help="Only this attempt; number within the task.")
    ] = None,
    stdout: Annotated[bool, typer.Option("--stdout", help="What its worker wrote, line by line.")] = False,
    stderr: Annotated[bool, typer.Option("--stderr", help="What its worker wrote to stderr.")] = False,
    prompt: Annotated[bool, typer.Option("--prompt", help="The prompt that it was given.")] = False,
    as_json: Json = False,
) -> None:
    """One task whole: attempts, evidence, verdicts.

    --stdout, --stderr and --prompt print a file of an attempt (default: the last one) with control characters made
    visible; tail prints the output as a readable story.
    """
    from dispatcher.cli import idle
    from dispatcher.cli.show import show_file, show_task

    files = [name for name, wanted in (("stdout", stdout), ("stderr", stderr), ("prompt.md", prompt)) if wanted]
    if files:
        words = {"--brief": brief, "--json": as_json}
        idle.refuse(f"with --{files[0].removesuffix('.md')}", words, "files are printed as they are; ask for one thing")
        return show_file(task, home, attempt=attempt, names=files)
    return show_task(task, home, brief=brief, only=attempt, as_json=as_json)


@app.command("tail", rich_help_panel=LOOK)
def tail(
    task: TaskId,
    home: Home = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the task rests.")] = False,
    attempt: Annotated[
        int | None, typer.Option("--attempt", metavar="N", min=1, help="Number within the task. Default: the last.")
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
    """Print the path of a task's copy."""
    from dispatcher.cli.show import print_copy

    print_copy(task, home)
