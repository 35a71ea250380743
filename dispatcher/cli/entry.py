"""Where the process starts: the quick answers, the errors as lines, the exit code.

`--version` must cost next to nothing and must work in a broken installation, so next to nothing is imported up here.
What a person may see of an error is decided here and nowhere else: one line, perhaps a hint, never a traceback.

Exit codes: those of the errors (`dispatcher.errors`), 70 for a fault of our own, 2 for a wrong command line or output
that cannot be written, 130 after Ctrl-C, 141 when whoever read our output has gone.
"""

from __future__ import annotations

import sys

from dispatcher.cli import streams

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from dispatcher.errors import DispatcherError

CANNOT_WRITE = 2  # as a database that cannot be written
INTERRUPTED = 130
OUR_FAULT = 70  # EX_SOFTWARE
BROKEN_PIPE = 141

_WORDS = ("--reason", "--note")  # what follows them is read by people alone


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code. `arguments` without the program's name; None: `sys.argv`."""
    streams.prepare(own=arguments is None)
    if arguments is None and sys.getfilesystemencoding() != "utf-8" and not sys.flags.utf8_mode:
        _again_in_utf8()
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        code = _version() if given in (["--version"], ["-V"]) else _run(given)
        sys.stdout.flush()
    except BrokenPipeError:
        streams.drop_output()
        return BROKEN_PIPE
    except streams.OutputLost as lost:
        streams.drop_output()
        _say(f"error: the output cannot be written: {lost}")
        _say("hint: send it elsewhere, or free some space; what the command changed is kept")
        return CANNOT_WRITE
    except KeyboardInterrupt:
        _say("interrupted")
        return INTERRUPTED
    return code


def _version() -> int:
    from dispatcher import __version__

    sys.stdout.write(f"dispatcher {__version__}\n")
    return 0


def _run(given: list[str]) -> int:
    from dispatcher.errors import BadInput, DispatcherError, refusal

    try:
        words = given or ["--help"]
        if words[0] == "__complete":
            return _complete(words[1:])
        for word in words:
            if not _is_text(word):
                raise BadInput(f"the argument {word!a} is not UTF-8 text", hint="write it in UTF-8; rename such a file")
        if _holds_nothing(words):
            raise BadInput(f"an argument of {words[0] or 'dispatcher'} is empty", hint="is a variable not set?")
        from dispatcher.cli.express import run as run_express

        if (code := run_express(words)) is not None:
            return code
        from dispatcher.cli.app import run

        return run(words)
    except DispatcherError as error:
        return _explain(error)
    except (BrokenPipeError, streams.OutputLost):
        raise
    except OSError as error:
        refused = refusal(error)
        return _confess(error) if refused is None else _explain(refused)
    except Exception as error:
        return _confess(error)


def _complete(asked: list[str]) -> int:
    """A shell asks what TAB can offer; whatever is wrong with the question, no error crosses the person's prompt."""
    import os

    from dispatcher.cli.tab import answer

    shell, place, *words = asked
    sys.stdout.write(answer(shell, int(place), words, os.environ))
    return 0


def _explain(error: DispatcherError) -> int:
    from dispatcher.cli.render import clean

    _say(f"error: {clean(error.message)}")
    if error.hint:
        _say(f"hint: {clean(error.hint)}")
    return error.exit_code


def _confess(error: Exception) -> int:
    """Our own fault: the traceback goes to a file that can be sent, the person gets one line."""
    from dispatcher.cli.crash import save

    _say(f"error: internal error ({type(error).__name__}); the traceback is in {save(error)}")
    return OUR_FAULT


def _say(line: str) -> None:
    sys.stderr.write(line + "\n")


def _again_in_utf8() -> None:
    """A locale that knows ASCII alone (cron, containers) makes Python misread arguments and file names: start anew."""
    import os

    os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])


def _is_text(word: str) -> bool:
    """Bytes that are no UTF-8 arrive as lone surrogates, which no database and no JSON takes."""
    try:
        word.encode()
    except UnicodeEncodeError:
        return False
    return True


def _holds_nothing(words: list[str]) -> bool:
    """An empty name would be taken for the current folder. A text that is a person's words may be empty."""
    for before, word in zip(("", *words), words, strict=False):
        name = word.removesuffix("=") if word.startswith("--") else word
        if (not word or name != word) and before not in _WORDS and name not in _WORDS:
            return True
    return False
