"""`doctor`: everything that makes runs fail before a model said a word, looked at in one go.

Each look is a function that yields findings; one that breaks becomes a finding itself, so the others are still seen.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from dispatcher import __version__, harness, host, programs
from dispatcher.cli import home
from dispatcher.cli.progress import counted
from dispatcher.cli.render import Column, clean, json_out, note, out, table
from dispatcher.cli.wording import plural, size
from dispatcher.errors import DispatcherError

if TYPE_CHECKING:
    from dispatcher.config import Config
    from dispatcher.task import Candidate

OK, WARN, BAD = "ok", "warn", "bad"
_REAL = ("opencode", "claude")


class Finding(NamedTuple):
    area: str
    state: str
    text: str
    hint: str = ""


Look = Callable[[], Iterator[Finding]]


def examine(explicit: Path | None, repo: Path | None, *, login: bool, as_json: bool) -> int:
    folder = home.find(explicit, may_be_missing=True)
    looks: list[tuple[str, Look]] = [("program", _program), ("home", lambda: _home(folder))]
    config = _config(folder)
    looks += [
        ("CLIs", lambda: _clis(config)),
        ("models", lambda: _models(config)),
        ("credentials", lambda: _credentials(config)),
        ("who pays", lambda: _who_pays(config)),
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
    bad = sum(finding.state == BAD for finding in findings)
    out(f"{bad} broken, {sum(finding.state == WARN for finding in findings)} to look at")
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


def _clis(config: Config | None) -> Iterator[Finding]:
    from dispatcher.config import find_program

    wanted = {candidate.harness for candidate in config.roster.candidates.values()} if config else set(_REAL)
    for name in sorted(wanted | set(_REAL)):
        command = find_program(name, config, os.environ)
        if command is None:
            state = BAD if config and name in wanted else WARN
            yield Finding("CLIs", state, f"{name} is not installed", f"install it, or set harnesses.{name}.path")
            continue
        yield _version(name, command)


def _version(name: str, command: tuple[str, ...]) -> Finding:
    one = harness.get(name)
    path = " ".join(command)
    said = programs.ask_version(command)
    if said is None:
        return Finding("CLIs", BAD, f"{name}: {path} does not tell its version", f"run: {path} --version")
    if not one.version_ok(said):
        return Finding(
            "CLIs",
            BAD,
            f"{name} {said} ({path}) is of a major version that was not tried (tried: {one.tested})",
            "set `allow_untested: true` on its candidates to run it all the same",
        )
    return Finding("CLIs", OK, f"{name} {said} ({path}); tried with {one.tested}")


def _models(config: Config | None) -> Iterator[Finding]:
    if config is None:
        return
    candidates = list(config.roster.candidates.values())
    mine = [candidate for candidate in candidates if candidate.harness == "opencode"]
    known = _opencode_models(config) if mine else None
    if mine and known is None:
        yield Finding(
            "models", WARN, "opencode does not list its models, so ids were not compared", "run: opencode models"
        )
    for candidate in candidates:
        yield _model(candidate, known)


def _model(candidate: Candidate, known: frozenset[str] | None) -> Finding:
    label = f"{candidate.name}: {candidate.model}"
    if candidate.floating:
        return Finding(
            "models", WARN, f"{label} is an alias: which model it means can change any day; the log records it"
        )
    if candidate.harness == "opencode" and known is not None and candidate.model not in known:
        near = _nearest(candidate.model, known)
        return Finding(
            "models",
            BAD,
            f"{label} is not in `opencode models`",
            f"did you mean {near}?" if near else "opencode models",
        )
    if candidate.harness == "claude":
        return Finding(
            "models", OK, f"{label}; claude lists no models: a wrong id shows at the first run or with --login"
        )
    return Finding("models", OK, label)


def _opencode_models(config: Config) -> frozenset[str] | None:
    import subprocess

    from dispatcher.config import find_program

    command = find_program("opencode", config, os.environ)
    if command is None:
        return None
    environ = {**os.environ, "OPENCODE_DISABLE_AUTOUPDATE": "1"}
    try:
        done = subprocess.run(
            [*command, "models"], stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False, env=environ
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    ids = frozenset(line.strip() for line in done.stdout.decode("utf-8", "replace").splitlines() if "/" in line)
    return ids if done.returncode == 0 and ids else None


def _nearest(model: str, known: frozenset[str]) -> str | None:
    from difflib import get_close_matches

    return next(iter(get_close_matches(model, sorted(known), n=1)), None)


def _credentials(config: Config | None) -> Iterator[Finding]:
    """Names only; what a variable holds is never read."""
    if config is None:
        return
    for credential in config.credentials.values():
        unset = [name for name in credential.env if not os.environ.get(name)]
        if unset:
            yield Finding(
                "credentials", WARN, f"{credential.name}: {', '.join(unset)} not set here", "cron needs it too"
            )
        else:
            yield Finding("credentials", OK, f"{credential.name}: {credential.billing}")


def _who_pays(config: Config | None) -> Iterator[Finding]:
    """What would be refused at the start of a run: settings, logins and addresses that pay otherwise."""
    if config is None:
        return
    from dispatcher import environment, money

    wrong: dict[tuple[str, str], list[str]] = {}
    for candidate in config.roster.candidates.values():
        worker = environment.build(
            os.environ,
            passed=config.environment_pass,
            credential=candidate.credential,
            harness=candidate.harness,
            marker="doctor",
            extra=config.harness(candidate.harness).env,
        )
        for text, fix in money.problems(candidate, worker.variables, None):
            wrong.setdefault((text, fix), []).append(candidate.name)
    for (text, fix), names in wrong.items():
        yield Finding("who pays", WARN, f"{', '.join(names)} would be refused: {text}", fix)


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
