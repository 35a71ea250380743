"""Where the process starts: the quick answers, the errors as lines, the exit code.

`--version` must cost next to nothing and must work in a broken installation, so nothing but `sys` is imported up here.
What a person may see of an error is decided here and nowhere else: one line, perhaps a hint, never a traceback.

Exit codes: those of the errors (`dispatcher.errors`), 70 for a fault of our own, 2 for a wrong command line, 130 after
Ctrl-C, 141 when whoever read our output has gone.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from dispatcher.errors import DispatcherError

INTERRUPTED = 130
OUR_FAULT = 70  # EX_SOFTWARE
BROKEN_PIPE = 141

_WORDS = ("--reason", "--note")  # what follows them is read by people alone


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code. `arguments` without the program's name; None: `sys.argv`."""
    _fill_gaps()
    if arguments is None and sys.getfilesystemencoding() != "utf-8" and not sys.flags.utf8_mode:
        _again_in_utf8()
    given = list(sys.argv[1:] if arguments is None else arguments)
    for stream in (sys.stdout, sys.stderr):
        _never_fail_on_a_character(stream)
    try:
        code = _version() if given in (["--version"], ["-V"]) else _run(given)
        sys.stdout.flush()
    except BrokenPipeError:
        _drop_output()
        return BROKEN_PIPE
    except KeyboardInterrupt:
        _say("interrupted")
        return INTERRUPTED
    return code


def _fill_gaps() -> None:
    """Started with a closed stdin, stdout or stderr (`>&-`), Python has None there; and the next file that is opened, a
    database perhaps, would get the number that every child takes for its output. /dev/null takes the place.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            import os

            stream = open(os.devnull, mode, encoding="utf-8")  # noqa: SIM115  (the lowest free number: the missing one)
            os.set_inheritable(stream.fileno(), True)
            setattr(sys, name, stream)


def _version() -> int:
    from dispatcher import __version__

    sys.stdout.write(f"dispatcher {__version__}\n")
    return 0


def _run(given: list[str]) -> int:
    from dispatcher.errors import BadInput, DispatcherError

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
    except BrokenPipeError:
        raise
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


def _never_fail_on_a_character(stream: object) -> None:
    """Cron's LANG can be one that cannot write a title; a log must not stop at that."""
    if reconfigure := getattr(stream, "reconfigure", None):
        reconfigure(errors="backslashreplace")


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


def _drop_output() -> None:
    """Python flushes stdout once more at exit; what is left in it goes nowhere."""
    import os

    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
