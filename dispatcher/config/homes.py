"""Which folder is the home, and whether this machine trusts it.

A home's models.yaml can run commands (`setup`, `verify`, `notify`, paths of programs), so a folder that merely lies
there - a clone, an archive, somebody's share - is not obeyed before a person has said once that it may be. The record
lies in the user's state folder, never in the home, and names the path and the machine: it does not travel with a copy.
The text of models.yaml may change afterwards, as a Makefile's may.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Mapping
from pathlib import Path

from dispatcher.errors import BadInput, UntrustedHome

FILE_NAME = "models.yaml"

_MACHINE_FILES = ("/etc/machine-id", "/var/lib/dbus/machine-id")


def find_home(explicit: str | os.PathLike[str] | None, environ: Mapping[str, str], cwd: Path) -> Path:
    """`--home`, else DISPATCHER_HOME, else `cwd` if it has a models.yaml, else the user's configuration folder.

    Never searched upwards. The folder need not exist yet: `init` makes it.
    """
    named = explicit if explicit is not None else environ.get("DISPATCHER_HOME")
    if named is not None and os.fspath(named):
        text = os.fspath(named)
        if text == "~" or text.startswith("~/"):
            text = _user_home(environ, "~ cannot be expanded") + text[1:]
        path = Path(os.path.realpath(cwd / text))
        if path.is_file():
            raise BadInput(f"{path} is a file; a home is a folder", hint=f"name the folder: {path.parent}")
        return path
    if (cwd / FILE_NAME).is_file():
        return Path(os.path.realpath(cwd))
    return Path(os.path.realpath(_xdg(environ, "XDG_CONFIG_HOME", ".config") / "dispatcher"))


def state_folder(environ: Mapping[str, str]) -> Path:
    """Where this user's dispatcher keeps what belongs to the machine: trust, task copies. Not created here."""
    return _xdg(environ, "XDG_STATE_HOME", ".local/state") / "dispatcher"


def record_path(home: Path, environ: Mapping[str, str], kind: str) -> Path:
    """The file in the state folder that is about this home. Its content must name the home again."""
    real = os.path.realpath(home)
    readable = "".join(c if c.isalnum() or c in "-_." else "_" for c in os.path.basename(real))[:40]
    return state_folder(environ) / "homes" / f"{readable}-{zlib.crc32(os.fsencode(real)):08x}.{kind}.json"


def is_trusted(home: Path, environ: Mapping[str, str] | None = None) -> bool:
    record = read_own(record_path(home, os.environ if environ is None else environ, "trust"))
    return record == _record(home)


def trust(home: Path, environ: Mapping[str, str] | None = None) -> None:
    """Remember that this user lets this home run commands on this machine."""
    environ = os.environ if environ is None else environ
    path = record_path(home, environ, "trust")
    try:
        write_own(path, _record(home))
    except OSError as error:
        raise BadInput(
            f"cannot remember the trust in {path.parent}: {error.strerror}",
            hint="make that folder writable, or set XDG_STATE_HOME to one that is",
        ) from None


def require_trust(home: Path, environ: Mapping[str, str] | None = None) -> None:
    if not is_trusted(home, environ):
        raise UntrustedHome(
            f"{home} was not made by `dispatcher init` on this machine, and its {FILE_NAME} can run commands",
            hint=f"read {Path(home) / FILE_NAME}, then: dispatcher trust --home {home}",
        )


def logs_dir(home: Path) -> Path:
    """`<home>/logs`, made for this user alone when it is not there: transcripts hold code."""
    path = Path(home) / "logs"
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(f"cannot make {path}: {error.strerror}", hint=_LOGS_HINT) from None
    if not os.access(path, os.R_OK | os.W_OK | os.X_OK):
        raise BadInput(f"{path} is not writable", hint=_LOGS_HINT)
    return path


_LOGS_HINT = "make it writable for this user, or make `logs` a symbolic link to a folder that is"


def database(home: Path) -> Path:
    """The path of the database. Makes the folder for it, but only in what is a home: looking around creates nothing."""
    folder = logs_dir(home) if (Path(home) / FILE_NAME).is_file() else Path(home) / "logs"
    return folder / "dispatcher.db"


def read_own(path: Path) -> object:
    """JSON from a file that nobody but this user could have written; None for anything else."""
    try:
        with path.open("rb") as stream:
            state = os.fstat(stream.fileno())
            if state.st_uid not in (os.geteuid(), 0) or state.st_mode & 0o022:
                return None
            return json.loads(stream.read())
    except (OSError, ValueError, RecursionError):
        return None


def write_own(path: Path, value: object) -> None:
    """Replace a file in the state folder in one step. Raises OSError."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with open(temporary, "w", encoding="utf-8", opener=_private) as stream:
            json.dump(value, stream)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _record(home: Path) -> dict[str, object]:
    return {"home": os.path.realpath(home), "machine": _machine()}


def _machine() -> str:
    """An id that a copied disk or home folder does not take along; the host name where the system has none."""
    for name in _MACHINE_FILES:
        try:
            text = Path(name).read_text(encoding="ascii").strip()
        except (OSError, ValueError):
            continue
        if text:
            return text
    return os.uname().nodename


def _xdg(environ: Mapping[str, str], name: str, below_home: str) -> Path:
    value = environ.get(name, "")
    if value.startswith("/"):  # the specification: a relative value is ignored
        return Path(value)
    return Path(_user_home(environ, f"neither {name} nor a folder below HOME can be used"), below_home)


def _user_home(environ: Mapping[str, str], consequence: str) -> str:
    home = environ.get("HOME", "")
    if not home.startswith("/"):
        raise BadInput(
            f"HOME is not set, so {consequence}" if not home else f"HOME is not an absolute path, so {consequence}",
            hint="set HOME; in a crontab: HOME=/home/you on a line of its own",
        )
    return home.rstrip("/") or "/"
