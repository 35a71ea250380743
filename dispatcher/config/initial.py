"""The models.yaml that `init` writes: what is installed here, which models it offers, who seems to be logged in.

Nothing secret is read. Whether a CLI is logged in is judged by which files exist and which variables are set, never by
what they hold; the free models come from `opencode models`, which needs no account.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dispatcher.config import homes
from dispatcher.config.homes import FILE_NAME
from dispatcher.config.programs import find_program
from dispatcher.errors import BadInput
from dispatcher.words import plural

_ASK_SECONDS = 60


@dataclass(frozen=True)
class FreeModel:
    id: str
    context_window: int | None = None

    @property
    def name(self) -> str:
        return re.sub(r"[^A-Za-z0-9._-]", "-", self.id.rpartition("/")[2].removesuffix("-free")).strip("-._")


# What `opencode models` 1.18 lists without any account; used where it cannot be asked.
FREE_MODELS = (
    FreeModel("opencode/big-pickle", 200_000),
    FreeModel("opencode/nemotron-3-ultra-free", 1_000_000),
    FreeModel("opencode/nemotron-3.5-lightning-free", 262_144),
    FreeModel("opencode/mimo-v2.6-flash-free", 200_000),
    FreeModel("opencode/space-bunny-free", 1_048_576),
    FreeModel("opencode/longcat-2.5-preview-free", 1_000_000),
    FreeModel("opencode/muse-spark-1.3-contributor-free", 1_048_576),
    FreeModel("opencode/ling-3.0-flash-fin-free", 262_144),
)
_SPECIAL = ("preview", "contributor", "fin")  # words of an id that make a model the later choice


@dataclass(frozen=True)
class Machine:
    """What was found. A program is its absolute path; `claude_login` says in words what shows a login."""

    opencode: str | None = None
    claude: str | None = None
    free: tuple[FreeModel, ...] = FREE_MODELS
    asked: bool = False  # `free` is what this machine's opencode lists
    claude_login: str | None = None
    claude_key: bool = False  # ANTHROPIC_API_KEY is set
    opencode_login: bool = False


def init(home: Path, environ: Mapping[str, str]) -> Machine:
    """Write models.yaml, make `briefs/` and `logs/`, and trust the home. An existing models.yaml is never replaced."""
    file = home / FILE_NAME
    if file.exists() or file.is_symlink():
        raise BadInput(f"{file} exists already", hint="edit it; or move it away and run `dispatcher init` again")
    homes.state_folder(environ)  # a missing HOME is said before anything is written
    machine = look_around(environ)
    try:
        (home / "briefs").mkdir(parents=True, exist_ok=True)
        ignore = homes.logs_dir(home) / ".gitignore"
        if not ignore.exists():
            ignore.write_text("*\n!.gitignore\n", encoding="utf-8")
        with file.open("x", encoding="utf-8") as stream:
            stream.write(compose(machine))
    except OSError as error:
        raise BadInput(
            f"cannot write {error.filename or file}: {error.strerror}", hint="choose another --home"
        ) from None
    homes.trust(home, environ)
    return machine


def look_around(environ: Mapping[str, str]) -> Machine:
    opencode = find_program("opencode", None, environ)
    claude = find_program("claude", None, environ)
    listed = ask_free_models(opencode[0], environ) if opencode else ()
    user = Path(environ.get("HOME", "/nonexistent"))
    data = Path(environ.get("XDG_DATA_HOME") or user / ".local/share")
    return Machine(
        opencode=opencode[0] if opencode else None,
        claude=claude[0] if claude else None,
        free=listed or FREE_MODELS,
        asked=bool(listed),
        claude_login=_claude_login(environ, user),
        claude_key=bool(environ.get("ANTHROPIC_API_KEY")),
        opencode_login=(data / "opencode" / "auth.json").exists(),
    )


def _claude_login(environ: Mapping[str, str], user: Path) -> str | None:
    if environ.get("CLAUDE_CODE_OAUTH_TOKEN"):
        return "CLAUDE_CODE_OAUTH_TOKEN is set"
    folder = Path(environ.get("CLAUDE_CONFIG_DIR") or user / ".claude")
    if (folder / ".credentials.json").exists():
        return f"{folder / '.credentials.json'} exists"
    if sys.platform == "darwin" and (user / ".claude.json").exists():
        return "it was used here; its login is in the keychain, where nobody looked"
    return None


def ask_free_models(program: str, environ: Mapping[str, str]) -> tuple[FreeModel, ...]:
    """The models of provider `opencode` that cost nothing and can call tools; empty when the program does not say."""
    command = [program, "models", "opencode", "--verbose"]
    quiet = {**environ, "OPENCODE_DISABLE_AUTOUPDATE": "1"}
    try:
        asked = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=quiet,
            start_new_session=True,
        )  # fmt: skip
    except OSError:
        return ()
    with asked:
        try:
            output, _ = asked.communicate(timeout=_ASK_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(asked.pid, signal.SIGKILL)
            return ()
    return parse_models(output.decode("utf-8", "replace")) if asked.returncode == 0 else ()


def parse_models(text: str) -> tuple[FreeModel, ...]:
    """Output of `opencode models --verbose` (1.18): a line with the id, then the model as a JSON object."""
    found: dict[str, FreeModel] = {}  # by name: the keys of `candidates` must differ
    decoder = json.JSONDecoder()
    for match in re.finditer(r"^(opencode/[A-Za-z0-9._:/-]+)[ \t]*\n(?=\{)", text, re.MULTILINE):
        try:
            model, _ = decoder.raw_decode(text, match.end())
            costs = (model["cost"]["input"], model["cost"]["output"])
            usable = model["capabilities"]["toolcall"] is True and model.get("status") != "deprecated"
            window = model["limit"]["context"]
        except (ValueError, KeyError, TypeError, RecursionError):
            continue
        if usable and not any(costs):
            listed = FreeModel(match[1], window if isinstance(window, int) and window > 0 else None)
            found.setdefault(listed.name, listed)
    return tuple(sorted(found.values(), key=_is_special))  # stable: otherwise in the order of the list


def _is_special(model: FreeModel) -> bool:
    return any(word in re.split(r"[-/.]", model.id) for word in _SPECIAL)


# --- the text ---


def compose(machine: Machine) -> str:
    """The file, commented. It loads as it is, whatever was found."""
    claude, free = _uses_claude(machine), _uses_free(machine)
    metered = machine.claude_key and machine.claude_login is None
    return _HEAD + "\n".join(
        (
            _found(machine),
            _credentials(free=free, claude=claude, metered=metered),
            _candidates(machine, free=free, claude=claude, metered=metered),
            _routes(machine, free=free, claude=claude),
            _TAIL,
        )
    )


def _uses_free(machine: Machine) -> bool:
    return machine.opencode is not None or machine.claude is None


def _uses_claude(machine: Machine) -> bool:
    return machine.claude is not None or machine.opencode is None


def _found(machine: Machine) -> str:
    if machine.opencode is None and machine.claude is None:
        return (
            "# Needed on this machine: opencode for the free models, claude for the rest. `dispatcher doctor` checks.\n"
        )
    lines = ["# Found on this machine when the file was written:"]
    if machine.opencode:
        models = plural(len(machine.free), "free model") if machine.asked else "its list of models could not be read"
        login = ", a stored login" if machine.opencode_login else ""
        lines.append(f"#   opencode  {machine.opencode} ({models}{login})")
    else:
        lines.append("#   opencode  not found: its free models are left out")
    if machine.claude:
        login = machine.claude_login or ("ANTHROPIC_API_KEY is set, no login" if machine.claude_key else "")
        lines.append(f"#   claude    {machine.claude} ({login or 'no login found: start `claude` once and log in'})")
    else:
        lines.append("#   claude    not found: every difficulty goes to the free models")
    return "\n".join(lines) + "\n"


def _credentials(*, free: bool, claude: bool, metered: bool) -> str:
    lines = [
        "# Whose quota or money a run spends. Holds and budgets follow the credential. `env` names the variables that",
        "# carry a key to the worker - never the key itself. A key that no credential names never reaches a worker.",
        "credentials:",
    ]
    if free:
        lines.append("  zen:         {billing: free}            # the free models of opencode need no account")
    plan = "  claude-plan: {billing: subscription}    # the login of the claude CLI (Pro, Max, Team)"
    api = "  claude-api:  {billing: metered, env: [ANTHROPIC_API_KEY], budget: {usd: {day: 5}}}"
    if claude:
        lines += [api, f"# {plan[2:]}"] if metered else [plan, f"# {api[2:]}"]
    return "\n".join(lines) + "\n"


def _candidates(machine: Machine, *, free: bool, claude: bool, metered: bool) -> str:
    lines = [
        "# One worker each: a CLI, a full model id, a credential. An alias such as `sonnet` becomes another model one",
        "# day, so it is refused unless the entry says `floating: true`. More ids: `opencode models`.",
        "candidates:",
    ]
    if free:
        width = max(len(model.name) for model in machine.free)
        for model in machine.free:
            window = f", context_window: {model.context_window}" if model.context_window else ""
            entry = f"{{harness: opencode, model: {model.id}, credential: zen{window}}}"
            lines.append(f"  {model.name + ':':<{width + 1}} {entry}")
    if claude:
        payer = "claude-api" if metered else "claude-plan"
        for name, model_id in (
            ("haiku", "claude-haiku-5-5"),
            ("sonnet", "claude-sonnet-5-5"),
            ("opus", "claude-opus-5-5"),
        ):
            lines.append(f"  {name + ':':<7} {{harness: claude, model: {model_id}, credential: {payer}}}")
    return "\n".join(lines) + "\n"


def _routes(machine: Machine, *, free: bool, claude: bool) -> str:
    names = [model.name for model in machine.free]
    free_list = f"[{', '.join(names)}]"
    turned = f"[{', '.join((*names[1:], *names[:1]))}]"
    trivial, easy = (free_list, turned) if free else ("[haiku, sonnet]", "[haiku, sonnet]")
    medium, hard = ("[sonnet]", "[opus, sonnet]") if claude else (free_list, turned)
    return f"""\
# Who is tried, in this order, for each difficulty; a rate limit moves on to the next. When all are held, the task waits
# for the first reset. A free route never spends money, unless it is written
#   easy: {{candidates: [{names[0]}, sonnet], spill: true}}
routes:
  trivial: {trivial}
  easy:    {easy}
  medium:  {medium}
  hard:    {hard}
"""


_HEAD = """\
# Which models work for you, in which order, and at whose expense. `dispatcher models` prints it as it is understood.
# Every key is checked: a mistake is reported with its line. Times are written 45m, 90s, 2h; sizes 2GiB.

"""

_TAIL = """\
# A brief without `difficulty:` gets that of the first rule that matches, else medium.
difficulty:
  - {match: {title: "(typo|rename|bump|release notes)"}, is: trivial}
  - {match: {words_over: 800}, is: hard}

# What holds for the briefs of one repository; the longest path that fits counts. `defaults:` holds for all others.
# `setup` runs once in a fresh copy, `verify` decides whether the work is done.
repositories:
  # ~/src/shop: {setup: [npm ci], verify: [npm test], credentials: [zen], copy_files: [.env.example]}

# hard_cap ends a worker whatever it does, stall one that is silent, start one that never said a word. `attempts` and
# `finish_attempts` are per task, `jobs` is how many workers run at once in this home.
limits: {hard_cap: 45m, stall: 10m, start: 2m, attempts: 4, finish_attempts: 2, jobs: 2, switch_after: 5s}

# Further variables that workers get, beside PATH, HOME, locale, proxies, certificates and git's author. A worker cannot
# push unless you pass it what it needs (SSH_AUTH_SOCK, GH_TOKEN).
environment: {pass: []}

# Appended to every prompt.
rules:
  - Work only in this folder; never copy the repository elsewhere.
"""
