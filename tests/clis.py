"""Where the real CLIs are, for the tests marked `real_cli`.

`DISPATCHER_TEST_CLIS` names a folder made by `npm install --prefix FOLDER opencode-linux-x64@1.18.33
@anthropic-ai/claude-code-linux-x64@2.1.332`; without it the ones on `PATH` are taken. Where they must not be missing
(in CI), `DISPATCHER_REQUIRE_CLIS=1` turns a skip into an error.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Literal

import pytest

Cli = Literal["opencode", "claude"]

_IN_FOLDER: dict[Cli, str] = {
    "opencode": "node_modules/opencode-*/bin/opencode",
    "claude": "node_modules/@anthropic-ai/claude-code-*/claude",
}


def real_cli(name: Cli) -> Path | None:
    """The program, or None if it is not here; then `LookupError` if it is required."""
    folder = os.environ.get("DISPATCHER_TEST_CLIS")
    if folder:
        found = next((path for path in sorted(Path(folder).glob(_IN_FOLDER[name])) if os.access(path, os.X_OK)), None)
    else:
        on_path = shutil.which(name)
        found = Path(on_path) if on_path else None
    if found is None and os.environ.get("DISPATCHER_REQUIRE_CLIS") == "1":
        raise LookupError(f"{name} is required (DISPATCHER_REQUIRE_CLIS=1) but is not in {folder or 'PATH'}")
    return found


def need_cli(name: Cli) -> Path:
    """The program; the calling test is skipped if it is not here."""
    found = real_cli(name)
    if found is None:
        pytest.skip(f"{name} is not installed (see tests/clis.py)")
    return found
