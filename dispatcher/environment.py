"""The worker's environment, built from nothing: an allow list, what is passed on purpose, what the credential names.

Why an allow list: a metered key that happens to be exported would be spent by a subscription run (both CLIs prefer a
key over a login), a push token would let a worker publish, and markers of an agent that we were started from stop the
CLI ("cannot be launched inside another session"). Cron gives HOME, LOGNAME, SHELL and PATH=/usr/bin:/bin and nothing
else, so what a CLI needs beyond that is filled in here.

Only names ever leave this module in notes and errors, never a value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

from dispatcher.errors import BadInput
from dispatcher.record import record
from dispatcher.task import Billing, Credential

MARKER = "DISPATCHER_ATTEMPT"

# Passed when set. Names ending in `*` are prefixes.
PASS: tuple[str, ...] = (
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "TZ", "TMPDIR",
    "LANG", "LANGUAGE", "LC_*",
    "XDG_*",
    "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy",
    "SSL_CERT_FILE", "SSL_CERT_DIR", "NIX_SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE", "AWS_CA_BUNDLE", "GIT_SSL_CAINFO", "GIT_SSL_CAPATH",
    "GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL",
)  # fmt: skip

# What claude's own login needs; only claude gets it, and only when the credential is not another kind of money.
CLAUDE_LOGIN: tuple[str, ...] = ("CLAUDE_CODE_OAUTH_TOKEN", "CLAUDE_CONFIG_DIR")

# Whatever decides who pays, or where a request goes: keys, base URLs, cloud switches. The exact names are those that
# claude 2.1 and the providers of opencode 1.18 read and that no pattern below covers.
_MONEY_PREFIXES = ("ANTHROPIC_", "CLAUDE_CODE_USE_", "AWS_", "AZURE_", "GOOGLE_", "VERTEX_", "CLOUD_ML_", "SNOWFLAKE_")
_MONEY_SUFFIXES = ("_API_KEY", "_API_TOKEN", "_APIKEY", "_BASE_URL", "_API_BASE", "_AI_KEY")
_NO_MONEY = frozenset({"AWS_CA_BUNDLE"})  # a path of certificates
_MONEY_NAMES = frozenset(
    {
        "ABLIT_KEY", "AICORE_SERVICE_KEY", "CLARIFAI_PAT", "CLAUDE_CODE_API_BASE_URL",
        "CLAUDE_CODE_API_KEY_FILE_DESCRIPTOR", "CLAUDE_CODE_OAUTH_TOKEN", "CLOUDFLARE_ACCOUNT_ID",
        "CLOUDFLARE_GATEWAY_ID", "DATABRICKS_HOST", "DATABRICKS_TOKEN", "DIGITALOCEAN_ACCESS_TOKEN", "FRIENDLI_TOKEN",
        "GCLOUD_PROJECT", "HF_TOKEN", "MODAL_PROXY_TOKEN", "NEON_AI_GATEWAY_TOKEN", "OPENCODE_AUTH_CONTENT",
        "OPENCODE_CONSOLE_TOKEN", "PRIVATEMODE_ENDPOINT", "RUNINFRA_GATEWAY_KEY",
        "SUBMODEL_INSTAGEN_ACCESS_KEY",
    }
)  # fmt: skip

# Markers of the run that we were started from, ours included. Not even the configuration may pass them.
_RUN_MARKERS = frozenset(
    {
        "CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT", "CLAUDE_CODE_SSE_PORT", "CLAUDE_CODE_SESSION_ID",
        "CLAUDE_CODE_CHILD_SESSION", "CLAUDE_CODE_SIMPLE", "CLAUDE_PROJECT_DIR", "CLAUDE_ENV_FILE",
        "AGENT", "OPENCODE", "OPENCODE_PID", "OPENCODE_CLIENT", "OPENCODE_CONFIG_CONTENT", "OPENCODE_PERMISSION",
        "OPENCODE_SERVER_PASSWORD", "OPENCODE_SERVER_USERNAME", "OPENCODE_WORKSPACE_ID", "OPENCODE_EDITOR_SSE_PORT",
    }
)  # fmt: skip

# Variables that make git work on another repository, or on configuration that nobody sees.
_GIT_REDIRECTS = frozenset(
    {
        "GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY", "GIT_NAMESPACE",
        "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_PREFIX", "GIT_CONFIG", "GIT_CONFIG_PARAMETERS", "GIT_CONFIG_COUNT",
        "GIT_EXEC_PATH", "GIT_TEMPLATE_DIR", "GIT_QUARANTINE_PATH", "GIT_INTERNAL_GETTEXT_SH_SCHEME",
    }
)  # fmt: skip

_SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"
_ASCII_LOCALES = frozenset({"", "C", "POSIX"})


@record
class WorkerEnvironment:
    """`variables` is everything the worker gets. The other fields hold names and sentences, never values."""

    variables: Mapping[str, str] = field(repr=False)
    stripped: tuple[str, ...] = ()  # variables that decide who pays, set here and kept from the worker
    missing: tuple[str, ...] = ()  # variables that the credential names and that are not set
    notes: tuple[str, ...] = ()


def is_money(name: str) -> bool:
    """Whether the variable decides who pays for a run, or where its requests go."""
    if name in _NO_MONEY:
        return False
    return name in _MONEY_NAMES or name.startswith(_MONEY_PREFIXES) or name.endswith(_MONEY_SUFFIXES)


def why_not_passed(name: str) -> str | None:
    """Why `environment.pass` may not name this variable; None when it may."""
    if is_money(name):
        return "it decides who pays for a run, so only the credential that spends it may name it (`env: [...]`)"
    if name in _RUN_MARKERS or name.startswith("DISPATCHER_"):
        return "it marks the run that dispatcher itself was started from"
    if name in _GIT_REDIRECTS or name.startswith("GIT_CONFIG_") or name.startswith("GIT_TRACE"):
        return "it would make git work on another repository or configuration than the task copy"
    return None


def build(
    environ: Mapping[str, str],
    *,
    passed: Sequence[str],
    credential: Credential,
    harness: str,
    marker: str,
    extra: Mapping[str, str],
    programs: Sequence[str] = (),
) -> WorkerEnvironment:
    """The environment of one worker.

    `passed` are the names of `environment.pass`; `extra` is what the harness and the configuration of the harness
    add (it wins over everything but the marker); `programs` are absolute paths whose folders must be on PATH, because
    a CLI under a version manager needs the `node` that lies beside it.
    """
    variables = {
        name: value
        for name, value in environ.items()
        if _may_pass(name, passed, credential) or (harness == "claude" and _is_login(name, credential))
    }
    if harness == "claude" and credential.base_url is not None:
        variables["ANTHROPIC_BASE_URL"] = credential.base_url
    if harness == "claude" and credential.config_dir is not None:
        variables["CLAUDE_CONFIG_DIR"] = credential.config_dir
    notes = _fill(variables, programs)
    _quiet_git(variables)
    variables.update(extra)
    variables[MARKER] = marker
    if not variables.get("HOME"):
        raise BadInput(
            "HOME is not set, so a worker would not find its login",
            hint="set HOME; in a crontab: HOME=/home/you on a line of its own",
        )
    stripped = tuple(sorted(name for name in environ if is_money(name) and name not in variables))
    missing = tuple(name for name in credential.env if not environ.get(name))
    if missing:
        notes.append(f"named by credential {credential.name} but not set: {', '.join(missing)}")
    return WorkerEnvironment(variables, stripped, missing, tuple(notes))


def _may_pass(name: str, passed: Sequence[str], credential: Credential) -> bool:
    if name in credential.env:
        return True
    if why_not_passed(name) is not None:
        return False
    return name in passed or any(_matches(name, pattern) for pattern in PASS)


def _matches(name: str, pattern: str) -> bool:
    return name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern


def _is_login(name: str, credential: Credential) -> bool:
    """The token of claude's own login must not reach a run that is meant to spend a key, and the other way round."""
    if name not in CLAUDE_LOGIN:
        return False
    return name == "CLAUDE_CONFIG_DIR" or (credential.billing is Billing.SUBSCRIPTION and not credential.env)


def _fill(variables: dict[str, str], programs: Sequence[str]) -> list[str]:
    """What cron leaves out. PATH loses relative entries: in the task copy they would run the repository's files."""
    notes = []
    if variables.get("LC_ALL", "set") in _ASCII_LOCALES:
        del variables["LC_ALL"]
    if variables.get("LANG", "") in _ASCII_LOCALES and variables.get("LC_CTYPE", "") in _ASCII_LOCALES:
        variables.pop("LC_CTYPE", None)
        variables["LANG"] = "C.UTF-8"
    for name, other in (("USER", "LOGNAME"), ("LOGNAME", "USER")):
        if not variables.get(name) and variables.get(other):
            variables[name] = variables[other]
    given = (variables.get("PATH") or _SYSTEM_PATH).split(":")
    entries = [entry for entry in given if entry.startswith("/")]
    if len(entries) < len(given):
        notes.append("relative entries of PATH are not passed on")
    home = variables.get("HOME", "")
    wanted = [program.rpartition("/")[0] for program in programs if program.startswith("/")]
    if home.startswith("/"):
        wanted.append(home.rstrip("/") + "/.local/bin")
    added = [folder for folder in dict.fromkeys(wanted) if folder and folder not in entries]
    variables["PATH"] = ":".join(added + entries)
    return notes


def _quiet_git(variables: dict[str, str]) -> None:
    """Git and ssh must fail where they would ask: nobody is there to answer."""
    variables["GIT_TERMINAL_PROMPT"] = "0"
    variables.setdefault("GIT_ASKPASS", "")  # empty: no helper program from the user's configuration either
    variables.setdefault("SSH_ASKPASS_REQUIRE", "never")
    variables.setdefault("GIT_SSH_COMMAND", "ssh -oBatchMode=yes")
