"""`doctor`: everything that makes runs fail before a model said a word, looked at in one go.

Each look is a function that yields findings; one that breaks becomes a finding itself, so the others are still seen.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from dispatcher import __version__, host
from dispatcher.cli import doctor_workers as workers
from dispatcher.cli import home
from dispatcher.cli.finding import BAD, OK, UNSEEN, WARN, Finding
from dispatcher.cli.progress import counted
from dispatcher.cli.render import Column, clean, json_out, note, out, table
from dispatcher.cli.wording import plural, size
from dispatcher.errors import DispatcherError

if TYPE_CHECKING:
    from dispatcher.config import Config

Look = Callable[[], Iterator[Finding]]


def examine(explicit: Path | None, repo: Path | None, *, login: bool, as_json: bool) -> int:
    folder = home.find(explicit, may_be_missing=True)
    looks: list[tuple[str, Look]] = [("program", _program), ("home", lambda: _home(folder))]
    config = _config(folder)
    looks.append(("CLIs", lambda: workers.clis(config)))
    if config is not None:
        looks += [
            ("models", lambda: workers.models(config)),
            ("credentials", lambda: workers.credentials(config)),
            ("who pays", lambda: workers.who_pays(config)),
        ]
    looks += [
        ("git", lambda: _git(repo)),
        ("repository", lambda: _repository_code(repo, config)),
        ("host", lambda: _machine(folder, config)),
        ("lock", lambda: _lock(folder)),
    ]
    if login and config is not None:
        from dispatcher.cli.login import try_logins

        looks.append(("login", lambda: try_logins(config)))
    looked = counted(looks, "things looked at", len(looks))
    findings = [finding for area, look in looked for finding in _safely(area, look)]
    _print(findings, as_json=as_json)
    return 1 if any(finding.state == BAD for finding in findings) else 0


def _print(findings: list[Finding], *, as_json: bool) -> None:
    rows = [finding._asdict() for finding in findings]
    if as_json:
        return json_out(rows)
    columns = [Column("area", "what"), Column("state", "state"), Column("text", "found", wide=True)]
    table(rows, columns)
    for finding in findings:
        if finding.state != OK and finding.hint:
            note(f"{finding.area}: {clean(finding.text)}\n  hint: {clean(finding.hint)}")
    numbers = {state: sum(finding.state == state for finding in findings) for state in (BAD, WARN, UNSEEN)}
    unseen = f", {numbers[UNSEEN]} not looked at" if numbers[UNSEEN] else ""
    out(f"{numbers[BAD]} broken, {numbers[WARN]} to look at{unseen}")
    return None


def _safely(area: str, look: Look) -> list[Finding]:
    found: list[Finding] = []
    try:
        found.extend(look())
    except DispatcherError as error:
        found.append(Finding(area, BAD, error.message, error.hint or ""))
    except OSError as error:
        found.append(Finding(area, BAD, f"cannot be looked at: {error}"))
    return found


def _config(folder: Path) -> Config | None:
    """None when there is none or it is wrong: `_home` says so, and the machine is looked at all the same."""
    from dispatcher.config import load

    try:
        return load(folder)
    except DispatcherError:
        return None


def _program() -> Iterator[Finding]:
    yield Finding("program", OK, f"dispatcher {__version__}, Python {platform.python_version()}, {platform.system()}")


def _home(folder: Path) -> Iterator[Finding]:
    from dispatcher.config import is_trusted, load

    if not (folder / "models.yaml").exists():
        yield Finding("home", BAD, f"there is no models.yaml in {folder}", "dispatcher init")
        return
    config = load(folder)
    yield Finding(
        "home",
        OK,
        f"{folder}: {plural(len(config.roster.candidates), 'candidate')}, {plural(len(config.roster.routes), 'route')}",
    )
    if not is_trusted(folder):
        yield Finding(
            "home", BAD, "not trusted on this machine", f"read its models.yaml, then: dispatcher trust --home {folder}"
        )
    for warning in config.warnings:
        yield Finding("home", WARN, warning)


def _git(repo: Path | None) -> Iterator[Finding]:
    import subprocess

    from dispatcher.repository import copies

    try:
        done = subprocess.run(["git", "--version"], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        yield Finding("git", BAD, "git is not installed", "install git; everything is judged by it")
        return
    yield Finding("git", OK, done.stdout.strip())
    if repo is None and not _in_repository():
        yield Finding("git", OK, "the current folder is in no repository; --repo names one to look at")
        return
    target = copies.resolve((repo or Path.cwd()).absolute())
    yield Finding("git", OK, f"repository {target.root}")
    for words in target.notes:
        yield Finding("git", WARN, words, _git_hint(words))


def _git_hint(words: str) -> str:
    if "user.name" in words:
        return "git config --global user.name 'YOUR NAME' && git config --global user.email YOU@EXAMPLE.COM"
    return "git config commit.gpgsign false, in that repository" if "signed" in words else ""


def _in_repository() -> bool:
    from dispatcher.cli import places

    return places.here() is not None


# What a CLI executes from a working copy by itself: not as text for the model, but as its own code.
_OPENCODE_CODE = (".opencode/plugin/*", ".opencode/plugins/*", ".opencode/tool/*", ".opencode/tools/*")
_OPENCODE_SETTINGS = ("opencode.json", "opencode.jsonc", ".opencode/opencode.json", ".opencode/opencode.jsonc")
_CLAUDE_CODE = (".claude/settings.json", ".claude/settings.local.json", ".mcp.json")


def _repository_code(repo: Path | None, config: Config | None) -> Iterator[Finding]:
    from dispatcher.cli import places

    root = Path(places.checked(repo, "--repo")) if repo is not None else Path(places.here() or os.devnull)
    if not root.is_dir():
        return
    runs = [str(path.relative_to(root)) for pattern in _OPENCODE_CODE for path in sorted(root.glob(pattern))]
    runs += [name for name in _OPENCODE_SETTINGS if _names_code(root / name)]
    trusted = config is not None and config.repository(root).trust
    if runs:
        state = OK if trusted else WARN
        hint = f"read them; then trust: true for {root} in models.yaml, or a sandbox"
        yield Finding("repository", state, f"opencode runs code of this repository by itself: {', '.join(runs)}", hint)
    passive = [name for name in _CLAUDE_CODE if (root / name).exists()]
    if passive:
        yield Finding("repository", OK, f"claude is started so that it ignores {', '.join(passive)}")
    if not runs and not passive:
        yield Finding("repository", OK, "no code that a CLI would run by itself")


def _names_code(file: Path) -> bool:
    """Whether settings of opencode name plugins or servers. Looked for as words: comments make it no JSON."""
    try:
        text = file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return any(f'"{word}"' in text for word in ("plugin", "mcp"))


def _machine(folder: Path, config: Config | None) -> Iterator[Finding]:
    from dispatcher.task import Limits

    limits = config.limits if config else Limits()
    paths = [str(folder), *([str(config.copies_root)] if config else [])]
    load = host.measure(paths)
    words = f"{size(load.disk)} free at {load.disk_path}, {size(load.memory)} memory, load {load.per_core:.1f} per core"
    against = host.refusal(load, limits)
    if against:
        yield Finding("host", WARN, f"{words}; no worker would start now: {against}", _machine_hint(against))
    else:
        yield Finding("host", OK, words)


def _machine_hint(against: str) -> str:
    name = next((name for name in ("max_load_per_core", "min_free_memory", "min_free_disk") if name in against), "")
    do = {"max_load_per_core": "wait until less runs here", "min_free_memory": "end what takes the memory"}
    return f"{do.get(name, 'free some space: dispatcher prune')}; or change limits.{name} in models.yaml"


def _lock(folder: Path) -> Iterator[Finding]:
    from dispatcher.store import locks, queue

    logs = folder / "logs"
    if not home.has_store(folder):
        yield Finding("lock", OK, "nothing was queued here yet")
        return
    runners = [file.name[len("runner-") : -len(".lock")] for file in sorted(logs.glob("runner-*.lock"))]
    alive = [name for name in runners if locks.owner_alive(logs, name)]
    yield Finding("lock", OK, f"runs at work: {', '.join(alive) or 'none'}")
    with home.opened(folder) as store:
        left = queue.orphans(store)
    if left:
        numbers = ", ".join(str(task.id) for task in left)
        yield Finding(
            "lock", WARN, f"left running by a run that is gone: task {numbers}", "the next `dispatcher run` goes on"
        )
