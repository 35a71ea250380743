"""What would make a run spend other money than its credential says, or none at all, found before any process starts.

The environment of a worker is built from nothing (`environment.py`); what that cannot remove is looked for here: the
settings, stored logins and configuration that a CLI reads by itself, and keys in files of the project. Names and paths
go into the words, a value never does.

Seen on claude 2.1.332: a key in `env` of settings.json or .claude.json replaces the one in the environment; so does a
base URL; a `CLAUDE_CODE_USE_BEDROCK` there sends a subscription's run to Amazon; `apiKeyHelper` is asked even beside an
OAuth token; a settings file that is no plain JSON is ignored whole. Seen on opencode 1.18: a key in auth.json wins over
the one in the environment. Both ignore `.env` files today; builds of the same programs with another runtime load them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from dispatcher import environment
from dispatcher.errors import Refused
from dispatcher.task import Billing, Candidate, Credential

Json = dict[str, Any]

MANAGED = Path("/etc")  # where both CLIs look for what an administrator has set

_CLAUDE_KEYS = frozenset(
    {"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN", "ANTHROPIC_CUSTOM_HEADERS"}
)
_CLAUDE_URLS = frozenset({"ANTHROPIC_BASE_URL", "CLAUDE_CODE_API_BASE_URL"})
_OFF = frozenset({"", "0", "false", "no", "off"})
_PAID = (Billing.METERED, Billing.CREDIT)

# Providers whose login in the browser is a plan, and whose key is metered. With others a key may be either.
_PLAN_LOGINS = frozenset({"anthropic", "openai"})
_DOTENV = (
    ".env",
    ".env.local",
    ".env.development",
    ".env.development.local",
    ".env.production",
    ".env.production.local",
)
_ASSIGNMENT = re.compile(r"^\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*[=:]\s*(.*?)\s*$", re.M)
_LOGINS = "OPENCODE_AUTH_CONTENT"  # opencode: the logins of all providers

# Providers whose variables do not begin with the provider's own name (those that opencode 1.18 knows).
_PROVIDER_PREFIXES: Mapping[str, tuple[str, ...]] = {
    "alibaba": ("ALIBABA_", "DASHSCOPE_"),
    "alibaba-cn": ("ALIBABA_", "DASHSCOPE_"),
    "amazon-bedrock": ("AWS_",),
    "google": ("GOOGLE_", "GEMINI_"),
    "huggingface": ("HF_",),
    "io-net": ("IOINTELLIGENCE_",),
    "sap-ai-core": ("AICORE_",),
    "thinkingmachines": ("TINKER_",),
    "vercel": ("VERCEL_", "AI_GATEWAY_"),
    "volcengine": ("VOLCENGINE_", "ARK_"),
    "volcengine-coding-plan": ("VOLCENGINE_", "ARK_"),
    "zai": ("ZAI_", "ZHIPU_"),
    "zai-coding-plan": ("ZAI_", "ZHIPU_"),
}


class WrongMoney(Refused):
    """The candidate may not be started until a person has changed something: other candidates may."""


def refuse(candidate: Candidate, variables: Mapping[str, str], folder: Path | None, *, trusted: bool = False) -> None:
    """Raise WrongMoney with the first problem. `variables` is the worker's environment, `folder` where it will work."""
    for text, fix in problems(candidate, variables, folder, trusted=trusted):
        raise WrongMoney(f"{candidate.name} would not spend what {candidate.credential.name} says: {text}", hint=fix)


def problems(
    candidate: Candidate, variables: Mapping[str, str], folder: Path | None, *, trusted: bool = False
) -> Iterator[tuple[str, str]]:
    """What is wrong, and what to do about it. `trusted`: the CLI reads the project's own settings too."""
    look: dict[str, Callable[..., Iterator[tuple[str, str]]]] = {"claude": _claude, "opencode": _opencode}
    if candidate.harness in look:
        yield from look[candidate.harness](candidate, variables, folder, trusted)
    if candidate.harness in look and folder is not None:
        yield from _dotenv(candidate, variables, folder)


def no_login(candidate: Candidate, variables: Mapping[str, str]) -> tuple[str, str] | None:
    """That the CLI has nothing stored that could pay, and what to do. None when it has, or when none is needed.

    Only whether it is there: that it has run out shows at a run. `variables` is the worker's environment.
    """
    look = {"claude": _no_claude_login, "opencode": _no_opencode_login}.get(candidate.harness)
    return None if look is None or candidate.credential.env else look(candidate, variables)


# --- what every harness shares ------------------------------------------------------------------------------------


def _named(credential: Credential, variables: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """A credential that names its key has to have it: without one the CLI falls back on whatever login is stored."""
    keys = [name for name in credential.env if environment.is_money(name)]
    if keys and not any(variables.get(name) for name in keys):
        names = " or ".join(keys)
        yield f"{names} is not set, so a stored login would be spent", f"set {names} where `dispatcher run` is started"


def _dotenv(candidate: Candidate, variables: Mapping[str, str], folder: Path) -> Iterator[tuple[str, str]]:
    for name in _DOTENV:
        for variable, value in _ASSIGNMENT.findall(_text(folder / name)):
            plain = value.strip("\"'")
            if not plain or variables.get(variable) or not pays(candidate, variable):
                continue
            yield (
                f"{name} of the project sets {variable}",
                f"keep {variable} out of {folder / name} (`copy_files` and `setup` decide what comes into a task copy)",
            )


def pays(candidate: Candidate, variable: str) -> bool:
    """Whether this harness would pay with the variable, or send its requests elsewhere because of it."""
    if candidate.harness == "claude":
        return variable in _CLAUDE_KEYS or variable in _CLAUDE_URLS or variable.startswith("CLAUDE_CODE_USE_")
    if candidate.harness == "opencode" and variable == _LOGINS:
        return True
    if not environment.is_money(variable):
        return False
    known = _PROVIDER_PREFIXES.get(candidate.provider)
    return variable.startswith(known) if known else _begins_alike(candidate.provider, variable)


def _begins_alike(provider: str, variable: str) -> bool:
    """ai-router: AI_ROUTER_API_KEY; moonshotai: MOONSHOT_API_KEY; cloudflare-ai-gateway: CLOUDFLARE_API_TOKEN."""
    whole, first = re.sub(r"[^A-Z0-9]", "_", provider.upper()), variable.partition("_")[0]
    return variable.startswith(whole + "_") or (len(first) > 2 and whole.replace("_", "").startswith(first))


def _same_address(declared: str | None, found: str) -> bool:
    """Equal, or below it: opencode's addresses end in the version of the protocol."""
    if declared is None:
        return False
    wanted, given = declared.rstrip("/"), found.rstrip("/")
    return given == wanted or given.startswith(wanted + "/")


def _declare(credential: Credential, url: str) -> str:
    return f"take it out, or say `base_url: {url}` on credential {credential.name} if that is meant"


# --- claude -------------------------------------------------------------------------------------------------------


def _claude(
    candidate: Candidate, variables: Mapping[str, str], folder: Path | None, trusted: bool
) -> Iterator[tuple[str, str]]:
    credential = candidate.credential
    yield from _named(credential, variables)
    if credential.billing is Billing.SUBSCRIPTION and "ANTHROPIC_API_KEY" in credential.env:
        yield "ANTHROPIC_API_KEY is a metered key", "say `billing: metered`, or take it out of `env:`"
    logins, state, settings = _claude_files(variables)
    if trusted and folder is not None:
        settings.append(folder / ".claude/settings.json")
    for file in settings:
        yield from _claude_settings(credential, variables, file, _object(file))
    for name, value in variables.items():
        if name.startswith("CLAUDE_CODE_USE_") and value.lower() not in _OFF and name not in credential.env:
            yield f"{name} is set", f"name it in `env:` of {credential.name} if that is who pays"
    yield from _claude_login(credential, variables, logins, state)


def _claude_files(variables: Mapping[str, str]) -> tuple[Path, Path, list[Path]]:
    """Its login, its state, and whatever may hold settings, the state included."""
    home = Path(variables.get("HOME", "/"))
    own = variables.get("CLAUDE_CONFIG_DIR")
    config = Path(own) if own else home / ".claude"
    state = (config if own else home) / ".claude.json"
    settings = [
        MANAGED / "claude-code/managed-settings.json",
        *sorted((MANAGED / "claude-code/managed-settings.d").glob("*.json")),
        config / "remote-settings.json",
        config / "settings.json",
        state,
    ]
    return config / ".credentials.json", state, settings


def _no_claude_login(candidate: Candidate, variables: Mapping[str, str]) -> tuple[str, str] | None:
    """claude 2.1 without any of these: "Not logged in", before the first request."""
    logins, state, settings = _claude_files(variables)
    if any(variables.get(name) for name in _CLAUDE_KEYS):
        return None
    if _object(logins).get("claudeAiOauth") or _object(state).get("primaryApiKey"):
        return None
    for found in map(_object, settings):
        if found.get("apiKeyHelper") or any(_inner(found, "env").get(name) for name in _CLAUDE_KEYS):
            return None
    own = f"CLAUDE_CONFIG_DIR={logins.parent} " if variables.get("CLAUDE_CONFIG_DIR") else ""
    return f"claude has no login in {logins}", f"start `{own}claude` once, and /login"


def _claude_settings(
    credential: Credential, variables: Mapping[str, str], file: Path, found: Json
) -> Iterator[tuple[str, str]]:
    helper_is_meant = credential.billing in _PAID and not credential.env
    if found.get("apiKeyHelper") and not helper_is_meant:
        yield f"{file} has an apiKeyHelper, whose key would be spent", f"take apiKeyHelper out of {file}"
    given = found.get("env")
    for name, value in given.items() if isinstance(given, dict) else ():
        text = str(value)
        if name in _CLAUDE_KEYS and text and variables.get(name) != text:
            yield f"`env` in {file} sets {name}", f"take {name} out of {file}"
        elif name.startswith("CLAUDE_CODE_USE_") and text.lower() not in _OFF and name not in credential.env:
            yield f"`env` in {file} sets {name}, so another provider is paid", f"take {name} out of {file}"
        elif (name in _CLAUDE_URLS or name.endswith("_BASE_URL")) and not _same_address(credential.base_url, text):
            yield f"`env` in {file} sets {name}", _declare(credential, text)


def _claude_login(
    credential: Credential, variables: Mapping[str, str], logins: Path, state: Path
) -> Iterator[tuple[str, str]]:
    """A key or token in the environment wins over the stored plan; a stored key is looked at all the same."""
    carried = any(variables.get(name) for name in _CLAUDE_KEYS)
    plan, key = bool(_object(logins).get("claudeAiOauth")), bool(_object(state).get("primaryApiKey"))
    if key and credential.billing in (Billing.SUBSCRIPTION, Billing.FREE):
        yield (
            f"{state} holds an API key of /login (primaryApiKey)",
            "log in with the plan: `claude`, then /logout and /login; or give the credential a `config_dir` of its own",
        )
    if plan and not carried and not key and credential.billing is not Billing.SUBSCRIPTION:
        yield (
            f"the login stored in {logins} is a subscription, and the credential is {credential.billing}",
            f"say `billing: subscription`, or name the key that pays in `env:` of {credential.name}",
        )


# --- opencode -----------------------------------------------------------------------------------------------------


def _opencode(
    candidate: Candidate, variables: Mapping[str, str], folder: Path | None, trusted: bool
) -> Iterator[tuple[str, str]]:
    credential, provider = candidate.credential, candidate.provider
    yield from _named(credential, variables)
    yield from _opencode_login(candidate, variables, _opencode_logins(variables))
    url: tuple[str, str] | None = None
    for file in _opencode_files(variables, folder if trusted else None):
        entry = _inner(_object(file, comments=True), "provider", provider)
        for where, text in _addresses(entry, candidate.model):
            text = _resolved(text, variables)
            url = (str(file), text)
            if not _same_address(credential.base_url, text):
                yield f"{where} of {provider} in {file} is {text}", _declare(credential, text)
        key = str(_inner(entry, "options").get("apiKey") or "")
        if key and credential.env and not re.search("|".join(map(re.escape, credential.env)), key):
            yield (
                f"{file} has a key of its own for {provider}",
                f"take provider.{provider}.options.apiKey out of {file}, or `env:` off credential {credential.name}",
            )
    if credential.base_url is not None and url is None:
        yield (
            f"{credential.name} declares a base_url, but opencode has none for {provider}",
            f"set provider.{provider}.options.baseURL in opencode.json",
        )


def _opencode_logins(variables: Mapping[str, str]) -> Path:
    return _below(variables, "XDG_DATA_HOME", Path(variables.get("HOME", "/")) / ".local/share") / "opencode/auth.json"


def _no_opencode_login(candidate: Candidate, variables: Mapping[str, str]) -> tuple[str, str] | None:
    """opencode's own free models need no account; a provider that its configuration describes may need none."""
    provider, logins = candidate.provider, _opencode_logins(variables)
    if (provider == "opencode" and _is_free(candidate.credential)) or _inner(_object(logins), provider):
        return None
    files = _opencode_files(variables, None)
    if any(_inner(_object(file, comments=True), "provider", provider) for file in files):
        return None
    return f"opencode has no login for {provider} in {logins}", f"opencode auth login (provider {provider})"


def _opencode_files(variables: Mapping[str, str], project: Path | None) -> Iterator[Path]:
    """Later ones win. OPENCODE_CONFIG and OPENCODE_CONFIG_DIR count when they reach the worker."""
    home = Path(variables.get("HOME", "/"))
    folders = [
        MANAGED / "opencode",
        _below(variables, "XDG_CONFIG_HOME", home / ".config") / "opencode",
        home / ".opencode",
    ]
    folders += [Path(variables["OPENCODE_CONFIG_DIR"])] if variables.get("OPENCODE_CONFIG_DIR") else []
    folders += [project, project / ".opencode"] if project is not None else []
    for folder in folders:
        yield from (folder / name for name in ("config.json", "opencode.json", "opencode.jsonc"))
    if variables.get("OPENCODE_CONFIG"):
        yield Path(variables["OPENCODE_CONFIG"])


def _addresses(entry: Json, model: str) -> Iterator[tuple[str, str]]:
    name = model.split("/", 1)[-1]
    for where, holder, key in (
        ("options.baseURL", _inner(entry, "options"), "baseURL"),
        ("api", entry, "api"),
        ("the model's api", _inner(entry, "models", name, "provider"), "api"),
    ):
        if isinstance(holder.get(key), str) and holder[key]:
            yield where, holder[key]


def _opencode_login(candidate: Candidate, variables: Mapping[str, str], file: Path) -> Iterator[tuple[str, str]]:
    """Only the kind of the entry is looked at. A key there wins over the one in the environment."""
    credential, provider = candidate.credential, candidate.provider
    kind = _inner(_object(file), provider).get("type")
    fix = f"opencode auth logout (provider {provider}), or say in models.yaml what {credential.name} really is"
    if kind == "oauth" and (credential.billing in _PAID or (provider in _PLAN_LOGINS and _is_free(credential))):
        yield f"the login for {provider} stored in {file} is a plan, and the credential is {credential.billing}", fix
    elif kind == "oauth" and any(variables.get(name) for name in credential.env):
        yield f"a login for {provider} is stored in {file}, beside the key that the credential names", fix
    elif kind == "api" and any(environment.is_money(name) for name in credential.env):
        yield f"the key for {provider} stored in {file} would be spent instead of {', '.join(credential.env)}", fix
    elif kind == "api" and provider in _PLAN_LOGINS and credential.billing not in _PAID:
        yield f"the login for {provider} stored in {file} is a metered key, not {credential.billing}", fix


def _is_free(credential: Credential) -> bool:
    return credential.billing is Billing.FREE


# --- reading ------------------------------------------------------------------------------------------------------


def _below(variables: Mapping[str, str], name: str, otherwise: Path) -> Path:
    return Path(variables[name]) if variables.get(name) else otherwise


def _text(file: Path) -> str:
    """What stands in a file; nothing when it is not there or not for us to read."""
    try:
        return file.read_text(encoding="utf-8", errors="replace") if file.is_file() else ""
    except OSError:
        return ""


def _object(file: Path, *, comments: bool = False) -> Json:
    """The JSON object in a file; empty when there is none. The CLIs ignore a file that they cannot parse, too."""
    text = _text(file)
    try:
        found = json.loads(_plain_json(text) if comments else text) if text.strip() else {}
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


_JSONC = re.compile(r'("(?:[^"\\]|\\.)*")|//[^\n]*|/\*.*?\*/', re.S)
_TRAILING = re.compile(r'("(?:[^"\\]|\\.)*")|,(?=\s*[}\]])', re.S)


def _plain_json(text: str) -> str:
    """Without comments and trailing commas, which opencode allows; strings stay as they are."""
    return _TRAILING.sub(lambda found: found[1] or "", _JSONC.sub(lambda found: found[1] or " ", text))


def _resolved(text: str, variables: Mapping[str, str]) -> str:
    """opencode replaces {env:NAME} in its configuration."""
    return re.sub(r"\{env:([^}]+)\}", lambda found: variables.get(found[1], ""), text)


def _inner(value: object, *path: str) -> Json:
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}
