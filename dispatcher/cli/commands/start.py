"""`demo`, `init`, `trust`, `completion`, `doctor`: from nothing to a home that works."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dispatcher.cli.catalog import START
from dispatcher.cli.complete import shells
from dispatcher.cli.options import Home, Json

app = typer.Typer()


@app.command("demo", rich_help_panel=START)
def demo(
    folder: Annotated[
        Path | None,
        typer.Argument(metavar="[FOLDER]", help="A folder that does not exist yet. Default: a temporary one."),
    ] = None,
    worker: Annotated[
        str,
        typer.Option(
            "--worker", metavar="WORKER", help="auto, opencode, claude, both, or scripted (the built-in one)."
        ),
    ] = "auto",
) -> int:
    """Run three briefs for real, without an account or network.

    Makes a scratch repository and a home, queues three briefs, and runs them on the installed opencode and claude
    against a scripted model server on this machine, else on a built-in worker. One succeeds at once, one meets a rate
    limit and falls to the next model, one exits 1 with its work done and is asked to finish it.
    """
    from dispatcher.cli.demo import run_demo

    return run_demo(folder, worker)


@app.command("init", rich_help_panel=START)
def init(
    folder: Annotated[
        Path | None, typer.Argument(metavar="[FOLDER]", help="The home to make. Default: as for --home.")
    ] = None,
    home: Home = None,
) -> None:
    """Write a models.yaml that fits this machine.

    Looks for opencode and claude, asks opencode for its model ids, and trusts the new home. A models.yaml that is
    there is never replaced.
    """
    from dispatcher.cli.init import write_home

    write_home(folder, home)


@app.command("trust", rich_help_panel=START)
def trust(home: Home = None) -> None:
    """Allow the configuration of a home to run commands here.

    A models.yaml names commands (setup, checks, notifications). One that came with a repository or an archive runs
    nothing until you have read it and said this once.
    """
    from dispatcher.cli.init import trust_home

    trust_home(home)


@app.command("completion", rich_help_panel=START)
def completion(
    shell: Annotated[str, typer.Argument(metavar="SHELL", help="bash, zsh or fish.", autocompletion=shells)],
) -> None:
    """Make TAB know commands, task numbers and models.

    Prints a script, to be loaded where your shell starts.
    """
    from dispatcher.cli.completion import print_script

    print_script(shell)


@app.command("doctor", rich_help_panel=START)
def doctor(
    home: Home = None,
    repo: Annotated[
        Path | None, typer.Option("--repo", metavar="FOLDER", help="The repository to look at. Default: the one here.")
    ] = None,
    login: Annotated[
        bool, typer.Option("--login", help="Also ask one model of each CLI for a word. This can cost money.")
    ] = False,
    as_json: Json = False,
) -> int:
    """Check CLIs, models, logins, git, disk and this repository.

    Paths and versions of the CLIs that candidates use and whether they were tried, whether each pinned model id is
    known, what an alias means, whether the logins are there, git's identity and signing, disk and lock, and code in the
    repository that a CLI would run by itself. What could not be looked at is `unseen`. Exit code 1 if something is
    broken.
    """
    from dispatcher.cli.doctor import examine

    return examine(home, repo, login=login, as_json=as_json)
