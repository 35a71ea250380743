"""Long work says how far it is, on stderr, only when it is long, and leaves nothing behind; links only where known."""

from __future__ import annotations

import os
import sys

import pytest

from dispatcher.cli import links, progress
from tests.cli.test_render import on_terminal

WORK = (
    "import sys, time\n"
    "from dispatcher.cli import progress\n"
    "progress.FIRST = {first}\n"
    "sys.stderr = sys.stdout\n"  # the terminal that the test reads
    "for _ in progress.counted(range(3), 'rows', 3): pass\n"
    "print('done')"
)


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "TERM": "xterm", **more}


def test_quick_work_is_quiet() -> None:
    assert on_terminal([sys.executable, "-c", WORK.format(first=60)], environment()) == "done\r\n"


def test_a_terminal_gets_one_line_that_goes_away() -> None:
    text = on_terminal([sys.executable, "-c", WORK.format(first=0)], environment())
    assert text == "\r\x1b[K[....................] 0 of 3 rows\r\x1b[Kdone\r\n"


def test_a_file_gets_nothing(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "FIRST", 0.0)
    assert list(progress.counted("ab", "rows")) == ["a", "b"]
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("environ", "known"),
    [
        ({"TERM": "xterm-kitty"}, True),
        ({"TERM_PROGRAM": "vscode", "TERM": "xterm-256color"}, True),
        ({"VTE_VERSION": "7006", "TERM": "xterm-256color"}, True),
        ({"VTE_VERSION": "4600", "TERM": "xterm-256color"}, False),
        ({"TERM": "xterm-256color"}, False),
        ({"TERM": "linux"}, False),
        ({"TERM": "xterm", "FORCE_HYPERLINK": "1"}, True),
        ({"TERM": "xterm-kitty", "FORCE_HYPERLINK": "0"}, False),
    ],
)
def test_links_only_where_they_are_understood(environ: dict[str, str], known: bool) -> None:
    assert links.understood(environ) is known


def test_a_path_becomes_a_link_on_a_terminal_and_nowhere_else() -> None:
    code = "from dispatcher.cli import links; print(links.file('/tmp/a b\x1b[2J'))"
    text = on_terminal([sys.executable, "-c", code], environment(FORCE_HYPERLINK="1"))
    assert text.startswith("\x1b]8;;file://")
    assert text.endswith("/tmp/a%20b%1B%5B2J\x1b\\/tmp/a b\\e[2J\x1b]8;;\x1b\\\r\n")
    assert links.file("/tmp/a") == "/tmp/a"
