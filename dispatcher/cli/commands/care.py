"""`cron`, `prune`, `bug-report`: running by the clock, cleaning up, asking for help."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dispatcher.cli.catalog import CARE
from dispatcher.cli.options import Home, Json, TaskId

app = typer.Typer()


@app.command("cron", rich_help_panel=CARE)
def cron(
    action: Annotated[str, typer.Argument(metavar="ACTION", help="install, show or remove.")],
    home: Home = None,
    every: Annotated[
        str,
        typer.Option(
            "--every", metavar="TIME", help="10m, 2h, a time of day such as 02:30, or five fields as in a crontab."
        ),
    ] = "10m",
    add: Annotated[
        list[Path] | None,
        typer.Option("--add", metavar="BRIEFS", help="Each time queue what is new there. Repeatable."),
    ] = None,
    until: Annotated[
        str | None, typer.Option("--until", metavar="HH:MM", help="Start nothing from that time of day on.")
    ] = None,
    env_file: Annotated[
        Path | None,
        typer.Option("--env-file", metavar="FILE", help="NAME=value lines for the workers, readable by you alone."),
    ] = None,
    systemd: Annotated[bool, typer.Option("--systemd", help="A systemd user timer instead of a crontab line.")] = False,
) -> None:
    """Start run by the clock: install, show or remove.

    Writes one marked block into your crontab and touches no other line. PATH and what else the workers need are written
    into the line, since cron gives a job nearly nothing; keys are not (see --env-file). Output goes to logs/cron.log.
    """
    from dispatcher.cli.scheduling import change_cron

    change_cron(action, home, every=every, add=add or [], until=until, env_file=env_file, systemd=systemd)


@app.command("prune", rich_help_panel=CARE)
def prune(
    home: Home = None,
    older: Annotated[
        str, typer.Option("--older", metavar="DURATION", help="Only tasks that ended that long ago.")
    ] = "30d",
    refs: Annotated[
        bool, typer.Option("--refs", help="Also private refs in the repositories, after asking: the last hold on work.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Remove the refs without asking.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be removed.")] = False,
    as_json: Json = False,
) -> None:
    """Remove old logs and finished copies; never unsaved work.

    Only of tasks that are accepted, rejected, cancelled, expired or failed, and logs that were put aside and that no
    row knows. A copy goes only when everything in it is on a ref of its repository; the rows of the log stay. Refs that
    no task here names are never removed; --dry-run names them.
    """
    from dispatcher.cli.prune import prune_home

    prune_home(home, older=older, refs=refs, yes=yes, dry_run=dry_run, as_json=as_json)


@app.command("bug-report", rich_help_panel=CARE)
def bug_report(
    task: TaskId,
    home: Home = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="A new file. Default: dispatcher-report-TASK.tar.gz here."),
    ] = None,
) -> None:
    """Pack one task into an archive, keys taken out.

    Its rows, events and checks, head and tail of its logs, the configuration and the versions. Known keys, what looks
    like one, your account, host and home folder are replaced; the brief and the worker's words are in it. Look through
    it before you send it.
    """
    from dispatcher.cli.bug_report import write_report

    write_report(task, home, output)
