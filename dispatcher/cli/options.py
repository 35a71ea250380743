"""Options and arguments that several commands share, each defined once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dispatcher.cli.complete import hold_keys, task_ids

Home = Annotated[
    Path | None,
    typer.Option(
        "--home",
        metavar="FOLDER",
        help="The folder with models.yaml. Default: DISPATCHER_HOME, else the current folder if it has one, "
        "else the user's configuration folder.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Csv = Annotated[bool, typer.Option("--csv", help="Print CSV.")]
TaskId = Annotated[int, typer.Argument(metavar="TASK", help="Number of the task.", autocompletion=task_ids)]
TaskIds = Annotated[list[int], typer.Argument(metavar="TASK...", help="Numbers of tasks.", autocompletion=task_ids)]
HoldName = Annotated[
    str, typer.Argument(metavar="HOLD", help="Number or key, as `holds` prints it.", autocompletion=hold_keys)
]
