"""`cancel`, `pause`, `resume`, `retry`: a person's word on tasks."""

from __future__ import annotations

import typer

from dispatcher.cli.catalog import STEER
from dispatcher.cli.options import Home, TaskIds

app = typer.Typer()


@app.command("cancel", rich_help_panel=STEER)
def cancel(tasks: TaskIds, home: Home = None) -> None:
    """End tasks for good; the work is kept.

    A running worker is ended too, also when the `run` that started it is dead.
    """
    from dispatcher.cli.steer import cancel_tasks

    cancel_tasks(tasks, home)


@app.command("pause", rich_help_panel=STEER)
def pause(tasks: TaskIds, home: Home = None) -> None:
    """Stop tasks until they are resumed.

    A running worker is ended; its copy and session are kept and used again.
    """
    from dispatcher.cli.steer import pause_tasks

    pause_tasks(tasks, home)


@app.command("resume", rich_help_panel=STEER)
def resume(tasks: TaskIds, home: Home = None) -> None:
    """Queue paused tasks again."""
    from dispatcher.cli.steer import resume_tasks

    resume_tasks(tasks, home)


@app.command("retry", rich_help_panel=STEER)
def retry(tasks: TaskIds, home: Home = None) -> None:
    """Queue ended tasks again with fresh counters.

    The copy and what is in it are kept, so the next worker goes on from there.
    """
    from dispatcher.cli.steer import retry_tasks

    retry_tasks(tasks, home)
