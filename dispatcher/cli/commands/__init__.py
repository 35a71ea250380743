"""The Typer signatures of all commands, one file per group. What they do is in the modules of `dispatcher.cli`."""
