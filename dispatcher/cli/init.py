"""`init` and `trust`: a home that fits this machine, and the word that its configuration may run commands."""

from __future__ import annotations

import os
from pathlib import Path

from dispatcher.cli import home
from dispatcher.cli.render import clean, note, out
from dispatcher.errors import BadInput


def write_home(explicit: Path | None) -> None:
    from dispatcher.config.initial import init

    folder = home.find(explicit)
    note("looking for opencode and claude, and asking opencode for its models ...")
    machine = init(folder, os.environ)
    out(f"wrote {clean(str(folder / 'models.yaml'))}; this home is trusted on this machine")
    out(
        f"opencode: {machine.opencode or 'not found'}" + (f", {len(machine.free)} free models" if machine.asked else "")
    )
    out(f"claude: {machine.claude or 'not found'}" + (f", {machine.claude_login}" if machine.claude_login else ""))
    if machine.opencode is None and machine.claude is None:
        note("hint: install one of them; `dispatcher demo` works without")
    out(f"try next: dispatcher doctor --home {clean(str(folder))}")


def trust_home(explicit: Path | None) -> None:
    from dispatcher.config import trust

    folder = home.find(explicit)
    if not (folder / "models.yaml").exists():
        raise BadInput(f"there is no models.yaml in {folder}", hint="make one with: dispatcher init")
    trust(folder)
    out(f"{clean(str(folder))}: its configuration may run commands on this machine")
