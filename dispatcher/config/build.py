"""Parsed models.yaml -> Config: what each key means, and which names must exist.

One function per section, in the order of the file. Sections that may be left out may also stand there empty, so that
everything below a heading can be commented out.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from dispatcher import difficulty, environment, harness
from dispatcher.config.model import (
    ApprovalsConfig,
    Config,
    HarnessConfig,
    PolicyText,
    RepositoryConfig,
    SandboxConfig,
)
from dispatcher.config.read import Reader
from dispatcher.errors import BadInput
from dispatcher.routing import Roster
from dispatcher.task import (
    Billing,
    Budget,
    Candidate,
    CopyMode,
    Credential,
    Deliver,
    Difficulty,
    Expect,
    Limits,
    Route,
    Tools,
)

SECTIONS = (
    "credentials", "candidates", "routes", "difficulty", "repositories", "defaults", "limits", "environment", "rules",
    "harnesses", "allow_untested", "sandboxes", "sandbox", "copies", "approvals", "notify", "webhook",
)  # fmt: skip
DEFAULT_KEYS = (
    "setup", "verify", "hidden_checks", "tools", "expect", "base", "credentials", "sandbox", "copy", "copy_files",
    "keep_daemons", "deliver", "auto_accept",
)  # fmt: skip
CREDENTIAL_KEYS = ("billing", "env", "base_url", "budget", "overage", "config_dir")
CANDIDATE_KEYS = (
    "harness", "model", "credential", "per_day", "floating", "context_window", "tools", "allow_untested", "sandbox",
)  # fmt: skip
ROUTE_KEYS = ("candidates", "spill", "free_first", "sandbox")
MATCH_KEYS = ("title", "body", "words_over", "words_under", "path")
HARNESS_KEYS = ("path", "env", "allow_untested")
SANDBOX_KEYS = ("kind", "image", "command", "network", "read", "write")
APPROVAL_KEYS = ("rules", "park_after", "expire", "approvers")
BUDGET_WINDOWS = ("window", "day", "week", "month")
BUDGET_UNITS = ("usd", "tokens", "attempts", "minutes")

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

_CLAUDE_ALIASES = frozenset({"default", "best", "opus", "sonnet", "haiku", "opusplan", "fable", "mythos"})
_LATEST = ("latest", "auto", "default", "best")
_SANDBOX_KINDS = ("bwrap", "docker", "podman", "command")
_READY_SANDBOXES = ("none", "bwrap")  # need no entry in `sandboxes`


def build(top: Reader, *, home: Path, file: Path, copies_root: Callable[[], Path]) -> Config:
    """Raises ConfigError for the first thing that is wrong. `copies_root` gives the place when the file names none."""
    keys = top.keys(*SECTIONS)
    harnesses = _harnesses(keys.get("harnesses"))
    untested = keys["allow_untested"].flag() if _given(keys, "allow_untested") else False
    sandboxes = _sandboxes(keys.get("sandboxes"))
    credentials = _credentials(_needed(top, keys, "credentials"))
    candidates = _candidates(_needed(top, keys, "candidates"), credentials, harnesses, sandboxes, untested)
    routes, warnings = _routes(_needed(top, keys, "routes"), candidates, sandboxes)
    defaults, default_repository = _defaults(keys, credentials, sandboxes)
    copies = keys["copies"].keys("root", "mode") if _given(keys, "copies") else {}
    return Config(
        home=home,
        file=file,
        roster=Roster(candidates, routes),
        credentials=credentials,
        copies_root=Path(copies["root"].path_text()) if "root" in copies else copies_root(),
        limits=_limits(keys.get("limits")),
        difficulty_rules=_difficulty(keys.get("difficulty")),
        repositories=_repositories(keys.get("repositories"), defaults, credentials, sandboxes),
        defaults=defaults,
        default_repository=default_repository,
        copy_mode=copies["mode"].choice(CopyMode) if "mode" in copies else CopyMode.CLONE,
        environment_pass=_environment(keys.get("environment")),
        rules=keys["rules"].texts() if _given(keys, "rules") else (),
        harnesses=harnesses,
        sandboxes=sandboxes,
        approvals=_approvals(keys.get("approvals")),
        notify=_command(keys["notify"]) if _given(keys, "notify") else None,
        webhook=keys["webhook"].url() if _given(keys, "webhook") else None,
        warnings=tuple(warnings),
    )


def _given(keys: Mapping[str, Reader], name: str) -> bool:
    return name in keys and keys[name].value is not None


def _needed(top: Reader, keys: Mapping[str, Reader], name: str) -> Reader:
    if name not in keys:
        top.fail(f"there are no {name}", f"add `{name}:`, or start from the file that `dispatcher init` writes")
    if not keys[name].value:
        keys[name].fail("is empty", "define at least one")
    return keys[name]


# --- who pays, and who works ---


def _credentials(section: Reader) -> dict[str, Credential]:
    found = {}
    for name, entry in section.named("credential").items():
        keys = entry.keys(*CREDENTIAL_KEYS)
        if "billing" not in keys:
            entry.fail("says no billing", f"add `billing:` with one of {', '.join(Billing)}")
        found[name] = Credential(
            name=name,
            billing=keys["billing"].choice(Billing),
            env=_variables(keys["env"]) if "env" in keys else (),
            base_url=keys["base_url"].url() if "base_url" in keys else None,
            budget=_budget(keys["budget"]) if "budget" in keys else Budget(),
            overage=keys["overage"].flag() if "overage" in keys else False,
            config_dir=keys["config_dir"].path_text() if "config_dir" in keys else None,
        )
    return found


def _variables(reader: Reader) -> tuple[str, ...]:
    items = [reader] if isinstance(reader.value, str) else list(reader.items())
    for item in items:
        why = environment.why_not_passed(item.variable())
        if why is not None and not environment.is_money(item.variable()):
            item.fail(f"{item.variable()} cannot be given to a worker: {why}")
    return tuple(dict.fromkeys(item.variable() for item in items))


def _budget(reader: Reader) -> Budget:
    return Budget(
        **{
            unit: {window: amount.number() for window, amount in caps.keys(*BUDGET_WINDOWS).items()}
            for unit, caps in reader.keys(*BUDGET_UNITS).items()
        }
    )


def _candidates(
    section: Reader,
    credentials: Mapping[str, Credential],
    harnesses: Mapping[str, HarnessConfig],
    sandboxes: Mapping[str, SandboxConfig],
    untested: bool,
) -> dict[str, Candidate]:
    found = {}
    for name, entry in section.named("candidate").items():
        keys = entry.keys(*CANDIDATE_KEYS)
        for key, fix in (
            ("harness", f"add `harness:` with one of {', '.join(harness.names())}"),
            ("model", "add `model:` with the full id; a run without one would use whatever the CLI has stored"),
            ("credential", f"add `credential:` with one of {', '.join(credentials)}"),
        ):
            if key not in keys:
                entry.fail(f"names no {key}", fix)
        program = keys["harness"].defined("harness", harness.names())
        of_harness = harnesses.get(program, HarnessConfig()).allow_untested
        found[name] = Candidate(
            name=name,
            harness=program,
            model=_model(keys["model"], program, floating="floating" in keys and keys["floating"].flag()),
            credential=credentials[keys["credential"].defined("credential", credentials)],
            per_day=keys["per_day"].whole() if "per_day" in keys else None,
            floating=keys["floating"].flag() if "floating" in keys else False,
            context_window=keys["context_window"].whole() if "context_window" in keys else None,
            tools=keys["tools"].choice(Tools) if "tools" in keys else None,
            allow_untested=keys["allow_untested"].flag()
            if "allow_untested" in keys
            else untested
            if of_harness is None
            else of_harness,
            sandbox=_sandbox(keys["sandbox"], sandboxes) if "sandbox" in keys else None,
        )
    return found


def _model(reader: Reader, program: str, *, floating: bool) -> str:
    """A full id. Aliases move to another model over night, so they must say `floating: true`."""
    model = reader.text()
    if any(character.isspace() for character in model):
        reader.fail(f"the id {model!r} has a space in it", "a free model of openrouter is written vendor/model:free")
    if program == "claude":
        base = model.partition("[")[0]  # claude-opus-5-5[1m]: the same model with its long window
        if not floating and (base in _CLAUDE_ALIASES or base.endswith("-latest") or not any(map(str.isdigit, base))):
            reader.fail(
                f"{model!r} is an alias, not a full id",
                "write the full id, such as claude-sonnet-5-5, or add `floating: true` to accept that it moves",
            )
        return model
    provider, _, rest = model.partition("/")
    if not provider or not rest or rest.endswith("/"):
        reader.fail(
            f"{model!r} is not a full id", "write provider/model as `opencode models` prints it: opencode/big-pickle"
        )
    last = rest.rpartition("/")[2]
    if not floating and (last in _LATEST or last.endswith(("-latest", ":latest"))):
        reader.fail(f"{model!r} is an alias, not a full id", "name the model, or add `floating: true`")
    return model


def _routes(
    section: Reader, candidates: Mapping[str, Candidate], sandboxes: Mapping[str, SandboxConfig]
) -> tuple[dict[Difficulty, Route], list[str]]:
    routes: dict[Difficulty, Route] = {}
    warnings = []
    for name, entry in section.keys(*Difficulty).items():
        keys = entry.keys(*ROUTE_KEYS) if isinstance(entry.value, dict) else {"candidates": entry}
        if "candidates" not in keys or not keys["candidates"].value:
            entry.fail("has no candidates", "list at least one: [name, name]")
        route = Route(
            candidates=_walk(keys["candidates"], candidates),
            spill=keys["spill"].flag() if "spill" in keys else False,
            free_first=keys["free_first"].flag() if "free_first" in keys else False,
            sandbox=_sandbox(keys["sandbox"], sandboxes) if "sandbox" in keys else None,
        )
        routes[Difficulty(name)] = route
        first = candidates[route.candidates[0]].credential.billing
        others = [n for n in route.candidates if candidates[n].credential.billing is not first]
        if others and not route.spill:
            warnings.append(
                f"routes.{name}: {', '.join(others)} will not be used, since the route starts with {first} billing; "
                f"write {{candidates: [...], spill: true}} to let it spill over"
            )
    missing = [name for name in Difficulty if name not in routes]
    if missing:
        warnings.append(f"routes: there is none for {', '.join(missing)}; such briefs will need a person")
    return routes, warnings


def _walk(reader: Reader, candidates: Mapping[str, Candidate]) -> tuple[str, ...]:
    names: list[str] = []
    for item in reader.items():
        name = item.defined("candidate", candidates)
        if name in names:
            item.fail(f"{name!r} is listed twice", "take one out")
        names.append(name)
    return tuple(names)


def _difficulty(section: Reader | None) -> tuple[difficulty.Rule, ...]:
    if section is None or section.value is None:
        return ()
    rules = []
    for entry in section.items():
        keys = entry.keys("match", "is")
        if "is" not in keys or "match" not in keys:
            entry.fail("needs `match` and `is`", '{match: {title: "(typo|rename)"}, is: trivial}')
        match = keys["match"].keys(*MATCH_KEYS)
        if not match:
            keys["match"].fail("is empty", f"use {', '.join(MATCH_KEYS)}")
        rule = difficulty.Rule(
            is_=keys["is"].choice(Difficulty),
            title=match["title"].text() if "title" in match else None,
            body=match["body"].text() if "body" in match else None,
            words_over=match["words_over"].whole(least=0) if "words_over" in match else None,
            words_under=match["words_under"].whole() if "words_under" in match else None,
            path=match["path"].text() if "path" in match else None,
            line=entry.node.line,
        )
        wrong = difficulty.problem(rule)
        if wrong is not None:
            match["title" if wrong.startswith("`title`") else "body"].fail(wrong, "a plain word works, too")
        rules.append(rule)
    return tuple(rules)


# --- where it works ---


def _defaults(
    keys: Mapping[str, Reader], credentials: Mapping[str, Credential], sandboxes: Mapping[str, SandboxConfig]
) -> tuple[RepositoryConfig, str | None]:
    given = keys["defaults"].keys("repo", *DEFAULT_KEYS) if _given(keys, "defaults") else {}
    if _given(keys, "sandbox"):
        if "sandbox" in given:
            given["sandbox"].fail("is said twice, here and as `sandbox:` at the top", "keep one of them")
        given["sandbox"] = keys["sandbox"]
    repository = given.pop("repo").path_text() if "repo" in given else None
    return _entry(given, RepositoryConfig(), credentials, sandboxes), repository


def _repositories(
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
        "sandbox": ("sandbox", lambda reader: _sandbox(reader, sandboxes)),
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


def _limits(section: Reader | None) -> Limits:
    if section is None or section.value is None:
        return Limits()
    return Limits(**{key: LIMITS[key](reader) for key, reader in section.keys(*LIMITS).items()})  # type: ignore[arg-type]


def _environment(section: Reader | None) -> tuple[str, ...]:
    keys = section.keys("pass") if section is not None and section.value is not None else {}
    if not _given(keys, "pass"):
        return ()
    for item in keys["pass"].items():
        name = item.variable()
        why = environment.why_not_passed(name)
        if why is not None:
            item.fail(f"{name} cannot be passed to every worker: {why}")
    return tuple(dict.fromkeys(item.variable() for item in keys["pass"].items()))


# --- how it is started ---


def _harnesses(section: Reader | None) -> dict[str, HarnessConfig]:
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


def _sandboxes(section: Reader | None) -> dict[str, SandboxConfig]:
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
            command=_command(keys["command"]) if "command" in keys else (),
            network=keys["network"].flag() if "network" in keys else True,
            read=tuple(item.path_text() for item in keys["read"].items()) if "read" in keys else (),
            write=tuple(item.path_text() for item in keys["write"].items()) if "write" in keys else (),
        )
    return found


def _sandbox(reader: Reader, sandboxes: Mapping[str, SandboxConfig]) -> str:
    return reader.defined("sandbox", dict.fromkeys((*_READY_SANDBOXES, *sandboxes)))


def _command(reader: Reader) -> tuple[str, ...]:
    """A list of words is run as it is; one text is given to the shell."""
    if isinstance(reader.value, str):
        return ("/bin/sh", "-c", reader.text())
    words = reader.texts()
    if not words:
        reader.fail("is empty", "write the command as one text, or as a list of words")
    return words


def _approvals(section: Reader | None) -> ApprovalsConfig:
    if section is None or section.value is None:
        return ApprovalsConfig()
    keys = {"rules": section} if isinstance(section.value, list) else section.keys(*APPROVAL_KEYS)
    rules = []
    for item in keys["rules"].items() if _given(keys, "rules") else ():
        fields = item.plain()
        if not isinstance(fields, dict):
            item.fail("must be a mapping, such as {tool: bash, command: git push, do: ask}")
        _refuse_bad_rule(item, fields)
        rules.append(PolicyText(fields, item.node.line))
    return ApprovalsConfig(
        rules=tuple(rules),
        park_after=keys["park_after"].duration() if "park_after" in keys else ApprovalsConfig.park_after,
        expire=keys["expire"].duration() if _given(keys, "expire") else None,
        approvers=_approvers(keys["approvers"]) if _given(keys, "approvers") else {},
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
