"""`models`, `holds`, `hold`, `release`: who could work now, who may not, and a person's word on it."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

from dispatcher.cli import home
from dispatcher.cli.render import Column, clean, form, json_out, one_form, out, table
from dispatcher.cli.wording import clock, until
from dispatcher.errors import BadInput, NotFound
from dispatcher.store import holds
from dispatcher.task import HoldScope

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from dispatcher.config import Config
    from dispatcher.task import Candidate, Hold

_MODEL_COLUMNS = [
    Column("name", "candidate"),
    Column("harness", "harness", least=100),
    Column("model", "model"),
    Column("credential", "credential", least=120),
    Column("billing", "billing", least=90),
    Column("routes", "routes", lambda names: ", ".join(names), least=150),
    Column("state", "now", wide=True),
]


def show_models(explicit: Path | None, *, as_json: bool, as_csv: bool) -> None:
    from dispatcher import programs

    one_form(as_json, as_csv)
    config = home.configured(explicit)
    now = time.time()
    missing = programs.missing(config, os.environ)
    active = _active(config, now)
    rows = [_model_row(candidate, config, missing, active, now) for candidate in config.roster.candidates.values()]
    if as_json:
        routes = {str(level): list(route.candidates) for level, route in config.roster.routes.items()}
        return json_out({"candidates": rows, "routes": routes})
    table(rows, _MODEL_COLUMNS, form=form(as_csv=as_csv), empty="models.yaml names no candidate")
    if not as_csv:
        out()
        for level, route in config.roster.routes.items():
            out(f"{level}: {' -> '.join(route.candidates)}{' (may spill)' if route.spill else ''}")
    return None


def show_holds(explicit: Path | None, *, as_json: bool, as_csv: bool) -> None:
    now = time.time()
    with home.existing(explicit) as store:
        rows = [_hold_row(hold) for hold in holds.active(store, now)]
    columns = [
        Column("id", "hold", right=True),
        Column("key", "held"),
        Column("scope", "scope", least=110),
        Column("until", "until", clock, none="a person lifts it"),
        Column("by", "by", least=100),
        Column("reason", "reason", wide=True),
    ]
    table(rows, columns, form=form(as_json=as_json, as_csv=as_csv), empty="nothing is on hold")


def add_hold(name: str, explicit: Path | None, *, lasts: str | None, reason: str, as_json: bool) -> None:
    config = home.configured(explicit)
    scope = _scope(name, config)
    now = time.time()
    end = None if lasts is None else now + _seconds(lasts)
    with home.opened(config.home) as store:
        hold = holds.add(store, scope, name, end, reason, home.person(), now)
    if as_json:
        return json_out(_hold_row(hold))
    return out(f"{scope} {clean(name)} is held {until(hold.until, now)}")


def lift_hold(name: str, explicit: Path | None, *, as_json: bool) -> None:
    now = time.time()
    with home.existing(explicit) as store:
        by_key = any(hold.key == name for hold in holds.active(store, now))
        lifted = holds.lift(store, int(name) if name.isdecimal() and not by_key else name, home.person(), now)
    if as_json:
        return json_out([_hold_row(hold) for hold in lifted])
    for hold in lifted:
        out(f"{hold.scope} {clean(hold.key)} is free again")
    return None


def _active(config: Config, now: float) -> list[Hold]:
    if not home.has_store(config.home):
        return []
    with home.opened(config.home, reading=True) as store:
        return list(holds.active(store, now))


def _model_row(
    candidate: Candidate, config: Config, missing: dict[str, str], active: Sequence[Hold], now: float
) -> dict[str, Any]:
    from dispatcher import routing

    blocking = [hold for hold in active if routing.blocks(hold, candidate, now)]
    routes = [str(level) for level, route in config.roster.routes.items() if candidate.name in route.candidates]
    state = "free"
    if candidate.harness in missing:
        state = missing[candidate.harness]
    elif blocking:
        state = f"held {until(blocking[0].until, now)}: {blocking[0].reason}"
    elif not routes:
        state = "free, but in no route"
    return {
        "name": candidate.name,
        "harness": candidate.harness,
        "model": candidate.model,
        "floating": candidate.floating,
        "credential": candidate.credential.name,
        "billing": str(candidate.credential.billing),
        "per_day": candidate.per_day,
        "routes": routes,
        "state": state,
    }


def _hold_row(hold: Hold) -> dict[str, Any]:
    return {
        "id": hold.id,
        "scope": str(hold.scope),
        "key": hold.key,
        "until": hold.until,
        "reason": hold.reason,
        "created_at": hold.created_at,
        "by": hold.by,
        "window": hold.window,
    }


def _scope(name: str, config: Config) -> HoldScope:
    """What a name means: a candidate before a credential before a provider."""
    candidates = config.roster.candidates
    if name in candidates:
        return HoldScope.CANDIDATE
    if name in {candidate.credential.name for candidate in candidates.values()}:
        return HoldScope.CREDENTIAL
    if name in {candidate.provider for candidate in candidates.values()}:
        return HoldScope.PROVIDER
    if name in {f"{candidate.credential.name}/{candidate.model}" for candidate in candidates.values()}:
        return HoldScope.MODEL
    raise NotFound(f"{name!r} is no candidate, credential or provider", hint="dispatcher models")


def _seconds(text: str) -> float:
    from dispatcher.strict_yaml import LONGEST, duration

    found = duration(text)
    if not found:
        raise BadInput(f"{text!r} is not a duration", hint="such as 45m, 2h, 1h30m, 3d")
    if found > LONGEST:
        raise BadInput(f"{text!r} is longer than ten years", hint="leave --for out to hold it until it is released")
    return found
