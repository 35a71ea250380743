"""Reading what a person wrote: whole regular files, and never more than fits.

A named pipe or a device would be read for ever, and some devices act when they are only opened.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

LARGEST = 4 * 1024 * 1024  # bytes of a brief or a models.yaml


def read(path: Path) -> bytes:
    """All of a file. OSError, in words of its own, for what is no file or larger."""
    mode = os.stat(path).st_mode
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):  # the system has its words for a folder
        raise OSError(errno.EINVAL, "it is not a regular file")
    with path.open("rb") as stream:
        data = stream.read(LARGEST + 1)
    if len(data) > LARGEST:
        raise OSError(errno.EFBIG, f"it is larger than {LARGEST // 1024**2} MiB")
    return data
