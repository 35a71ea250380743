"""Tells a person (a command, a webhook) that something waits for them. Never blocks a run, never fails one.

`send` hands the message to a process of its own and returns; that process gives the command half a minute, posts the
webhook, and writes what went wrong to `logs/notify.log`. The message is JSON on the command's standard input. The
webhook's address is often a secret, so it travels by standard input too and is in no argument and in no log.

This file is also that process (`python -I -S notify.py`), so it imports the standard library only.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

COMMAND_SECONDS = 30
WEBHOOK_SECONDS = 15
LOG = "notify.log"
_LOG_BYTES = 1024 * 1024
_LONGEST = 64 * 1024


def send(
    message: Mapping[str, object],
    *,
    command: Sequence[str] | None,
    webhook: str | None,
    logs: Path,
    environ: Mapping[str, str],
) -> None:
    """Start telling. `environ` is what the command gets; whoever calls takes the keys of workers out of it."""
    if not command and not webhook:
        return
    job = json.dumps({"message": message, "command": command, "webhook": webhook, "log": str(logs / LOG)})
    try:
        started = subprocess.Popen(
            [sys.executable, "-I", "-S", "-X", "utf8", os.path.abspath(__file__)],
            env=dict(environ),
            cwd="/",
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        with started:  # it forks and ends at once, so that nothing of it hangs on us
            assert started.stdin is not None
            started.stdin.write(job.encode())
    except OSError as error:
        _log(str(logs / LOG), f"the notifier could not be started: {error}")


def main() -> int:
    job = json.loads(sys.stdin.buffer.read())
    if os.fork():
        return 0
    os.setsid()
    if job["command"]:
        _tell_command(job["command"], json.dumps(job["message"]), job["log"])
    if job["webhook"]:
        _tell_webhook(job["webhook"], json.dumps(job["message"]), job["log"])
    return 0


def _tell_command(command: Sequence[str], text: str, log: str) -> None:
    try:
        done = subprocess.run(
            command,
            input=text.encode(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=COMMAND_SECONDS,
            check=False,
            start_new_session=True,
        )
    except subprocess.TimeoutExpired:
        _log(log, f"{command[0]}: did not end within {COMMAND_SECONDS} s and was ended")
    except OSError as error:
        _log(log, f"{command[0]}: {error.strerror}")
    else:
        if done.returncode:
            said = done.stdout.decode("utf-8", "replace").strip()[-500:]
            _log(log, f"{command[0]}: exit {done.returncode}: {said}")


def _tell_webhook(address: str, text: str, log: str) -> None:
    import urllib.error
    import urllib.request

    headers = {"Content-Type": "application/json", "User-Agent": "dispatcher"}
    request = urllib.request.Request(address, data=text.encode(), headers=headers, method="POST")
    try:
        with urllib.request.urlopen(request, timeout=WEBHOOK_SECONDS) as answer:
            answer.read(_LONGEST)
    except urllib.error.HTTPError as error:
        _log(log, f"webhook: HTTP {error.code}")
        error.close()
    except (OSError, ValueError) as error:
        _log(log, f"webhook: {type(error).__name__}")  # the words of some errors hold the address


def _log(path: str, text: str) -> None:
    """Best effort, and never without end."""
    try:
        if os.path.exists(path) and os.path.getsize(path) > _LOG_BYTES:
            os.replace(path, f"{path}.1")
        with open(path, "a", encoding="utf-8") as file:
            file.write(f"{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())} {text}\n")
    except OSError:
        return


if __name__ == "__main__":
    sys.exit(main())
