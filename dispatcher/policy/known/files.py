# ruff: noqa: E501, SIM905, RUF021  # tables of names, and conditions on words
"""Programs that delete files and folders, or write over them where nothing brings them back."""

from __future__ import annotations

import re
from collections.abc import Sequence

from dispatcher.policy.known.judged import FINE, Judged
from dispatcher.policy.shell import QUOTED, UNKNOWN, Command

GENERATED = frozenset(
    """build dist out target node_modules .venv venv __pycache__ .pytest_cache .mypy_cache .ruff_cache .tox .nox .cache
    coverage htmlcov .coverage .next .nuxt .turbo .parcel-cache .gradle .eggs tmp temp .tmp bin obj .terraform .dart_tool
    storybook-static .svelte-kit .hypothesis .nyc_output""".split()
)
"""Folders that tools make and make again."""


def rm(rest: Sequence[str], command: Command) -> Judged:
    options = True
    deep, operands = False, list[str]()
    for word in rest:
        if word == "--" and options:
            options = False
        elif options and word.startswith("--"):
            deep = deep or "--recursive".startswith(word) and len(word) > 3
        elif options and word.startswith("-") and len(word) > 1:
            deep = deep or "r" in word or "R" in word or UNKNOWN in word or QUOTED in word
        else:
            operands.append(word)
            deep = deep or (options and word[:1] == UNKNOWN)
    if not deep:
        return FINE
    if operands and not command.moved and all(_generated(word) for word in operands):
        return FINE
    return ("destroys",), "rm deletes whole folders"


def _generated(path: str) -> bool:
    """A relative path to something that a tool made."""
    if UNKNOWN in path or QUOTED in path or path.startswith(("/", "~")) or re.search(r"[*?\[]", path):
        return False
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if not parts or ".." in parts:
        return False
    return parts[-1] in GENERATED or parts[-1].endswith(".egg-info")


def find(rest: Sequence[str], command: Command) -> Judged:
    if "-delete" in rest:
        return ("destroys",), "find deletes what it finds"
    return (("unclear",), "what find runs cannot be told") if any(word == UNKNOWN for word in rest) else FINE


def dd(rest: Sequence[str], _: Command) -> Judged:
    targets = [word[3:] for word in rest if word.startswith("of=")]
    disks = any(t.startswith("/dev/") and t not in ("/dev/null", "/dev/stdout") or UNKNOWN in t for t in targets)
    return (("destroys",), "dd writes over a device") if disks else FINE


_SYSTEM = re.compile(
    r"/[^/]*/?$|/(etc|usr|bin|sbin|lib\w*|boot|dev|proc|sys|var)/|/(home|root|Users)/[^/]*/?$|~/?$|(\.\./?)+$"
)


def modes(rest: Sequence[str], command: Command) -> Judged:
    """chmod, chown, chgrp on a whole tree that is not the task's own."""
    deep = any(word == "--recursive" or re.match(r"-[a-zA-Z]*R", word) for word in rest)
    if deep and any(_SYSTEM.match(word) or word[:1] in (UNKNOWN, QUOTED) for word in rest[1:]):
        return ("destroys",), "it changes the rights of a whole system"
    return FINE


def kill(rest: Sequence[str], _: Command) -> Judged:
    """Process 1, and `-1`: every process."""
    operands = [word for word in rest[1:] if word != "--"] if rest[:1] and rest[0].startswith("-") else list(rest)
    everything = any(word in ("1", "-1") for word in operands) and rest[:1] not in (["-0"], ("-0",))
    return (("destroys",), "kill ends every process") if everything else FINE


DATABASES = frozenset({"psql", "mysql", "mariadb", "mongosh", "mongo", "redis-cli", "mysqladmin", "cqlsh", "sqlcmd",
                       "clickhouse-client", "cockroach", "valkey-cli"})  # fmt: skip
_DROPS = re.compile(
    r"(?i)\b(drop\s+(table|database|schema|role|user|view|index|collection|keyspace|owned)|truncate\s+\w|dropDatabase"
    r"|delete\s+from\s+[\w.\"`]+\s*(;|$)|flushall|flushdb|deleteMany\(\s*\{\s*\}|\.drop\(\))"
)
_ESCAPES = re.compile(r"\\!|(^|;|\n)\s*system\s|\b(to|from)\s+program\b", re.IGNORECASE)


def database(name: str, rest: Sequence[str], command: Command) -> Judged:
    """What a client of a database is told by its words, a text or a pipe."""
    said = "\n".join((*rest, *command.mentions, *(" ".join(words[1:]) for words in command.feeders)))
    if _DROPS.search(said) or (name == "mysqladmin" and "drop" in rest):
        return ("destroys",), f"{name} deletes data"
    return (("unclear",), f"{name} starts a program") if _ESCAPES.search(said) else FINE
