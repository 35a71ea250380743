"""`init` and `trust`: a home that fits this machine, and the word that its configuration may run commands."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from dispatcher.cli import home, idle
from dispatcher.cli.render import clean, note, out
from dispatcher.errors import BadInput
from dispatcher.words import plural

if TYPE_CHECKING:
    from dispatcher.task import Credential


def write_home(named: Path | None, explicit: Path | None) -> None:
    from dispatcher.config.initial import init

    if named is not None:
        idle.refuse("with FOLDER", {"--home": explicit is not None}, "both name the home to make; leave out one")
    folder = home.find(named or explicit, may_be_missing=True)
    note("looking for opencode and claude, and asking opencode for its models ...")
    machine = init(folder, os.environ)
    out(f"wrote {clean(str(folder / 'models.yaml'))}; this home is trusted on this machine")
    out(
        f"opencode: {machine.opencode or 'not found'}"
        + (f", {plural(len(machine.free), 'free model')}" if machine.asked else "")
    )
    out(f"claude: {machine.claude or 'not found'}" + (f", {machine.claude_login}" if machine.claude_login else ""))
    for line in _who_pays(folder):
        out(line)
    if machine.opencode is None and machine.claude is None:
        note("hint: install one of them; `dispatcher demo` works without")
    out(f"try next: dispatcher doctor --home {clean(str(folder))}")


def _who_pays(folder: Path) -> list[str]:
    """Which levels spend what, read back from the file: a key that happens to be set makes some of them cost money."""
    from dispatcher.config import load

    levels: dict[str, dict[str, None]] = {}
    roster = load(folder).roster
    for difficulty, route in roster.routes.items():
        for name in route.candidates:
            levels.setdefault(_spent(roster.candidates[name].credential), {})[str(difficulty)] = None
    return [f"{', '.join(names)}: {words}" for words, names in levels.items()]


def _spent(credential: Credential) -> str:
    if credential.billing in ("metered", "credit"):
        return f"SPENDS MONEY through {' or '.join(credential.env)}, which is set here; `routes` in models.yaml decides"
    return "free models, no account" if credential.billing == "free" else f"a {credential.billing}, claude's own login"


def trust_home(explicit: Path | None) -> None:
    from dispatcher.config import trust

    folder = home.find(explicit)
    if not (folder / "models.yaml").exists():
        raise BadInput(f"there is no models.yaml in {folder}", hint="make one with: dispatcher init")
    trust(folder)
    out(f"trusted: {clean(str(folder))} may run the commands of its models.yaml on this machine")
