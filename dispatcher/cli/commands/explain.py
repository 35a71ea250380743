"""`explain`, `classify`: why things went as they did."""

from __future__ import annotations

from typing import Annotated

import typer

from dispatcher.cli.catalog import LOOK
from dispatcher.cli.options import Home, Json, TaskId

app = typer.Typer()


@app.command("explain", rich_help_panel=LOOK)
def explain(task: TaskId, home: Home = None, as_json: Json = False) -> None:
    """Tell a task's story: what was seen, what was decided, why."""
    from dispatcher.cli.explain import explain_task

    explain_task(task, home, as_json=as_json)


@app.command("classify", rich_help_panel=LOOK)
def classify(
    files: Annotated[
        list[str], typer.Argument(metavar="FILE...", help="Transcripts, stderr logs, attempt folders; - is stdin.")
    ],
    as_json: Json = False,
) -> int:
    """How a saved run of either CLI ended, and what proves it.

    What a file is, its content tells, not its name; of several runs in one file the last one is judged.
    """
    from dispatcher.cli.classify import classify_files

    return classify_files(files, as_json=as_json)
