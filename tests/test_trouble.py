"""Which errors end a run, which only a task, and what each is called."""

from __future__ import annotations

import errno
import os

import pytest

from dispatcher.errors import GitError, StoreError, refusal
from dispatcher.runner.trouble import stops_the_run


def refused(number: int, name: str | None = None) -> OSError:
    return OSError(number, os.strerror(number), name)


def caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "words", "hint"),
    [
        (refused(errno.ENOSPC, "log"), "the disk is full", "free some space"),
        (refused(errno.EMFILE), "nothing more can be started here: Too many open files", "ulimit -n"),
        (refused(errno.ENFILE), "nothing more can be started here", "of this machine"),
        (refused(errno.EAGAIN), "nothing more can be started here", "ulimit -u"),
        (refused(errno.ENOMEM), "nothing more can be started here: Cannot allocate memory", "memory"),
        (caused(GitError("git did not start"), refused(errno.EMFILE)), "Too many open files", "ulimit -n"),
        (GitError("git failed", stderr="fatal: write: No space left on device"), "the disk is full", "free some space"),
        (ExceptionGroup("two", [ValueError("x"), refused(errno.EMFILE)]), "Too many open files", "ulimit -n"),
    ],
)
def test_what_ends_a_run(error: Exception, words: str, hint: str) -> None:
    found = stops_the_run(error)
    assert isinstance(found, StoreError)
    assert words in found.message
    assert hint in (found.hint or "")


@pytest.mark.parametrize("error", [ValueError("x"), refused(errno.ENOENT, "a"), GitError("no such ref")])
def test_what_ends_only_a_task(error: Exception) -> None:
    assert stops_the_run(error) is None


def test_a_command_that_gets_nothing_more_from_the_machine() -> None:
    found = refusal(refused(errno.EMFILE))
    assert found is not None
    assert (found.exit_code, found.hint) == (2, "raise the limit of open files (ulimit -n 1024)")
    assert refusal(refused(errno.EAGAIN)) is None, "a pipe that would block is our own affair"
