"""What a supervisor loads when its worker has lived for a moment: there is one for each worker, so memory counts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LOADED = """
import sys
sys.path.insert(0, sys.argv[1])
from dispatcher.supervisor.lean import put_off_inspect
put_off_inspect()
import dispatcher.supervisor.listener
from dispatcher import harness
from dispatcher.task import Billing
watch = harness.get(sys.argv[2]).watch("m", Billing("free"))
for channel in ("stdout", "stderr", "bridge"):
    watch.feed(channel, b'{"type":"result","is_error":true}', 1.0)
    watch.feed(channel, b"ERROR: 429 Too Many Requests", 1.0)
sys.stdout.write("\\n".join(sys.modules))
"""
DEAR = {"ast", "dis", "tokenize", "subprocess", "typing_extensions", "urllib", "pathlib", "asyncio", "sqlite3", "yaml"}


@pytest.mark.parametrize("harness", ["opencode", "claude"])
def test_what_a_supervisor_does_not_load(harness: str) -> None:
    """`inspect` and what it brings are a third of all that the translators cost; a dataclass without a docstring loads
    them."""
    words = [sys.executable, "-I", "-S", "-c", LOADED, str(ROOT), harness]
    loaded = set(subprocess.run(words, capture_output=True, text=True, check=True).stdout.split())
    assert "dispatcher.failures" in loaded
    assert not DEAR & loaded


def test_the_stand_in_is_the_module_when_it_is_used() -> None:
    text = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from dispatcher.supervisor.lean import put_off_inspect; put_off_inspect()\n"
        "import dataclasses\n"
        "@dataclasses.dataclass\n"
        "class Plain:\n    number: int\n"
        "import inspect\n"
        "assert Plain.__doc__ == 'Plain(number: int)', Plain.__doc__\n"
        "assert inspect.isfunction(lambda: 0) and 'ast' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-I", "-S", "-c", text, str(ROOT)], check=True)
