"""All benchmarks, from a clean clone, with one command; the results go to RESULTS.md beside this file.

    python3.11 tests/benchmarks/run.py                   everything (about an hour)
    python3.11 tests/benchmarks/run.py --quick           fewer rounds and smaller sizes (some minutes)
    python3.11 tests/benchmarks/run.py startup claims    only these; the others keep what stands in RESULTS.md

Where dispatcher is not installed for this Python, a virtual environment of its own is made first, in the temporary
folder. GNU parallel, task-spooler and nq are measured where they are installed; the fail-over of the
real CLIs where DISPATCHER_TEST_CLIS names them (see CONTRIBUTING). These are measurements, not tests: nothing fails.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RESULTS = Path(__file__).with_name("RESULTS.md")

Words = Sequence[str]

# name -> title, modules and their words when everything is measured, the same when it has to be quick
SECTIONS: dict[str, tuple[str, list[Words], list[Words]]] = {
    "startup": ("Start-up", [["startup", "--rounds", "21"]], [["startup", "--rounds", "7"]]),
    "supervision": (
        "Overhead of a task, memory, CPU",
        [["supervision"]],
        [["supervision", "--tasks", "100", "--rounds", "1", "--seconds", "5"]],
    ),
    "claims": ("Claims", [["claims"]], [["claims", "--claims", "200"]]),
    "log": (
        "Questions to a large log",
        [["make_log", "{folder}", "1000000"], ["log_queries", "{folder}"]],
        [["make_log", "{folder}", "20000"], ["log_queries", "{folder}", "3"]],
    ),
    "failover": (
        "Fail-over, and the end of endless loops",
        [["failover"]],
        [["failover", "--runs", "2", "--naive-cap", "0"]],
    ),
    "copies": ("Task copies and evidence", [["copies"]], [["copies", "--files", "50", "--rounds", "3"]]),
    "following": ("Following an event stream", [["following"]], [["following", "--megabytes", "40"]]),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sections", nargs="*", metavar="SECTION", help="of " + ", ".join(SECTIONS))
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    if unknown := set(given.sections) - set(SECTIONS):
        parser.error(f"there is no {', '.join(sorted(unknown))}; there are {', '.join(SECTIONS)}")
    python = installed()
    for name in given.sections or SECTIONS:
        sys.stderr.write(f"== {name}\n")
        write(name, measure(python, name, quick=given.quick))
    sys.stderr.write(f"written to {RESULTS}\n")


def installed() -> str:
    """A Python that has dispatcher and its libraries: this one, else one that is made."""
    if (
        subprocess.run(
            [sys.executable, "-c", "import dispatcher, typer, pytest"], cwd="/", capture_output=True
        ).returncode
        == 0
    ):
        return sys.executable
    own = f"dispatcher-benchmarks-{os.getuid()}-{zlib.crc32(str(ROOT).encode()):08x}"
    folder = Path(tempfile.gettempdir()) / own
    python = folder / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    subprocess.run([str(python), "-m", "pip", "install", "-q", "-e", f"{ROOT}[dev]"], check=True)
    return str(python)


def measure(python: str, name: str, *, quick: bool) -> str:
    """The Markdown of one section."""
    title, full, short = SECTIONS[name]
    environ = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    parts = [f"## {title}", "", f"{machine()}."]
    with tempfile.TemporaryDirectory() as folder:
        for module, *words in short if quick else full:
            words = [word.format(folder=folder) for word in words]
            shown = " ".join([module, *words]).replace(folder, "FOLDER")
            done = subprocess.run(
                [python, "-m", f"tests.benchmarks.{module}", *words],
                cwd=ROOT,
                env=environ,
                stdout=subprocess.PIPE,
                text=True,
            )
            parts += ["", f"`python -m tests.benchmarks.{shown}`", "", done.stdout.strip() or "(nothing was printed)"]
            if done.returncode:
                parts += ["", f"It ended with exit code {done.returncode}."]
    return "\n".join(parts) + "\n"


def write(name: str, text: str) -> None:
    """Put one section in its place; the rest of the file stays."""
    known = RESULTS.read_text(encoding="utf-8") if RESULTS.exists() else ""
    found = dict(re.findall(r"^<!-- (\w+) -->\n(.*?)(?=^<!-- |\Z)", known, re.MULTILINE | re.DOTALL))
    found[name] = text + "\n"
    sections = "".join(f"<!-- {one} -->\n{found[one]}" for one in SECTIONS if one in found)
    RESULTS.write_text(f"{HEAD}\n{sections.rstrip()}\n", encoding="utf-8")


HEAD = """\
# What it costs

Written by `python3.11 tests/benchmarks/run.py`; not a test. All sides of a table took turns in one run; figures are
medians. Seconds are those of one machine on one day: only the ratios mean something elsewhere.
"""


def machine() -> str:
    """Machine, load and versions, in one line."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    load = os.getloadavg()[0]
    versions = [f"CPython {platform.python_version()}", *filter(None, map(version, PROGRAMS))]
    return (
        f"{time.strftime('%Y-%m-%d')}, {platform.system()} {platform.release()}, {os.cpu_count()} cores, "
        f"{memory:.0f} GiB, load {load:.1f} before; " + ", ".join(versions)
    )


PROGRAMS = ("git", "sqlite", "parallel", "tsp", "nq")


def version(program: str) -> str:
    if program == "sqlite":
        import sqlite3

        return f"SQLite {sqlite3.sqlite_version}"
    flag = {"tsp": "-V", "nq": "-h"}.get(program, "--version")
    try:
        done = subprocess.run([program, flag], capture_output=True, text=True, timeout=10, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    if program == "nq":
        return "nq"
    number = re.search(r"\d[\w.]*", done.stdout + done.stderr)
    return f"{program} {number[0]}" if number else program


if __name__ == "__main__":
    main()
