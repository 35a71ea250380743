"""`cron`: what is to be started, and the environment that workers need; `dispatcher.cron` writes it down."""

from __future__ import annotations

import os
import pwd
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from dispatcher import cron
from dispatcher.cli import home, idle
from dispatcher.cli.render import clean, note, out
from dispatcher.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dispatcher.config import Config

EVERY = "10m"  # how often, if nothing else is said
_ACTIONS = ("install", "show", "remove")
_KEPT = (
    "LANG",
    "LC_ALL",
    "TZ",
    "XDG_CONFIG_HOME",
    "XDG_STATE_HOME",
    "XDG_DATA_HOME",
    "XDG_CACHE_HOME",
    "XDG_RUNTIME_DIR",
)
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy")
_SYSTEM = ("/usr/local/bin", "/usr/bin", "/bin")
SCHEDULE = "cron_schedule"  # in the store's meta: five fields; `status` says from it when the next run comes


def change_cron(
    action: str,
    explicit: Path | None,
    *,
    every: str,
    add: Sequence[Path],
    until: str | None,
    env_file: Path | None,
    systemd: bool,
) -> None:
    if action not in _ACTIONS:
        raise BadInput(f"{action!r} is no action of cron", hint=f"one of {', '.join(_ACTIONS)}")
    if action != "install":
        words = {"--every": every != EVERY, "--add": bool(add), "--until": until is not None}
        words |= {"--env-file": env_file is not None, "--systemd": systemd}
        idle.refuse(f"with cron {action}", words, f"dispatcher cron {action} [--home FOLDER]")
    folder = home.find(explicit, may_be_missing=True)
    if action == "install":
        return _install(explicit, every=every, add=add, until=until, env_file=env_file, systemd=systemd)
    return _show(folder) if action == "show" else _remove(folder)


def _install(
    explicit: Path | None, *, every: str, add: Sequence[Path], until: str | None, env_file: Path | None, systemd: bool
) -> None:
    from dispatcher.config import logs_dir, require_trust

    config = home.configured(explicit)
    require_trust(config.home)
    schedule = cron.schedule_of(every)
    words = [*program(), "run", "--home", str(config.home), "--quiet"]
    for briefs in add:
        path = briefs.expanduser().absolute()
        if not path.exists():
            raise BadInput(f"there is no {path}", hint="make it first; a folder may be empty")
        words += ["--add", str(path)]
    if until is not None:
        from dispatcher.cli.running import deadline

        deadline(0.0, until, None)
        words += ["--until", until]
    job = cron.Job(
        home=str(config.home),
        schedule=schedule,
        argv=tuple(words),
        environment=environment(config),
        log=str(logs_dir(config.home) / "cron.log"),
        env_file=None if env_file is None else _private(env_file),
    )
    written = cron.install_units(job, _unit_folder()) if systemd else cron.install(job)
    with home.opened(config.home) as store:
        store.set_meta(SCHEDULE, schedule)
    note(f"installed {'as a systemd user timer' if systemd else 'in your crontab'} for {clean(str(config.home))}:")
    out(clean(written))
    _warn_about_keys(config, job)


def _show(folder: Path) -> None:
    timer = _unit_folder() / f"{cron.unit_name(str(folder))}.timer"
    line = cron.show(str(folder)) if shutil.which("crontab") or not timer.exists() else None
    if line is not None:
        out(clean(line))
    if timer.exists():
        out(clean(f"{timer} ({cron.unit_name(str(folder))})"))
    if line is None and not timer.exists():
        note(f"nothing is installed for {clean(str(folder))}")
        _name_others(folder)


def _remove(folder: Path) -> None:
    timer = cron.remove_units(str(folder), _unit_folder())
    line = cron.remove(str(folder)) if shutil.which("crontab") or not timer else False
    if home.has_store(folder):
        with home.opened(folder) as store:
            store.set_meta(SCHEDULE, "")
    note(f"removed for {clean(str(folder))}" if line or timer else f"nothing is installed for {clean(str(folder))}")
    if not (line or timer):
        _name_others(folder)


def _name_others(folder: Path) -> None:
    """Somebody in another folder looks for what is there."""
    for other in cron.homes() if shutil.which("crontab") else ():
        if other != str(folder):
            note(f"the crontab has an entry of another home: {clean(other)} (--home names it)")


def program() -> list[str]:
    """This program by absolute path: the script of the installation, else the interpreter with the module."""
    script = Path(sys.executable).with_name("dispatcher")
    return [str(script)] if os.access(script, os.X_OK) else [sys.executable, "-P", "-m", "dispatcher.cli"]


def environment(config: Config) -> dict[str, str]:
    """What cron leaves out and a worker needs; names that decide who pays are not among it."""
    found = {name: os.environ[name] for name in (*_KEPT, *_PROXIES) if os.environ.get(name)}
    secret_proxy = [name for name in _PROXIES if "@" in found.get(name, "")]
    for name in secret_proxy:
        del found[name]
        note(f"{name} holds a password and is not written down; put it in a file and name that with --env-file")
    from dispatcher import redact

    for name in config.environment_pass:
        value = os.environ.get(name)
        if value and not redact.secrets_of({name: value}):
            found[name] = value
    own = os.environ.get("HOME", "")
    elsewhere = {"HOME": own} if own and own != pwd.getpwuid(os.getuid()).pw_dir else {}  # cron takes it from passwd
    return {"PATH": _path(config), **elsewhere, **found}


def _path(config: Config) -> str:
    """The folders of the CLIs and of git first, then those of this shell that exist."""
    from dispatcher.config import find_program

    programs = [
        find_program(name, config, os.environ) for name in {c.harness for c in config.roster.candidates.values()}
    ]
    folders = [os.path.dirname(found[0]) for found in programs if found is not None]
    git = shutil.which("git")
    folders += [os.path.dirname(git)] if git else []
    given = [part for part in os.environ.get("PATH", "").split(":") if part.startswith("/") and os.path.isdir(part)]
    return ":".join(dict.fromkeys((*folders, *given, *_SYSTEM)))


def _private(file: Path) -> str:
    path = file.expanduser().absolute()
    if not path.is_file():
        raise BadInput(f"there is no file {path}", hint="lines of NAME=value")
    if path.stat().st_mode & 0o077:
        raise BadInput(f"{path} can be read by others", hint=f"chmod 600 {path}")
    return str(path)


def _warn_about_keys(config: Config, job: cron.Job) -> None:
    names = {name for c in config.roster.candidates.values() for name in c.credential.env}
    if names and job.env_file is None:
        note(
            f"not written down, since they are keys: {', '.join(sorted(names))}; "
            "put them into a file that only you can read and name it with --env-file"
        )


def _unit_folder() -> Path:
    base = os.environ.get("XDG_CONFIG_HOME") or f"{os.environ.get('HOME', '/')}/.config"
    return Path(base) / "systemd" / "user"
