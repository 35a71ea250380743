"""The part of `doctor` that is about workers: the CLIs that candidates use, model ids, logins, and who would pay.

Only what a candidate uses is looked at, and what cannot be looked at is said to be unseen: an "ok" was seen.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from dispatcher import harness, programs
from dispatcher.cli.finding import BAD, OK, UNSEEN, WARN, Finding

if TYPE_CHECKING:
    from dispatcher.config import Config
    from dispatcher.task import Candidate

_INSTALL = {"opencode": "npm install -g opencode-ai", "claude": "npm install -g @anthropic-ai/claude-code"}


def clis(config: Config | None) -> Iterator[Finding]:
    """One for each CLI that a candidate uses. Without a configuration: what one could be made of."""
    if config is None:
        yield from _installed()
        return
    for name in _used(config):
        command = _program(name, config)
        yield _not_installed(name, config) if command is None else _version(name, command)


def _used(config: Config) -> dict[str, list[Candidate]]:
    """Harness -> its candidates."""
    found: dict[str, list[Candidate]] = {}
    for candidate in config.roster.candidates.values():
        found.setdefault(candidate.harness, []).append(candidate)
    return dict(sorted(found.items()))


def _program(name: str, config: Config | None) -> tuple[str, ...] | None:
    from dispatcher.config import find_program

    return find_program(name, config, os.environ)


def _installed() -> Iterator[Finding]:
    found = {name: command for name in _INSTALL if (command := _program(name, None)) is not None}
    for name, command in found.items():
        yield _version(name, command)
    if not found:
        yield Finding("CLIs", WARN, "neither opencode nor claude is installed", " or ".join(_INSTALL.values()))


def _not_installed(name: str, config: Config) -> Finding:
    configured = config.harness(name).command
    if configured is not None:
        text = f"{name}: {configured[0]} is no program that can be started"
        return Finding("CLIs", BAD, text, f"correct harnesses.{name}.path in models.yaml, or take it out")
    hint = f"{_INSTALL.get(name, 'install it')}; or set harnesses.{name}.path in models.yaml"
    return Finding("CLIs", BAD, f"{name} is not installed", hint)


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


# --- model ids ---


def models(config: Config) -> Iterator[Finding]:
    for name, candidates in _used(config).items():
        pinned = [candidate for candidate in candidates if not candidate.floating]
        yield from (_moves(candidate) for candidate in candidates if candidate.floating)
        command = _program(name, config)
        if command is None:
            yield from _unseen(pinned, f"{name} is not installed")
        elif name == "claude":
            yield from _unseen(pinned, "claude lists none; a wrong one shows at its first run, or with --login")
        elif name == "opencode":
            yield from _compared(pinned, command)
        else:
            yield from (Finding("models", OK, _label(candidate)) for candidate in pinned)


def _label(candidate: Candidate) -> str:
    return f"{candidate.name}: {candidate.model}"


def _moves(candidate: Candidate) -> Finding:
    text = f"{_label(candidate)} is an alias: which model it means can change any day; the log records it"
    return Finding("models", WARN, text)


def _unseen(candidates: list[Candidate], why: str, hint: str = "") -> Iterator[Finding]:
    """One for all: it is the same for each."""
    if candidates:
        names = ", ".join(candidate.name for candidate in candidates)
        yield Finding("models", UNSEEN, f"{names}: ids were not looked at, since {why}", hint)


def _compared(candidates: list[Candidate], command: tuple[str, ...]) -> Iterator[Finding]:
    known = _listed(command) if candidates else frozenset()
    if known is None:
        yield from _unseen(candidates, "opencode does not list its models", "run: opencode models")
        return
    for candidate in candidates:
        if candidate.model in known:
            yield Finding("models", OK, _label(candidate))
            continue
        near = _nearest(candidate.model, known)
        hint = f"did you mean {near}?" if near else "opencode models"
        yield Finding("models", BAD, f"{_label(candidate)} is not in `opencode models`", hint)


def _listed(command: tuple[str, ...]) -> frozenset[str] | None:
    import subprocess

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


# --- logins and money ---


def credentials(config: Config) -> Iterator[Finding]:
    """Whether what each credential in use names is there. What a variable or a login holds is never shown."""
    used: dict[str, list[Candidate]] = {}
    for candidate in config.roster.candidates.values():
        used.setdefault(candidate.credential.name, []).append(candidate)
    for candidates in used.values():
        yield from _credential(config, candidates)


def _credential(config: Config, candidates: list[Candidate]) -> Iterator[Finding]:
    credential = candidates[0].credential
    unset = [name for name in credential.env if not os.environ.get(name)]
    if unset:
        hint = "export it where `dispatcher run` is started; for cron: dispatcher cron install --env-file FILE"
        yield Finding("credentials", WARN, f"{credential.name}: {', '.join(unset)} not set here", hint)
        return
    wrong = {_login(config, candidate): None for candidate in candidates}
    yield from (finding for finding in wrong if finding is not None)
    if set(wrong) == {None}:
        yield Finding("credentials", OK, f"{credential.name}: {credential.billing}")


def _login(config: Config, candidate: Candidate) -> Finding | None:
    from dispatcher import money

    missing = money.no_login(candidate, _variables(config, candidate))
    if missing is None:
        return None
    name = candidate.credential.name
    if candidate.harness == "claude" and sys.platform == "darwin":
        text = f"{name}: claude's login is in the keychain, which was not looked at"
        return Finding("credentials", UNSEEN, text, "dispatcher doctor --login tries it")
    return Finding("credentials", BAD, f"{name}: {missing[0]}", missing[1])


def _variables(config: Config, candidate: Candidate) -> Mapping[str, str]:
    """The environment that its worker would get here."""
    from dispatcher import environment

    return environment.build(
        os.environ,
        passed=config.environment_pass,
        credential=candidate.credential,
        harness=candidate.harness,
        marker="doctor",
        extra=config.harness(candidate.harness).env,
    ).variables


def who_pays(config: Config) -> Iterator[Finding]:
    """What would be refused at the start of a run: settings, logins and addresses that pay otherwise."""
    from dispatcher import money

    wrong: dict[tuple[str, str], list[str]] = {}
    for candidate in config.roster.candidates.values():
        for text, fix in money.problems(candidate, _variables(config, candidate), None):
            wrong.setdefault((text, fix), []).append(candidate.name)
    for (text, fix), names in wrong.items():
        yield Finding("who pays", WARN, f"{', '.join(names)} would be refused: {text}", fix)
