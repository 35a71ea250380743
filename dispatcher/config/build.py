"""Parsed models.yaml -> Config: which sections there are, and in which order they are read.

A section may name what another one defines, so `starting` comes before `workers`, and both before `places`. Sections
that may be left out may also stand there empty, so that everything below a heading can be commented out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from dispatcher.config import places, starting, workers
from dispatcher.config.model import Config
from dispatcher.config.read import Reader, given
from dispatcher.routing import Roster
from dispatcher.task import CopyMode

SECTIONS = (
    "credentials", "candidates", "routes", "difficulty", "repositories", "defaults", "limits", "environment", "rules",
    "harnesses", "allow_untested", "sandboxes", "sandbox", "copies", "approvals", "notify", "webhook",
)  # fmt: skip


def build(top: Reader, *, home: Path, file: Path, copies_root: Callable[[], Path]) -> Config:
    """Raises ConfigError for the first thing that is wrong. `copies_root` gives the place when the file names none."""
    keys = top.keys(*SECTIONS)
    harnesses = starting.read_harnesses(keys.get("harnesses"))
    untested = keys["allow_untested"].flag() if given(keys, "allow_untested") else False
    sandboxes = starting.read_sandboxes(keys.get("sandboxes"))
    credentials = workers.read_credentials(_needed(top, keys, "credentials"))
    candidates = workers.read_candidates(_needed(top, keys, "candidates"), credentials, harnesses, sandboxes, untested)
    routes, warnings = workers.read_routes(_needed(top, keys, "routes"), candidates, sandboxes)
    defaults, default_repository = places.read_defaults(keys, credentials, sandboxes)
    copies = keys["copies"].keys("root", "mode") if given(keys, "copies") else {}
    return Config(
        home=home,
        file=file,
        roster=Roster(candidates, routes),
        credentials=credentials,
        copies_root=Path(copies["root"].path_text()) if "root" in copies else copies_root(),
        limits=places.read_limits(keys.get("limits")),
        difficulty_rules=workers.read_difficulty_rules(keys.get("difficulty")),
        repositories=places.read_repositories(keys.get("repositories"), defaults, credentials, sandboxes),
        defaults=defaults,
        default_repository=default_repository,
        copy_mode=copies["mode"].choice(CopyMode) if "mode" in copies else CopyMode.CLONE,
        environment_pass=places.read_environment_pass(keys.get("environment")),
        rules=keys["rules"].texts() if given(keys, "rules") else (),
        harnesses=harnesses,
        sandboxes=sandboxes,
        approvals=starting.read_approvals(keys.get("approvals")),
        notify=starting.read_command(keys["notify"]) if given(keys, "notify") else None,
        webhook=keys["webhook"].url() if given(keys, "webhook") else None,
        warnings=tuple(warnings),
    )


def _needed(top: Reader, keys: Mapping[str, Reader], name: str) -> Reader:
    if name not in keys:
        top.fail(f"there are no {name}", f"add `{name}:`, or start from the file that `dispatcher init` writes")
    if not keys[name].value:
        keys[name].fail("is empty", "define at least one")
    return keys[name]
