"""models.yaml: where it works. Repositories and what holds for all of them, limits, what every worker is passed."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace

from dispatcher import environment
from dispatcher.config.model import RepositoryConfig, SandboxConfig
from dispatcher.config.read import Reader, given
from dispatcher.config.starting import sandbox_name
from dispatcher.task import CopyMode, Credential, Deliver, Expect, Limits, Tools

DEFAULT_KEYS = (
    "setup", "verify", "hidden_checks", "tools", "expect", "base", "credentials", "sandbox", "copy", "copy_files",
    "keep_daemons", "deliver", "auto_accept",
)  # fmt: skip

# How each key of `limits` is written.
LIMITS: Mapping[str, Callable[[Reader], float]] = {
    **dict.fromkeys(
        ("hard_cap", "stall", "start", "grace", "switch_after", "max_wait", "setup_cap", "verify_cap"), Reader.duration
    ),
    **dict.fromkeys(("log_bytes", "min_free_memory", "min_free_disk"), Reader.size),
    **dict.fromkeys(("attempts", "starts", "jobs", "failures_in_a_row"), Reader.whole),
    "finish_attempts": lambda reader: reader.whole(least=0),
    "backoffs": lambda reader: reader.whole(least=0),
    "max_load_per_core": Reader.number,
}


def read_defaults(
    keys: Mapping[str, Reader], credentials: Mapping[str, Credential], sandboxes: Mapping[str, SandboxConfig]
) -> tuple[RepositoryConfig, str | None]:
    said = keys["defaults"].keys("repo", *DEFAULT_KEYS) if given(keys, "defaults") else {}
    if given(keys, "sandbox"):
        if "sandbox" in said:
            said["sandbox"].fail("is said twice, here and as `sandbox:` at the top", "keep one of them")
        said["sandbox"] = keys["sandbox"]
    repository = said.pop("repo").path_text() if "repo" in said else None
    return _entry(said, RepositoryConfig(), credentials, sandboxes), repository


def read_repositories(
    section: Reader | None,
    defaults: RepositoryConfig,
    credentials: Mapping[str, Credential],
    sandboxes: Mapping[str, SandboxConfig],
) -> tuple[RepositoryConfig, ...]:
    if section is None or section.value is None:
        return ()
    found: dict[str, RepositoryConfig] = {}
    for written, entry in section.mapping().items():
        path = os.path.realpath(entry.absolute(written))
        if path in found:
            entry.fail_as_key(f"{written!r} is the same folder as an entry above", "keep one of them")
        keys = entry.keys(*DEFAULT_KEYS, "trust") if entry.value is not None else {}
        trusted = keys.pop("trust").flag() if "trust" in keys else False
        found[path] = replace(_entry(keys, defaults, credentials, sandboxes), path=path, trust=trusted)
    return tuple(sorted(found.values(), key=lambda entry: (-len(entry.path), entry.path)))


def _entry(
    keys: Mapping[str, Reader],
    base: RepositoryConfig,
    credentials: Mapping[str, Credential],
    sandboxes: Mapping[str, SandboxConfig],
) -> RepositoryConfig:
    def allowed(reader: Reader) -> tuple[str, ...]:
        return tuple(item.defined("credential", credentials) for item in reader.items())

    read: Mapping[str, tuple[str, Callable[[Reader], object]]] = {
        "setup": ("setup", Reader.texts),
        "verify": ("verify", Reader.texts),
        "hidden_checks": ("hidden_checks", Reader.text),
        "tools": ("tools", lambda reader: reader.choice(Tools)),
        "expect": ("expect", lambda reader: reader.choice(Expect)),
        "base": ("base", Reader.text),
        "credentials": ("credentials", allowed),
        "sandbox": ("sandbox", lambda reader: sandbox_name(reader, sandboxes)),
        "copy": ("copy_mode", lambda reader: reader.choice(CopyMode)),
        "copy_files": ("copy_files", _relative),
        "keep_daemons": ("keep_daemons", Reader.texts),
        "deliver": ("deliver", lambda reader: reader.choice(Deliver)),
        "auto_accept": ("auto_accept", lambda reader: reader.word("checks")),
    }
    values = {field: make(keys[key]) for key, (field, make) in read.items() if key in keys}
    return replace(base, **values)  # type: ignore[arg-type]


def _relative(reader: Reader) -> tuple[str, ...]:
    paths = reader.texts()
    for path in paths:
        if path.startswith(("/", "~")) or ".." in path.split("/"):
            reader.fail(f"{path!r} leads out of the repository", "name files relative to the repository's root")
    return paths


def read_limits(section: Reader | None) -> Limits:
    if section is None or section.value is None:
        return Limits()
    return Limits(**{key: LIMITS[key](reader) for key, reader in section.keys(*LIMITS).items()})  # type: ignore[arg-type]


def read_environment_pass(section: Reader | None) -> tuple[str, ...]:
    keys = section.keys("pass") if section is not None and section.value is not None else {}
    if not given(keys, "pass"):
        return ()
    for item in keys["pass"].items():
        name = item.variable()
        why = environment.why_not_passed(name)
        if why is not None:
            item.fail(f"{name} cannot be passed to every worker: {why}")
    return tuple(dict.fromkeys(item.variable() for item in keys["pass"].items()))
