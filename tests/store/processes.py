"""Several interpreters that begin at the same moment: each says "ready" and waits for the word."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
_PREFIX = "import sys\nprint('ready', flush=True)\nsys.stdin.readline()\n"


def together(script: str, arguments: Sequence[Sequence[str]]) -> list[str]:
    """Run `script` once for each list of arguments, all at once; what each printed. A failure shows its stderr."""
    started = [
        subprocess.Popen(
            [sys.executable, "-c", _PREFIX + script, *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        for words in arguments
    ]
    try:
        for process in started:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        for process in started:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        results = [(process.communicate(), process.returncode) for process in started]
    finally:
        for process in started:
            process.kill()
            process.wait()
    for (_, errors), code in results:
        assert code == 0, errors
    return [output for (output, _), _ in results]
