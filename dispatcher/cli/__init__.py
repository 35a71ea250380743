"""The command line: a thin skin over the rooms below it.

`entry` answers `--version` and turns errors into lines; `catalog` names the commands without importing them;
`commands/` holds their Typer signatures, one file per group; the modules beside it do the work; `render` alone knows
Rich. Nothing below this room knows Typer or Rich.
"""
