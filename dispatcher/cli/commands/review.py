"""`review`: a judgement of what a task left."""

from __future__ import annotations

from typing import Annotated

import typer

from dispatcher.cli.catalog import STEER
from dispatcher.cli.complete import candidate_names
from dispatcher.cli.options import Home, Json, TaskId

app = typer.Typer()


@app.command("review", rich_help_panel=STEER)
def review(
    task: TaskId,
    home: Home = None,
    diff: Annotated[bool, typer.Option("--diff", help="Print the whole change as a patch.")] = False,
    accept: Annotated[bool, typer.Option("--accept", help="Accept the work.")] = False,
    into: Annotated[
        str | None, typer.Option("--into", metavar="BRANCH", help="And bring it into this branch, or change nothing.")
    ] = None,
    how: Annotated[str | None, typer.Option("--how", metavar="WAY", help="ff (default), merge or squash.")] = None,
    reject: Annotated[bool, typer.Option("--reject", help="Reject the work; needs --note.")] = False,
    note: Annotated[
        str | None, typer.Option("--note", metavar="TEXT", help="The reason, or a finding when nothing is decided.")
    ] = None,
    follow_up: Annotated[
        bool, typer.Option("--follow-up", help="Queue the brief again with the note, from the rejected commit.")
    ] = False,
    reviewer: Annotated[
        str | None,
        typer.Option(
            "--with",
            metavar="NAME",
            help="Have this candidate look at the change now; it can only read.",
            autocompletion=candidate_names,
        ),
    ] = None,
    as_json: Json = False,
) -> int:
    """Look at finished work; accept or reject it.

    Without a decision: the change in numbers, the checks, the cost, the worker's last words, and what was said before.
    A checkout of yours that has BRANCH is moved along when it is clean, and is a reason to refuse when it is not.
    """
    from dispatcher.cli.review import review_task

    return review_task(
        task,
        home,
        accept=accept,
        reject=reject,
        words=note,
        into=into,
        how=how,
        follow_up=follow_up,
        reviewer=reviewer,
        diff=diff,
        as_json=as_json,
    )
