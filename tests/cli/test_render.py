"""What is printed is safe for a terminal, whole in a pipe, and valid as JSON and CSV."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatcher.cli import render
from dispatcher.cli.render import Column, clean, clean_block
from dispatcher.task import Commit

HOSTILE = "a\x1b[2Jb\x00c\u202ed\x9be\u2066f\ud800g\rh\x7f"

DANGER = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\u2028\u2029\ufeff\ud800-\udfff]")


@given(st.text(st.characters(), max_size=40))
def test_cleaned_text_holds_nothing_that_a_terminal_obeys(text: str) -> None:
    assert not DANGER.search(clean(text))
    assert not DANGER.search(clean_block(text).replace("\n", "").replace("\t", ""))


@given(st.text(st.characters(blacklist_categories=("Cc", "Cs", "Cf", "Zl", "Zp")), max_size=40))
def test_harmless_text_stays_as_it_is(text: str) -> None:
    assert clean(text) == text


def test_control_characters_are_shown() -> None:
    assert clean(HOSTILE) == "a\\e[2Jb\\x00c\\u202ed\\x9be\\u2066f\\ud800g\\rh\\x7f"
    assert clean_block("one\r\ntwo\tthree\x1b") == "one\ntwo\tthree\\e"


ROWS = [{"id": 1, "title": HOSTILE, "extra": None}, {"id": 22, "title": "short", "extra": 1.5}]
COLUMNS = [Column("id", "task", right=True), Column("title", "title"), Column("extra", "extra", none="-")]


def test_plain_columns_line_up(capsys: pytest.CaptureFixture[str]) -> None:
    render.table([{"id": 1, "title": "one"}, {"id": 22, "title": "twenty-two"}], COLUMNS)
    assert capsys.readouterr().out.splitlines() == [
        "task  title       extra",
        "   1  one         -",
        "  22  twenty-two  -",
    ]


def test_a_pipe_gets_no_escape_codes(capsys: pytest.CaptureFixture[str]) -> None:
    render.table(ROWS, COLUMNS)
    assert "\x1b" not in capsys.readouterr().out


def test_json_is_valid_ascii_and_lossless(capsys: pytest.CaptureFixture[str]) -> None:
    render.table(ROWS, COLUMNS, form="json")
    out = capsys.readouterr().out
    assert out.isascii()
    assert json.loads(out) == ROWS


def test_json_of_values_of_the_vocabulary(capsys: pytest.CaptureFixture[str]) -> None:
    render.json_out({"commits": (Commit("abc", "subject"),), "names": frozenset({"b", "a"})})
    assert json.loads(capsys.readouterr().out) == {
        "commits": [{"sha": "abc", "subject": "subject"}],
        "names": ["a", "b"],
    }


def test_csv_is_valid(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"id": 1, "title": 'with "quotes", commas\nand lines', "extra": None}]
    render.table(rows, COLUMNS, form="csv")
    assert list(csv.reader(io.StringIO(capsys.readouterr().out))) == [
        ["id", "title", "extra"],
        ["1", 'with "quotes", commas\\nand lines', ""],
    ]


def test_no_rows_say_so_to_people_only(capsys: pytest.CaptureFixture[str]) -> None:
    render.table([], COLUMNS, empty="nothing")
    render.table([], COLUMNS, form="json", empty="nothing")
    render.table([], COLUMNS, form="csv", empty="nothing")
    assert capsys.readouterr().out == "nothing\n[]\nid,title,extra\n"


@pytest.mark.parametrize("no_color", [False, True])
def test_a_terminal_gets_a_table_and_no_color_is_obeyed(no_color: bool) -> None:
    """In a process of its own on a real terminal, since Rich asks the stream."""
    code = (
        "from dispatcher.cli.render import Column, table\n"
        "rows = [{'status': 'failed', 'title': 'a\\x1b[2Jb [red]c'}]\n"
        "table(rows, [Column('status', 'status'), Column('title', 't')])"
    )
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "80"}
    environment.pop("NO_COLOR", None)
    if no_color:
        environment["NO_COLOR"] = "1"
    text = on_terminal([sys.executable, "-c", code], environment)
    assert "a\\e[2Jb [red]c" in text
    assert ("\x1b[1;31m" in text) is not no_color


FACTS = [("candidate", 0), ("not delivered", 0), ("saved by finish", 0), ("price", 140), ("verdict", 110), ("title", 0)]


@pytest.mark.parametrize("width", [40, 60, 80, 100, 200])
def test_no_value_is_cut_on_any_terminal(width: int) -> None:
    """Titles break, optional columns go, and at last the table is turned: but a value that is there is whole."""
    code = (
        "from dispatcher.cli.render import Column, table\n"
        f"columns = [Column(name, name, least=least, wide=name == 'title') for name, least in {FACTS}]\n"
        f"table([{{name: 'x' * (3 + 2 * n) for n, (name, _) in enumerate({FACTS})}} for _ in range(3)], columns)"
    )
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": str(width), "NO_COLOR": "1"}
    lines = re.sub(r"\x1b\[[0-9;]*m", "", on_terminal([sys.executable, "-c", code], environment)).splitlines()
    assert max(map(len, lines)) <= width
    text = " ".join(lines).split()
    for place, (name, least) in enumerate(FACTS):
        shown = text.count("x" * (3 + 2 * place))
        assert shown == 3 or (least and shown == 0) or (name == "title" and "x" in text[-1]), (name, lines)


def on_terminal(command: list[str], environment: dict[str, str]) -> str:
    """Run a command with a pseudo terminal as stdout; what it printed."""
    import pty
    import subprocess

    ours, theirs = pty.openpty()
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=theirs, env=environment) as process:
        os.close(theirs)
        printed = b""
        while True:
            try:
                chunk = os.read(ours, 65536)
            except OSError:  # Linux: the other end is closed
                break
            if not chunk:
                break
            printed += chunk
    os.close(ours)
    assert process.returncode == 0
    return printed.decode()
