"""`approvals`, `approve`, `deny`: calls that wait for a person."""

from __future__ import annotations

from typing import Annotated

import typer

from dispatcher.cli.catalog import STEER
from dispatcher.cli.options import Home, Json

app = typer.Typer()

Number = Annotated[int, typer.Argument(metavar="ID", help="Number of the approval, as `approvals` prints it.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask again on a terminal.")]


@app.command("approvals", rich_help_panel=STEER)
def approvals(
    action: Annotated[
        str, typer.Argument(metavar="[ACTION]", help="list, test COMMAND, grants, or revoke GRANT.")
    ] = "list",
    what: Annotated[str, typer.Argument(metavar="[WHAT]", help="A shell command, or the number of a grant.")] = "",
    home: Home = None,
    tool: Annotated[
        str, typer.Option("--tool", metavar="NAME", help="With test: WHAT is the JSON input of this tool.")
    ] = "bash",
    watch: Annotated[bool, typer.Option("--watch", help="Print again when something changes, until Ctrl-C.")] = False,
    as_json: Json = False,
) -> None:
    """Calls that wait for you, past answers, standing grants.

    `approvals test "git push"` shows which rule decides about a command, without running it.
    """
    from dispatcher.cli.approvals import run_action

    run_action(action, what, home, tool=tool, watch=watch, as_json=as_json)


@app.command("approve", rich_help_panel=STEER)
def approve(
    number: Number,
    home: Home = None,
    remember: Annotated[
        str | None,
        typer.Option("--remember", metavar="task|repo", help="Let exactly this call through from now on."),
    ] = None,
    yes: Yes = False,
) -> None:
    """Let a call that waits run, once.

    Shows the whole input first, with control characters written out. An approval holds for exactly this tool, input
    and folder, and is used up by one call. `--remember` makes a grant for the same call of this task, or of every task
    of this repository; it releases no other call. `approvals grants` lists them, `approvals revoke` takes one back.
    """
    from dispatcher.cli.approvals import approve_call

    approve_call(number, home, remember=remember, yes=yes)


@app.command("deny", rich_help_panel=STEER)
def deny(
    number: Number,
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="The model reads it, and goes on.")] = "",
    home: Home = None,
    yes: Yes = False,
) -> None:
    """Refuse a call that waits; the model is told the reason."""
    from dispatcher.cli.approvals import deny_call

    deny_call(number, home, reason=reason, yes=yes)
