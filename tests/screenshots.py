"""Makes the pictures of the README: `python -m tests.screenshots`.

They are real: the demo is run with the built-in worker, then each command on a terminal of its own, and what it wrote
there is drawn by Rich. No font is fetched from anywhere; the reader's own is used.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import tempfile
import termios
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.text import Text

PICTURES = Path(__file__).resolve().parents[1] / ".github" / "pictures"
COLUMNS, LINES = 120, 50
SCENES: dict[str, Sequence[str]] = {
    "log": ["log"],
    "explain": ["explain", "2"],
}
PROGRAM = [sys.executable, "-m", "dispatcher.cli"]


def main() -> None:
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as place:
        environ = environment(Path(place))
        demo = Path(place) / "demo"
        subprocess.run(
            [*PROGRAM, "demo", str(demo), "--worker", "scripted"], env=environ, check=True, capture_output=True
        )
        environ["DISPATCHER_HOME"] = str(demo / "home")
        for name, words in SCENES.items():
            shown = on_a_terminal([*PROGRAM, *words], environ)
            shown = shown.replace(place, "~")
            (PICTURES / f"{name}.svg").write_text(drawn(name, words, shown), encoding="utf-8")
            sys.stdout.write(f"{PICTURES / name}.svg\n")


def environment(home: Path) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH", "LANG") if name in os.environ}
    return {**kept, "HOME": str(home), "TERM": "xterm-256color", "COLORTERM": "truecolor", "TZ": "UTC"}


def on_a_terminal(words: Sequence[str], environ: dict[str, str]) -> str:
    """What a program writes to a terminal of our size."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
    process = subprocess.Popen(words, stdin=theirs, stdout=theirs, stderr=theirs, env=environ)
    os.close(theirs)
    written = b""
    while True:
        try:
            piece = os.read(ours, 65536)
        except OSError:  # Linux: the other end is closed
            break
        if not piece:
            break
        written += piece
    os.close(ours)
    if process.wait():
        raise SystemExit(f"{' '.join(words)} ended with {process.returncode}:\n{written.decode()}")
    return written.decode().replace("\r\n", "\n")


def drawn(name: str, words: Sequence[str], shown: str) -> str:
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        console = Console(record=True, width=COLUMNS, file=nowhere, force_terminal=True, color_system="truecolor")
        console.print(Text.assemble(("$ ", "green"), ("dispatcher " + " ".join(words), "bold")))
        console.print(Text.from_ansi(shown.rstrip("\n")))
        picture = console.export_svg(title=f"dispatcher {' '.join(words)}", unique_id=f"dispatcher-{name}")
    return re.sub(r"\s*@font-face \{.*?\}", "", picture, flags=re.DOTALL)


if __name__ == "__main__":
    main()
