"""models.yaml: how workers are started. Harnesses, sandboxes, and which calls wait for a person."""

from __future__ import annotations

from collections.abc import Mapping

from dispatcher import environment, harness
from dispatcher.config.model import ApprovalsConfig, HarnessConfig, PolicyText, SandboxConfig
from dispatcher.config.read import Reader, given
from dispatcher.errors import BadInput

HARNESS_KEYS = ("path", "env", "allow_untested")
SANDBOX_KEYS = ("kind", "image", "command", "network", "read", "write")
APPROVAL_KEYS = ("rules", "park_after", "expire", "approvers")

_SANDBOX_KINDS = ("bwrap", "docker", "podman", "command")
_READY_SANDBOXES = ("none", "bwrap")  # need no entry in `sandboxes`


def read_harnesses(section: Reader | None) -> dict[str, HarnessConfig]:
    if section is None or section.value is None:
        return {}
    return {
        name: HarnessConfig(
            command=_program(keys["path"]) if "path" in keys else None,
            env=_settings(keys["env"]) if "env" in keys else {},
            allow_untested=keys["allow_untested"].flag() if "allow_untested" in keys else None,
        )
        for name, entry in section.keys(*harness.names()).items()
        for keys in [entry.keys(*HARNESS_KEYS)]
    }


def _program(reader: Reader) -> tuple[str, ...]:
    words = reader.texts()
    if not words:
        reader.fail("is empty", "name the program by its absolute path")
    return (reader.absolute(words[0]), *words[1:])


def _settings(reader: Reader) -> dict[str, str]:
    """Plain settings of a CLI. A secret has no place in the file: its variable is named by a credential."""
    found = {}
    for name, child in reader.mapping().items():
        secret = any(word in name.upper() for word in ("KEY", "TOKEN", "SECRET", "PASSWORD"))
        if secret or environment.is_money(name):
            child.fail_as_key(f"{name} does not belong here", "name it in the `env:` of the credential that needs it")
        value = child.text()
        found[name] = child.absolute(value) if value.startswith("~/") else value
    return found


def read_sandboxes(section: Reader | None) -> dict[str, SandboxConfig]:
    if section is None or section.value is None:
        return {}
    found = {}
    for name, entry in section.named("sandbox").items():
        keys = entry.keys(*SANDBOX_KEYS)
        if name == "none":
            entry.fail_as_key("none means no sandbox and cannot be defined")
        default = "command" if "command" in keys else name
        kind = keys["kind"].word(*_SANDBOX_KINDS) if "kind" in keys else default
        if kind not in _SANDBOX_KINDS:
            entry.fail("says no kind", f"add `kind:` with one of {', '.join(_SANDBOX_KINDS)}")
        needs = {"docker": "image", "podman": "image", "command": "command"}.get(kind)
        if needs is not None and needs not in keys:
            entry.fail(f"names no {needs}", f"a {kind} sandbox needs `{needs}:`")
        found[name] = SandboxConfig(
            name=name,
            kind=kind,
            image=keys["image"].text() if "image" in keys else None,
            command=read_command(keys["command"]) if "command" in keys else (),
            network=keys["network"].flag() if "network" in keys else True,
            read=tuple(item.path_text() for item in keys["read"].items()) if "read" in keys else (),
            write=tuple(item.path_text() for item in keys["write"].items()) if "write" in keys else (),
        )
    return found


def sandbox_name(reader: Reader, sandboxes: Mapping[str, SandboxConfig]) -> str:
    return reader.defined("sandbox", dict.fromkeys((*_READY_SANDBOXES, *sandboxes)))


def read_command(reader: Reader) -> tuple[str, ...]:
    """A list of words is run as it is; one text is given to the shell."""
    if isinstance(reader.value, str):
        return ("/bin/sh", "-c", reader.text())
    words = reader.texts()
    if not words:
        reader.fail("is empty", "write the command as one text, or as a list of words")
    return words


def read_approvals(section: Reader | None) -> ApprovalsConfig:
    if section is None or section.value is None:
        return ApprovalsConfig()
    keys = {"rules": section} if isinstance(section.value, list) else section.keys(*APPROVAL_KEYS)
    rules = []
    for item in keys["rules"].items() if given(keys, "rules") else ():
        fields = item.plain()
        if not isinstance(fields, dict):
            item.fail("must be a mapping, such as {tool: bash, command: git push, do: ask}")
        _refuse_bad_rule(item, fields)
        rules.append(PolicyText(fields, item.node.line))
    return ApprovalsConfig(
        rules=tuple(rules),
        park_after=keys["park_after"].duration() if "park_after" in keys else ApprovalsConfig.park_after,
        expire=keys["expire"].duration() if given(keys, "expire") else None,
        approvers=_approvers(keys["approvers"]) if given(keys, "approvers") else {},
    )


def _refuse_bad_rule(item: Reader, fields: Mapping[str, object]) -> None:
    """Now, not when the first task is about to start."""
    from dispatcher import policy  # it takes shell text apart: more than a file without rules needs

    try:
        policy.read(fields, "")
    except BadInput as error:
        item.fail(error.message.removeprefix(": "), error.hint)


def _approvers(reader: Reader) -> dict[str, tuple[str, ...]]:
    """`[alice, bob]`: they may answer everything. `{alice: all, bob: [deploy]}`: bob only rules of those names."""
    if isinstance(reader.value, list):
        return {item.text(): ("*",) for item in reader.items()}
    return {name: ("*",) if rules.value == "all" else rules.texts() for name, rules in reader.mapping().items()}
