"""`compare`: one brief, many candidates."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dispatcher.cli.catalog import QUEUE
from dispatcher.cli.options import Home, Json

app = typer.Typer()


@app.command("compare", rich_help_panel=QUEUE)
def compare(
    brief: Annotated[str | None, typer.Argument(metavar="BRIEF", help="The brief; - is stdin.")] = None,
    home: Home = None,
    candidates: Annotated[
        str, typer.Option("--candidates", metavar="A,B,C", help="Names of models.yaml, with commas between.")
    ] = "",
    times: Annotated[int, typer.Option("--times", metavar="N", min=1, max=100, help="Runs of each candidate.")] = 1,
    repo: Annotated[
        Path | None, typer.Option("--repo", metavar="FOLDER", help="The repository, if the brief names none.")
    ] = None,
    jobs: Annotated[
        int | None, typer.Option("--jobs", "-j", metavar="N", min=1, help="Runs at once. Default: limits.jobs.")
    ] = None,
    batch: Annotated[
        str | None,
        typer.Option("--batch", metavar="NAME", help="Its name; without BRIEF: print the table of that one."),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say only how it ended.")] = False,
    as_json: Json = False,
) -> int:
    """Run one brief with several candidates, side by side.

    Each run has its own copy of the same commit and the same checks, hidden ones included. Their work is kept as
    branches; nothing is accepted by itself. The table counts what happened and ranks nobody.
    """
    from dispatcher.cli.compare import compare_brief

    return compare_brief(
        brief,
        home,
        repo,
        names=[name.strip() for name in candidates.split(",") if name.strip()],
        times=times,
        jobs=jobs,
        batch=batch,
        quiet=quiet,
        as_json=as_json,
    )
