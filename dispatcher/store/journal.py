"""JSON lines beside the database for what no attempt folder can tell: the queue, holds, reviews, approvals.

`logs/dispatcher.db.journal.jsonl`: one object per line, `{"at": epoch, "kind": ..., ...}`, appended after the
commit that it repeats. It is read only when the database is lost. It is not forced to the disk: a power cut may lose
its last seconds, and the database has those. Of an import it repeats every row whole: no folder tells of those.
"""

from __future__ import annotations

import json
import os
import time
from contextlib import contextmanager, suppress

from dispatcher.errors import StoreError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

_BLOCK = 1024 * 1024  # bytes of whole lines that are written at once


def path_of(database: str) -> str:
    return f"{database}.journal.jsonl"


def append(path: str, entries: Sequence[tuple[str, dict[str, object]]]) -> None:
    now = time.time()
    _write(path, [b"".join(_line(now, kind, data) for kind, data in entries)])


@contextmanager
def spooled(path: str) -> Iterator[Callable[[str, dict[str, object]], None]]:
    """Around a transaction with more lines than memory should hold: they wait in a file without a name until it is
    committed. Gives the function that takes a line; it raises StoreError when the disk is full.
    """
    from tempfile import TemporaryFile

    now = time.time()
    waiting = TemporaryFile(dir=os.path.dirname(path))  # noqa: SIM115  (it is closed below, without a word)

    def take(kind: str, data: dict[str, object]) -> None:
        try:
            waiting.write(_line(now, kind, data))
        except OSError as error:
            raise StoreError(
                f"the journal {path} cannot be written: {error.strerror}", hint="free some space"
            ) from None

    try:
        yield take
        with suppress(OSError):
            waiting.seek(0)
            _write(path, iter(lambda: b"".join(waiting.readlines(_BLOCK)), b""))
    finally:
        with suppress(OSError):
            waiting.close()


def _line(now: float, kind: str, data: dict[str, object]) -> bytes:
    return json.dumps({"at": now, "kind": kind, **data}).encode() + b"\n"


def _write(path: str, blocks: Iterable[bytes]) -> None:
    """One `write` for a block of whole lines, so that lines of two processes never mix. A full disk here never fails
    the caller: the commit has already happened, and the journal is the copy.
    """
    try:
        handle = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError:
        return
    try:
        size = os.fstat(handle).st_size
        if size and os.pread(handle, 1, size - 1) != b"\n":  # torn
            blocks = _after_an_end(blocks)
        for block in blocks:
            os.write(handle, block)
    except OSError:
        return
    finally:
        os.close(handle)


def _after_an_end(blocks: Iterable[bytes]) -> Iterator[bytes]:
    end = b"\n"
    for block in blocks:
        yield end + block
        end = b""


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
