"""`models`, `holds`, `hold`, `release`, `quota`: what may be used, what may not, and what is left."""

from __future__ import annotations

from typing import Annotated

import typer

from dispatcher.cli.catalog import ROSTER
from dispatcher.cli.complete import hold_targets
from dispatcher.cli.options import Csv, HoldName, Home, Json

app = typer.Typer()


@app.command("models", rich_help_panel=ROSTER)
def models(home: Home = None, as_json: Json = False, as_csv: Csv = False) -> None:
    """The candidates and routes, and which are free now."""
    from dispatcher.cli.roster import show_models

    show_models(home, as_json=as_json, as_csv=as_csv)


@app.command("holds", rich_help_panel=ROSTER)
def holds(home: Home = None, as_json: Json = False, as_csv: Csv = False) -> None:
    """What is on hold, until when, and why."""
    from dispatcher.cli.roster import show_holds

    show_holds(home, as_json=as_json, as_csv=as_csv)


@app.command("hold", rich_help_panel=ROSTER)
def hold(
    name: Annotated[
        str,
        typer.Argument(metavar="NAME", help="A candidate, credential or provider.", autocompletion=hold_targets),
    ],
    home: Home = None,
    until: Annotated[
        str | None,
        typer.Option("--for", metavar="DURATION", help="Such as 45m, 2h, 3d. Default: until it is released."),
    ] = None,
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why, for the listing.")] = "held by a person",
    as_json: Json = False,
) -> None:
    """Keep a candidate, credential or provider from use."""
    from dispatcher.cli.roster import add_hold

    add_hold(name, home, lasts=until, reason=reason, as_json=as_json)


@app.command("release", rich_help_panel=ROSTER)
def release(name: HoldName, home: Home = None, as_json: Json = False) -> None:
    """Lift a hold."""
    from dispatcher.cli.roster import lift_hold

    lift_hold(name, home, as_json=as_json)


@app.command("quota", rich_help_panel=ROSTER)
def quota(home: Home = None, as_json: Json = False, as_csv: Csv = False) -> None:
    """What is used, of which budget, and when it runs out.

    The list price is what the CLI computes; billed is what was really paid. Free and subscription runs are billed
    nothing; a price that nobody told is unknown, not 0.
    """
    from dispatcher.cli.quota import show_quota

    show_quota(home, as_json=as_json, as_csv=as_csv)
