"""What models.yaml means once it is read: frozen and typed, with every name in it known to exist.

Nothing in here reads a file. `loader.py` and `build.py` make it; the rooms above only look at it. The small ones are
named tuples: a frozen dataclass costs 1.5 ms of every start, a named tuple 0.2.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from dispatcher.record import record
from dispatcher.task import CopyMode, Credential, Deliver, Expect, Limits, Tools

if TYPE_CHECKING:
    from dispatcher.difficulty import Rule
    from dispatcher.routing import Roster


@record
class RepositoryConfig:
    """What holds for the briefs of one repository, `defaults` already filled in. A brief's own fields come first."""

    path: str = ""  # absolute, symbolic links resolved; empty: the defaults themselves
    setup: tuple[str, ...] = ()
    verify: tuple[str, ...] = ()
    hidden_checks: str | None = None
    tools: Tools | None = None
    expect: Expect | None = None
    base: str | None = None
    credentials: tuple[str, ...] | None = None  # None: every credential may be spent on it
    trust: bool = False  # its own plugins and hooks may run outside a sandbox
    sandbox: str | None = None
    copy_mode: CopyMode | None = None
    copy_files: tuple[str, ...] = ()  # untracked files that a fresh copy needs
    keep_daemons: tuple[str, ...] = ()  # names of processes that may outlive the worker
    deliver: Deliver | None = None
    auto_accept: str | None = None


class HarnessConfig(NamedTuple):
    """`command`: the program and its fixed arguments, absolute; None: it is looked for. `env` holds no secrets."""

    command: tuple[str, ...] | None = None
    env: Mapping[str, str] = MappingProxyType({})
    allow_untested: bool | None = None


class SandboxConfig(NamedTuple):
    """A named entry of `sandboxes`. `kind` is bwrap, docker, podman, or command (a template of the user's own)."""

    name: str
    kind: str
    image: str | None = None
    command: tuple[str, ...] = ()
    network: bool = True
    read: tuple[str, ...] = ()  # further paths it may read
    write: tuple[str, ...] = ()


class PolicyText(NamedTuple):
    """One rule of `approvals.rules` as written; the policy room gives it a meaning."""

    fields: Mapping[str, object]
    line: int


class ApprovalsConfig(NamedTuple):
    rules: tuple[PolicyText, ...] = ()  # the last match wins
    park_after: float = 120.0  # seconds a worker may hold a call before it is ended and its task parked
    expire: float | None = None  # seconds after which an unanswered call is denied
    approvers: Mapping[str, tuple[str, ...]] = MappingProxyType({})  # account -> names of rules, ("*",) = all


@record
class Config:
    home: Path  # absolute, symbolic links resolved
    file: Path
    roster: Roster
    credentials: Mapping[str, Credential]
    copies_root: Path
    limits: Limits = field(default_factory=Limits)
    difficulty_rules: tuple[Rule, ...] = ()
    repositories: tuple[RepositoryConfig, ...] = ()  # longest path first
    defaults: RepositoryConfig = RepositoryConfig()
    default_repository: str | None = None
    copy_mode: CopyMode = CopyMode.CLONE
    environment_pass: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()  # appended to every prompt
    harnesses: Mapping[str, HarnessConfig] = field(default_factory=dict)
    sandboxes: Mapping[str, SandboxConfig] = field(default_factory=dict)
    approvals: ApprovalsConfig = field(default_factory=ApprovalsConfig)
    notify: tuple[str, ...] | None = None
    webhook: str | None = field(default=None, repr=False)  # its path is often a secret
    warnings: tuple[str, ...] = ()  # allowed, but probably not what was meant

    def repository(self, path: str | os.PathLike[str] | None) -> RepositoryConfig:
        """The entry of the repository at or above `path` (the longest one), else the defaults."""
        if path is None:
            return self.defaults
        real = os.path.realpath(path)
        for entry in self.repositories:
            if real == entry.path or real.startswith(entry.path.rstrip("/") + "/"):
                return entry
        return self.defaults

    def harness(self, name: str) -> HarnessConfig:
        return self.harnesses.get(name, HarnessConfig())
