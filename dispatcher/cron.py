"""A crontab line, or a systemd user timer, that starts `run`: written, shown and removed, everything else untouched.

cron gives a job HOME, LOGNAME, SHELL and PATH=/usr/bin:/bin. The folders of the CLIs, of git and of this program are
therefore written into the line itself: a `NAME=value` line of a crontab would change all jobs below it. Keys are never
written; a file that only this user can read may be named instead.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dispatcher.errors import BadInput, DispatcherError

LONGEST = 990  # Debian's cron 3.0 refuses a command of 1000 characters
_RANGES = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))
_EVERY = re.compile(r"(\d{1,3})(m|h)")


class CronError(DispatcherError):
    exit_code = 2


@dataclass(frozen=True)
class Job:
    """What is to be started. Paths are absolute; `environment` holds no secret."""

    home: str
    schedule: str  # five fields
    argv: tuple[str, ...]
    environment: Mapping[str, str]
    log: str
    env_file: str | None = None  # sourced by the shell first


# --- schedules ------------------------------------------------------------------------------------------------------


def schedule_of(text: str) -> str:
    """Five fields of `10m`, `2h`, `02:30`, or of five fields."""
    every = _EVERY.fullmatch(text)
    if every is not None:
        number, unit = int(every[1]), every[2]
        whole = 60 if unit == "m" else 24
        if number < 1 or number > whole or whole % number:
            raise BadInput(f"{text!r} does not divide {'an hour' if unit == 'm' else 'a day'}", hint="try 10m or 2h")
        step = "*" if number == 1 else f"*/{number}" if number < whole else "0"
        return f"{step} * * * *" if unit == "m" else f"0 {step} * * *"
    clock = re.fullmatch(r"([01]?\d|2[0-3]):([0-5]\d)", text)
    if clock is not None:
        return f"{int(clock[2])} {int(clock[1])} * * *"
    fields = text.split()
    if len(fields) != 5:
        raise BadInput(f"{text!r} is no schedule", hint="write 10m, 2h, 02:30, or five fields as in a crontab")
    for field, (low, high) in zip(fields, _RANGES, strict=True):
        _numbers(field, low, high)
    return " ".join(fields)


def next_tick(schedule: str, now: float) -> float | None:
    """When cron fires next after `now`, in local time as cron reads it; None when not within a year."""
    minutes, hours, days, months, weekdays = (
        _numbers(field, low, high) for field, (low, high) in zip(schedule.split(), _RANGES, strict=True)
    )
    weekdays = {day % 7 for day in weekdays}
    either = "*" not in (schedule.split()[2][0], schedule.split()[4][0])  # both restricted: one of them is enough
    moment = now - now % 60 + 60
    for _ in range(366 * 2):
        local = time.localtime(moment)
        weekday = (local.tm_wday + 1) % 7
        by_day, by_week = local.tm_mday in days, weekday in weekdays
        fits = (by_day or by_week) if either else (by_day and by_week)
        if local.tm_mon in months and fits:
            found = _in_day(local, moment, minutes, hours)
            if found is not None:
                return found
        moment = time.mktime((local.tm_year, local.tm_mon, local.tm_mday + 1, 0, 0, 0, 0, 0, -1))
    return None


def _in_day(local: time.struct_time, moment: float, minutes: set[int], hours: set[int]) -> float | None:
    for hour in sorted(hours):
        if hour < local.tm_hour:
            continue
        for minute in sorted(minutes):
            found = time.mktime((local.tm_year, local.tm_mon, local.tm_mday, hour, minute, 0, 0, 0, -1))
            if found >= moment:
                return found
    return None


def _numbers(field: str, low: int, high: int) -> set[int]:
    """The values of one field: `*`, `*/5`, `1-5`, `1-10/2`, `1,2`."""
    found: set[int] = set()
    for part in field.split(","):
        match = re.fullmatch(r"(?:(\*)|(\d{1,2})(?:-(\d{1,2}))?)(?:/(\d{1,2}))?", part)
        if match is None:
            raise BadInput(f"{field!r} is not a field of a schedule", hint="use numbers, *, ranges and steps")
        first = low if match[1] else int(match[2])
        last = high if match[1] or (match[4] and not match[3]) else int(match[3] or match[2])
        step = int(match[4] or 1)
        if not low <= first <= last <= high or step < 1:
            raise BadInput(f"{part!r} is out of range {low}-{high}", hint="use numbers, *, ranges and steps")
        found |= set(range(first, last + 1, step))
    return found


# --- the line -------------------------------------------------------------------------------------------------------


def command_of(job: Job) -> str:
    """The shell command, everything quoted, as `sh` reads it."""
    for text in (*job.argv, *job.environment.values(), job.home, job.log):
        if "\n" in text or "\0" in text:
            raise CronError(f"{text!r} has a line break in it, which no crontab can hold", hint="rename the folder")
    words = [f"cd {shlex.quote(job.home)} &&"]
    if job.env_file is not None:
        words.append(f"set -a && . {shlex.quote(job.env_file)} && set +a &&")
    words += [f"{name}={shlex.quote(value)}" for name, value in job.environment.items()]
    words.append(shlex.join(job.argv))
    words.append(f">> {shlex.quote(job.log)} 2>&1")
    return " ".join(words)


def line_of(job: Job) -> str:
    """In a crontab `%` is a line break; a backslash keeps it."""
    line = f"{job.schedule} {command_of(job)}".replace("%", "\\%")
    if len(line) > LONGEST:
        raise CronError(
            f"the crontab line would have {len(line)} characters; cron takes {LONGEST}",
            hint="shorten PATH for this call: PATH=/usr/local/bin:/usr/bin:/bin dispatcher cron install ...",
        )
    return line


def marks(home: str) -> tuple[str, str]:
    return f"# BEGIN dispatcher {home}", f"# END dispatcher {home}"


def with_block(crontab: str, home: str, line: str | None) -> str:
    """The crontab with our block set (or taken out, for None). Every other byte stays as it is."""
    begin, end = marks(home)
    lines = crontab.splitlines(keepends=True)
    names = [text.rstrip("\r\n") for text in lines]
    if begin in names and end in names[names.index(begin) :]:
        first = names.index(begin)
        last = names.index(end, first)
        before, after = "".join(lines[:first]), "".join(lines[last + 1 :])
    elif begin in names:
        raise CronError(f"the crontab has `{begin}` without its end", hint="correct it by hand: crontab -e")
    else:
        before, after = crontab, ""
    if line is None:
        return before + after
    if before and not before.endswith("\n"):
        before += "\n"
    return f"{before}{begin}\n{line}\n{end}\n{after}"


def block_of(crontab: str, home: str) -> str | None:
    begin, end = marks(home)
    names = crontab.splitlines()
    if begin not in names or end not in names[names.index(begin) :]:
        return None
    return "\n".join(names[names.index(begin) + 1 : names.index(end, names.index(begin))])


# --- crontab --------------------------------------------------------------------------------------------------------


def read_crontab() -> str:
    done = _call([_program("crontab"), "-l"])
    if done.returncode == 0:
        return done.stdout.decode("utf-8", "surrogateescape")
    words = done.stderr.decode("utf-8", "replace").strip()
    if "no crontab for" in words.lower():
        return ""
    raise CronError(f"the crontab cannot be read: {words}", hint="ask the administrator to allow cron for this account")


def write_crontab(text: str) -> None:
    program = _program("crontab")
    done = _call([program, "-"], text.encode("utf-8", "surrogateescape")) if text else _call([program, "-r"])
    if done.returncode:
        raise CronError(
            f"the crontab was refused: {done.stderr.decode('utf-8', 'replace').strip()}", hint="nothing was changed"
        )


def install(job: Job) -> str:
    """Write the block; gives the line."""
    line = line_of(job)
    write_crontab(with_block(read_crontab(), job.home, line))
    return line


def show(home: str) -> str | None:
    return block_of(read_crontab(), home)


def homes() -> list[str]:
    """The homes that have a block in the crontab."""
    begin = marks("")[0]
    return [line.removeprefix(begin) for line in read_crontab().splitlines() if line.startswith(begin)]


def remove(home: str) -> bool:
    crontab = read_crontab()
    if block_of(crontab, home) is None:
        return False
    write_crontab(with_block(crontab, home, None))
    return True


def _program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        other = "systemd: dispatcher cron install --systemd" if name == "crontab" else "cron: leave --systemd out"
        raise CronError(f"there is no {name} on this machine", hint=f"install cron, or use {other}")
    return found


def _call(argv: Sequence[str], stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(argv, input=stdin, capture_output=True, timeout=60, check=False)
    except subprocess.TimeoutExpired:
        raise CronError(f"{argv[0]} did not answer within a minute") from None


# --- systemd --------------------------------------------------------------------------------------------------------


def unit_name(home: str) -> str:
    import zlib

    return f"dispatcher-{zlib.crc32(home.encode('utf-8', 'surrogateescape')):08x}"


def units(job: Job) -> dict[str, str]:
    """File name -> text of the service and its timer. `%` and `$` have a meaning in units and are doubled."""
    name = unit_name(job.home)
    command = command_of(job).replace("%", "%%").replace("$", "$$").replace("\\", "\\\\").replace('"', '\\"')
    minute, hour, day, month, weekday = job.schedule.split()
    if weekday != "*":
        raise CronError("days of the week cannot be translated for systemd", hint="leave --systemd out")
    calendar = f"*-{_calendar(month, 1)}-{_calendar(day, 1)} {_calendar(hour, 0)}:{_calendar(minute, 0)}:00"
    service = (
        f"[Unit]\nDescription=dispatcher run in {job.home.replace('%', '%%')}\n\n"
        f'[Service]\nType=oneshot\nKillMode=process\nExecStart=/bin/sh -c "{command}"\n'
        "SuccessExitStatus=0 1 75 143\n"
    )
    timer = (
        f"[Unit]\nDescription=starts {name}.service\n\n"
        f"[Timer]\nOnCalendar={calendar}\nPersistent=true\n\n[Install]\nWantedBy=timers.target\n"
    )
    return {f"{name}.service": service, f"{name}.timer": timer}


def _calendar(field: str, low: int) -> str:
    return re.sub(r"\*/(\d+)", rf"{low}/\1", field).replace("-", "..")


def install_units(job: Job, folder: Path) -> str:
    _user_manager()
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in units(job).items():
        (folder / name).write_text(text, encoding="utf-8", errors="surrogateescape")
    _systemctl("daemon-reload")
    _systemctl("enable", "--now", f"{unit_name(job.home)}.timer")
    return str(folder / f"{unit_name(job.home)}.timer")


def remove_units(home: str, folder: Path) -> bool:
    files = [folder / f"{unit_name(home)}.{kind}" for kind in ("timer", "service")]
    if not any(file.exists() for file in files):
        return False
    _user_manager()
    _systemctl("disable", "--now", f"{unit_name(home)}.timer")
    for file in files:
        file.unlink(missing_ok=True)
    _systemctl("daemon-reload")
    return True


def _user_manager() -> None:
    done = _call([_program("systemctl"), "--user", "show-environment"])
    if done.returncode:
        raise CronError(
            f"this account has no running systemd: {done.stderr.decode('utf-8', 'replace').strip()}",
            hint="log in on a session with systemd (loginctl enable-linger), or leave --systemd out",
        )


def _systemctl(*words: str) -> None:
    done = _call([_program("systemctl"), "--user", *words])
    if done.returncode:
        raise CronError(f"systemctl --user {' '.join(words)}: {done.stderr.decode('utf-8', 'replace').strip()}")
