"""Every error this program raises on purpose.

    DispatcherError                 one clear line, optionally a hint; the exit code of the command line
    |-- BadInput            (2)     a person can fix it: arguments, environment
    |   |-- ConfigError             models.yaml, with file and line
    |   |-- BriefError              a brief, with file and line
    |   |-- UntrustedHome           a home that was not made or trusted on this machine
    |   `-- NotFound                no such task, attempt, candidate, hold, approval
    |-- StoreError          (2)     the database cannot be opened, is newer, damaged or full
    |-- RepositoryError     (2)     not a repository, bare, a copy that is in the way
    |   `-- GitError                a git command failed; carries its command and stderr
    |-- Refused             (2)     what was asked would spend the wrong money, run unpinned, or lose work
    `-- InternalError       (70)    our own fault (EX_SOFTWARE: 1 means that a task needs a person)

Nothing else may reach a person: a traceback is a bug.
"""

from __future__ import annotations

import errno


class DispatcherError(Exception):
    """Base of all. `message` is one line that says what is wrong and where; `hint` says what to do."""

    exit_code = 70

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class BadInput(DispatcherError):
    exit_code = 2


class _Located(BadInput):
    """An error in a file. `line` counts from 1; the message starts with `file:line: `."""

    def __init__(
        self, message: str, *, file: str | None = None, line: int | None = None, hint: str | None = None
    ) -> None:
        where = "" if file is None else f"{file}:{line}: " if line is not None else f"{file}: "
        super().__init__(where + message, hint=hint)
        self.file = file
        self.line = line


class ConfigError(_Located):
    pass


class BriefError(_Located):
    pass


class UntrustedHome(BadInput):
    pass


class NotFound(BadInput):
    pass


class StoreError(DispatcherError):
    exit_code = 2


class RepositoryError(DispatcherError):
    exit_code = 2


class GitError(RepositoryError):
    """A git command failed. `command` is what ran (no secrets), `stderr` its words, `code` its exit code."""

    def __init__(
        self, message: str, *, command: str = "", stderr: str = "", code: int = 0, hint: str | None = None
    ) -> None:
        super().__init__(message, hint=hint)
        self.command = command
        self.stderr = stderr
        self.code = code


class Refused(DispatcherError):
    exit_code = 2


class InternalError(DispatcherError):
    exit_code = 70


_RIGHTS = "check its owner and its rights"
_NAME = "correct the path"
_SPACE = "free some space"
_OF_A_FILE = {
    errno.EACCES: _RIGHTS,
    errno.EPERM: _RIGHTS,
    errno.EROFS: _RIGHTS,
    errno.ELOOP: _NAME,
    errno.ENAMETOOLONG: _NAME,
    errno.ENOSPC: _SPACE,
    errno.EDQUOT: _SPACE,
    errno.EIO: "check the disk that it is on",
}
OF_THE_HOST = {
    errno.EMFILE: "raise the limit of open files (ulimit -n 1024)",
    errno.ENFILE: "raise the limit of open files of this machine",
    errno.ENOMEM: "free some memory",
}


def refusal(error: OSError) -> BadInput | None:
    """What the operating system refuses is no fault of ours, wherever it is met; None: it may well be one."""
    if error.errno in OF_THE_HOST:
        return BadInput(f"this machine gives out no more: {error.strerror}", hint=OF_THE_HOST[error.errno])
    if not isinstance(error.filename, str) or error.errno not in _OF_A_FILE:
        return None
    name = error.filename if len(error.filename) <= 200 else error.filename[:200] + " ..."
    return BadInput(f"{name} cannot be used: {error.strerror}", hint=_OF_A_FILE[error.errno])
