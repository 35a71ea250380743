"""`deliver: pr`: the branch is pushed and a pull request opened by `gh`, in the name of the person whose login it has.

This is the only place that talks to a remote. Hooks of the repository are off, nobody is asked for a password, and
whatever goes wrong is a sentence in the log: the work is on its branch all the same.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from dispatcher.errors import Refused

_CAP = 180.0  # seconds for a push, and for gh
_URL = re.compile(r"https?://\S+/pull/\d+")
_PLACES = ("/usr/local/bin", "/opt/homebrew/bin", "/home/linuxbrew/.linuxbrew/bin")


def open_one(target: Path, branch: str, base: str | None, title: str, body: str, environ: Mapping[str, str]) -> str:
    """The address of the pull request, also when the branch has one already. Refused with the reason."""
    gh = shutil.which("gh", path=os.pathsep.join([environ.get("PATH", os.defpath), *_PLACES]))
    if gh is None:
        raise Refused("gh is not installed", hint="https://cli.github.com")
    remote = _remote(target, environ)
    quiet = ("-c", "core.hooksPath=/dev/null")
    _run(["git", *quiet, "push", "--quiet", remote, f"refs/heads/{branch}:refs/heads/{branch}"], target, environ)
    words = [gh, "pr", "create", "--head", branch, "--title", title, "--body-file", "-"]
    try:
        said = _run(words + (["--base", base] if base else []), target, environ, stdin=body)
    except Refused as refused:
        if "already exists" not in refused.message:
            raise
        said = refused.message
    found = _URL.search(said)
    if found is None:
        raise Refused(f"gh named no pull request: {said.strip()[:200]}")
    return found.group()


def _remote(target: Path, environ: Mapping[str, str]) -> str:
    names = _run(["git", "remote"], target, environ).split()
    if not names:
        raise Refused("the repository has no remote")
    return "origin" if "origin" in names else names[0]


def _run(words: Sequence[str], cwd: Path, environ: Mapping[str, str], *, stdin: str = "") -> str:
    """Its output; Refused with its last words when it fails, or does not end in time."""
    env = {name: value for name, value in environ.items() if not name.startswith("GIT_") or name.startswith("GIT_SSH")}
    env |= {"GIT_TERMINAL_PROMPT": "0", "GH_PROMPT_DISABLED": "1", "GH_NO_UPDATE_NOTIFIER": "1"}
    name = " ".join([Path(words[0]).name, *(word for word in words[1:4] if word[0] != "-" and "=" not in word)])
    try:
        process = subprocess.Popen(
            words,
            cwd=cwd,
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,
        )
    except OSError as error:
        raise Refused(f"{name} did not start: {error.strerror or error}") from error
    with process:
        try:
            out, err = process.communicate(stdin, timeout=_CAP)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise Refused(f"{name} did not end within {_CAP:.0f} s") from None
    if process.returncode:
        raise Refused(f"{name} failed: {' '.join((err or out).split())[-300:]}")
    return out
