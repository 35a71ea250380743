"""The Typer application: a group that imports a command's module only when that command is named."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_command, get_command_from_info

from dispatcher import __version__
from dispatcher.cli.catalog import BY_NAME, COMMANDS, GROUPS, Entry
from dispatcher.cli.examples import epilog

_LARGEST = 10**15


class LazyGroup(TyperGroup):
    """Commands come from the catalog; their modules are imported when one is invoked or asked for its help."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(BY_NAME)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return load(BY_NAME[cmd_name]) if cmd_name in BY_NAME else None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[0] not in BY_NAME:
            from difflib import get_close_matches

            near = get_close_matches(args[0], BY_NAME, n=2)
            ctx.fail(f"there is no command {args[0]!r}" + (f"; did you mean {' or '.join(near)}?" if near else ""))
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        width = max(map(len, BY_NAME))
        for group in GROUPS:
            rows = [(entry.name.ljust(width), entry.help) for entry in COMMANDS if entry.group == group]
            with formatter.section(group):
                formatter.write_dl(rows)


def load(entry: Entry) -> Any:
    """The command as Typer makes it from its signature."""
    module = import_module(f"dispatcher.cli.commands.{entry.module}")
    for info in module.app.registered_commands:
        if info.name == entry.name:
            info.epilog = epilog(entry.name)
            command = get_command_from_info(info, pretty_exceptions_short=False, rich_markup_mode=None)
            for parameter in command.params:
                parameter.callback = parameter.callback or _refuse_huge
            return command
    raise LookupError(f"{module.__name__} does not define {entry.name}")


def _refuse_huge(context: Any, parameter: Any, value: Any) -> Any:
    """A number that no database holds."""
    for one in value if isinstance(value, list | tuple) else [value]:
        if isinstance(one, int) and abs(one) > _LARGEST:
            raise typer.BadParameter(f"{one} is too large", ctx=context, param=parameter)
    return value


app = typer.Typer(
    name="dispatcher", cls=LazyGroup, rich_markup_mode=None, pretty_exceptions_enable=False, add_completion=False
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"dispatcher {__version__}")
        raise typer.Exit


@app.callback(epilog="First time here: dispatcher demo, then dispatcher init.")
def _root(
    version: Annotated[
        bool, typer.Option("--version", "-V", is_eager=True, callback=_print_version, help="Show the version and exit.")
    ] = False,
) -> None:
    """Queue coding briefs, run them on pinned opencode and claude workers, and let git say what really happened."""


def run(arguments: list[str]) -> int:
    """Run one command line. Errors of the command line are printed here; all others go to the caller."""
    command = get_command(app)
    try:
        with command.make_context("dispatcher", arguments) as context:
            result = command.invoke(context)
    except typer.Exit as done:
        return done.exit_code
    except typer.TyperException as error:
        return _refuse(error)
    except (typer.Abort, EOFError):
        sys.stderr.write("aborted\n")
        return 1
    return result if isinstance(result, int) else 0


def _refuse(error: typer.TyperException) -> int:
    """Typer's usage errors in the words of all other errors."""
    from dispatcher.cli.render import clean

    context = getattr(error, "ctx", None)
    message = error.format_message().replace("is not a valid int.", "is not a whole number")
    sys.stderr.write(f"error: {clean(message[:1].lower() + message[1:])}\n")
    sys.stderr.write(f"hint: {context.command_path if context else 'dispatcher'} --help\n")
    return error.exit_code
