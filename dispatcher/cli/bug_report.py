"""`bug-report`: one task as an archive that can be sent, with keys, account, host and home folder taken out."""

from __future__ import annotations

import io
import json
import os
import platform
import socket
import tarfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from dispatcher import __version__, redact
from dispatcher.cli import home, outfile
from dispatcher.cli.render import clean, note, out
from dispatcher.errors import DispatcherError
from dispatcher.words import plural

if TYPE_CHECKING:
    from dispatcher.store import Store

_PART = 256 * 1024  # bytes of head and of tail of each file
_FILES = (
    "attempt.json",
    "exit.json",
    "prompt.md",
    "stdout",
    "stderr",
    "bridge.jsonl",
    "control",
    "git-trace",
    "before.json",
)
_ROWS = {
    "task": "SELECT * FROM task WHERE id = ?",
    "attempts": "SELECT * FROM attempt WHERE task_id = ? ORDER BY number",
    "events": "SELECT * FROM event WHERE task_id = ? ORDER BY id",
    "checks": "SELECT c.* FROM check_result c JOIN attempt a ON a.id = c.attempt_id WHERE a.task_id = ?",
    "approvals": "SELECT * FROM approval WHERE task_id = ? ORDER BY id",
    "holds": "SELECT * FROM hold WHERE attempt_id IN (SELECT id FROM attempt WHERE task_id = ?)",
}


def write_report(task_id: int, explicit: Path | None, output: Path | None) -> None:
    from dispatcher.store import queue

    target = output or Path(f"dispatcher-report-{task_id}.tar.gz")
    folder = home.find(explicit)
    clean_text = cleaner(folder)
    with home.existing(explicit, reading=True) as store:
        queue.get(store, task_id)
        parts = list(_parts(store, folder, task_id))
    with outfile.opened(target, mode=0o600) as raw, tarfile.open(fileobj=raw, mode="w:gz") as archive:
        for name, text in parts:
            _add(archive, f"dispatcher-report-{task_id}/{name}", clean_text(text))
    if not outfile.is_stdout(target):
        out(clean(str(target)))
    packed = plural(len(parts), "file")
    note(f"{packed}; keys are taken out, the brief and the worker's words are not: look through it first")


def cleaner(folder: Path) -> Callable[[str], str]:
    """What every text goes through: keys first, then who and where."""
    names: set[str] = set()
    config_secrets: tuple[str, ...] = ()
    try:
        from dispatcher.config import load

        config = load(folder)
        names = {name for credential in config.credentials.values() for name in credential.env}
        config_secrets = (config.webhook,) if config.webhook else ()
    except DispatcherError:
        pass  # a report about a broken configuration is a good report
    secrets = (*config_secrets, *redact.secrets_of(os.environ, names))
    account, host, user_home = home.person(), socket.gethostname(), os.environ.get("HOME", "")

    def clean_text(text: str) -> str:
        text = redact.redact(text, secrets)
        if len(user_home) > 1:
            text = text.replace(user_home, "[home]")
        for word, stands in ((host, "[host]"), (account, "[account]")):
            if len(word) > 3:
                text = text.replace(word, stands)
        return text

    return clean_text


def _parts(store: Store, folder: Path, task_id: int) -> Iterator[tuple[str, str]]:
    """(name in the archive, text), before anything was taken out."""
    versions = {
        "dispatcher": __version__,
        "python": platform.python_version(),
        "system": platform.platform(),
        "database": store.first("PRAGMA user_version")[0],  # type: ignore[index]
        "made": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }
    yield "versions.json", json.dumps(versions, indent=1)
    for name, sql in _ROWS.items():
        rows = [dict(row) for row in store.read(sql, (task_id,))]
        yield f"{name}.json", json.dumps(rows, indent=1, default=str)
    if (folder / "models.yaml").is_file():
        yield "models.yaml", _head_and_tail(folder / "models.yaml")
    logs = folder / "logs" / str(task_id)
    for place, folders, files in os.walk(logs):
        folders.sort()
        for name in sorted(files):
            path = Path(place, name)
            if (name in _FILES or name == "supervisor.err") and path.is_file() and not path.is_symlink():
                yield f"logs/{path.relative_to(logs)}", _head_and_tail(path)


def _head_and_tail(path: Path) -> str:
    with path.open("rb") as file:
        head = file.read(_PART)
        size = os.fstat(file.fileno()).st_size
        if size <= 2 * _PART:
            return (head + file.read()).decode("utf-8", "replace")
        file.seek(size - _PART)
        left_out = f"\n[... {size - 2 * _PART} bytes left out ...]\n"
        return head.decode("utf-8", "replace") + left_out + file.read().decode("utf-8", "replace")


def _add(archive: tarfile.TarFile, name: str, text: str) -> None:
    data = text.encode("utf-8", "backslashreplace")
    entry = tarfile.TarInfo(name)
    entry.size, entry.mtime, entry.mode = len(data), int(time.time()), 0o600
    archive.addfile(entry, io.BytesIO(data))
