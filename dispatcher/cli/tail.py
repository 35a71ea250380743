"""`tail`: the event stream of a worker as lines that a person can read, while it runs or afterwards."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from dispatcher import harness
from dispatcher.cli import home, idle
from dispatcher.cli.render import clean, clean_block, note, on_terminal, out
from dispatcher.errors import NotFound
from dispatcher.store import history, queue
from dispatcher.task import Status

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator
    from pathlib import Path
    from typing import BinaryIO

    from dispatcher.store import Store
    from dispatcher.task import Attempt

_LONGEST = 1024 * 1024
_LOOK_EVERY = 0.25  # seconds between two looks at a file that grows

_GOES_ON = frozenset({Status.RUNNING, Status.QUEUED, Status.WAITING})


def tail_task(number: int, explicit: Path | None, *, follow: bool, wanted: int | None, raw: bool, errors: bool) -> None:
    from pathlib import Path

    if errors:
        idle.refuse("with --stderr", {"--raw": raw}, "stderr is always printed as the worker wrote it")
    with home.existing(explicit, reading=True) as store:
        queue.get(store, number)
        attempt = _pick(store, number, wanted)
        while attempt is None and follow and _goes_on(store, number):
            time.sleep(_LOOK_EVERY)
            attempt = _pick(store, number, wanted)
        if attempt is None:
            raise NotFound(f"task {number} has no attempt yet", hint="start it with: dispatcher run")
        while attempt is not None:
            note(f"--- attempt {attempt.number}: {attempt.prompt} prompt to {clean(attempt.candidate)}")
            show = _raw if raw or errors else _reader(attempt, queue.get(store, number).copy_path)
            file = Path(attempt.folder) / ("stderr" if errors else "stdout")
            said = False
            for line in _lines(file, _still_open(store, attempt) if follow else lambda: False):
                said = True
                show(line)
            if not said:
                note(_silence(attempt, file))
            attempt = _next(store, number, attempt) if follow and wanted is None else None


def _pick(store: Store, task: int, number: int | None) -> Attempt | None:
    found = history.attempts(store, task)
    if number is None:
        return found[-1] if found else None
    for attempt in found:
        if attempt.number == number:
            return attempt
    raise NotFound(f"task {task} has no attempt {number}", hint=f"it has {len(found)}")


def _silence(attempt: Attempt, file: Path) -> str:
    """Nothing at all looks like a fault of `tail`."""
    if not file.exists():
        return f"there is no {clean(str(file))}: prune removes old attempt folders, an import brings none"
    ended = attempt.ended_at is not None
    return f"the worker wrote nothing to its {file.name}" + (f" ({attempt.outcome})" if ended else " yet")


def _next(store: Store, task: int, last: Attempt) -> Attempt | None:
    """The attempt after this one; waits for it as long as the task goes on by itself."""
    while True:
        later = [attempt for attempt in history.attempts(store, task) if attempt.number > last.number]
        if later:
            return later[0]
        if not _goes_on(store, task):
            done = queue.get(store, task)
            end, columns = f"--- {done.status}: {clean(done.status_reason)}", _columns()
            note(_fitted(end, columns) if columns else end)
            if done.status is Status.AWAITING_APPROVAL:
                note("--- to answer: dispatcher approvals")
            return None
        time.sleep(_LOOK_EVERY)


def _goes_on(store: Store, task: int) -> bool:
    return queue.get(store, task).status in _GOES_ON


def _still_open(store: Store, attempt: Attempt) -> Callable[[], bool]:
    return lambda: history.get_attempt(store, attempt.id).ended_at is None


def _reader(attempt: Attempt, copy: str | None) -> Callable[[bytes], None]:
    """Files of the task copy by their names in it: opencode names all of them from the root."""
    render = harness.get(attempt.harness).render

    def show(line: bytes) -> None:
        text = render(line)
        if text is not None:
            text = text.replace(f"{copy}/", "") if copy else text
            for said in clean_block(text).split("\n"):
                out(_fitted(said, columns) if columns else said)

    columns = _columns()
    return show


def _columns() -> int:
    """Of the terminal; 0: there is none, and lines stay as they are."""
    if not on_terminal():
        return 0
    import shutil

    return shutil.get_terminal_size().columns


def _fitted(line: str, columns: int) -> str:
    """A terminal would break it in the middle of a word."""
    if len(line) <= columns:
        return line
    from textwrap import wrap

    indent = " " * (len(line) - len(line.lstrip(" "))) + ("  " if line.startswith((">", "=", "!", " ")) else "")
    wrapped = wrap(
        line,
        columns,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
        replace_whitespace=False,
    )
    return "\n".join(wrapped)


def _raw(line: bytes) -> None:
    out(clean(line.decode("utf-8", "replace")))


def _lines(file: Path, more: Callable[[], bool]) -> Iterator[bytes]:
    """Complete lines of a file that may still grow; the last one also when it has no end."""
    if not file.exists():
        return
    with file.open("rb") as opened:
        rest = b""
        while True:
            going = more()  # asked before reading: what was written before the end is never missed
            rest = yield from _complete(opened, rest)
            if not going:
                break
            sys.stdout.flush()  # whoever reads us through a pipe wants to see it now
            time.sleep(_LOOK_EVERY)
        if rest:
            yield rest


def _complete(opened: BinaryIO, rest: bytes) -> Generator[bytes, None, bytes]:
    while chunk := opened.readline(_LONGEST):
        rest += chunk
        if rest.endswith(b"\n") or len(rest) >= _LONGEST:
            yield rest.rstrip(b"\r\n")
            rest = b""
    return rest
