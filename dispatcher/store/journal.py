"""JSON lines beside the database for what no attempt folder can tell: the queue, holds, reviews, approvals.

`logs/dispatcher.db.journal.jsonl`: one object per line, `{"at": epoch, "kind": ..., ...}`, appended after the
commit that it repeats. It is read only when the database is lost. It is not forced to the disk: a power cut may lose
its last seconds, and the database has those.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Sequence


def path_of(database: str) -> str:
    return f"{database}.journal.jsonl"


def append(path: str, entries: Sequence[tuple[str, dict[str, object]]]) -> None:
    """One `write` for all lines, so that lines of two processes never mix. A full disk here never fails the caller:

    the commit has already happened, and the journal is the copy.
    """
    now = time.time()
    lines = b"".join(json.dumps({"at": now, "kind": kind, **data}).encode() + b"\n" for kind, data in entries)
    try:
        handle = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError:
        return
    try:
        size = os.fstat(handle).st_size
        torn = size and os.pread(handle, 1, size - 1) != b"\n"
        os.write(handle, b"\n" + lines if torn else lines)
    except OSError:
        return
    finally:
        os.close(handle)


def entries(path: str) -> Iterator[dict[str, object]]:
    """Every whole line; a torn one (power cut, disk full) is skipped."""
    with open(path, "rb") as file:
        for line in file:
            try:
                entry = json.loads(line)
            except ValueError:
                continue
            if isinstance(entry, dict) and isinstance(entry.get("kind"), str):
                yield entry
