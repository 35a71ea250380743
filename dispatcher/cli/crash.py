"""Keeps the traceback of a fault of our own in a file, so that a person sees one line and can still report it."""

from __future__ import annotations

import os
import platform
import sys
import tempfile
import time
import traceback
from pathlib import Path

from dispatcher import __version__


def save(error: BaseException) -> Path:
    """Write the traceback and the versions; the path of the file. Neither arguments nor environment are written."""
    text = (
        f"dispatcher {__version__}, Python {platform.python_version()}, {platform.platform()}\n"
        f"command: {sys.argv[1] if len(sys.argv) > 1 else '-'}\n\n" + "".join(traceback.format_exception(error))
    )
    name = f"crash-{time.strftime('%Y%m%dT%H%M%S')}-{os.getpid()}.txt"
    for folder in (_state_folder(), Path(tempfile.gettempdir())):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text, encoding="utf-8", errors="backslashreplace")
        except OSError:
            continue  # a full or read-only disk may well be the fault that is being saved
        return folder / name
    return Path(os.devnull)


def _state_folder() -> Path:
    root = os.environ.get("XDG_STATE_HOME")
    return (Path(root) if root else Path.home() / ".local" / "state") / "dispatcher"
