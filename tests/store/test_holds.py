"""Holds: active until their time, never weakened, lifted by a person or disproved by a success."""

from __future__ import annotations

import pytest

from dispatcher.errors import NotFound
from dispatcher.store import Store, holds, queue
from dispatcher.task import Billing, Candidate, Credential, HoldScope, Status
from tests.store.conftest import add, claim

CANDIDATE = Candidate("pickle", "opencode", "opencode/big-pickle", Credential("zen", Billing.FREE))


def hold(db: Store, until: float | None, now: float = 100.0, **more: str) -> int:
    fields = {"key": "pickle", "reason": "limit", "by": "dispatcher", **more}
    scope = HoldScope(fields.get("scope", "candidate"))
    return holds.add(db, scope, fields["key"], until, fields["reason"], fields["by"], now).id


def keys(db: Store, now: float) -> list[tuple[int, float | None]]:
    return [(found.id, found.until) for found in holds.active(db, now)]


def test_until(db: Store) -> None:
    timed, endless = hold(db, 200.0), hold(db, None, key="opus")
    assert keys(db, 199.0) == [(timed, 200.0), (endless, None)]
    assert keys(db, 200.0) == [(endless, None)]


@pytest.mark.parametrize(
    ("first", "second", "left"),
    [
        (200.0, 300.0, [300.0]),
        (300.0, 300.0, [300.0]),
        (300.0, 200.0, [300.0, 200.0]),  # a shorter one weakens nothing
        (None, 200.0, [None, 200.0]),
        (200.0, None, [None]),
        (None, None, [None]),
    ],
)
def test_the_same_thing_again(db: Store, first: float | None, second: float | None, left: list[float | None]) -> None:
    hold(db, first)
    hold(db, second, 110.0)
    hold(db, 900.0, key="another")
    assert [until for _, until in keys(db, 120.0)] == [*left, 900.0]
    assert holds.hits(db, HoldScope.CANDIDATE, "pickle", 105.0) == 1
    assert holds.hits(db, HoldScope.CANDIDATE, "pickle", 100.0) == 2
    assert holds.hits(db, HoldScope.MODEL, "pickle", 0.0) == 0


def test_lifting_wakes_what_waits(db: Store) -> None:
    """A task that waits for a person, or until tomorrow, may be tried at once when somebody lifts a hold."""
    for title, until in (("person", None), ("tomorrow", 90_000.0)):
        task = add(db, title)
        queue.update(db, task.id, 105.0, status=Status.WAITING, not_before=until)
    number = hold(db, None)
    assert claim(db, 110.0) is None
    (lifted,) = holds.lift(db, number, "mara", 120.0)
    assert lifted.id == number
    assert keys(db, 121.0) == []
    assert [task and task.title for task in (claim(db, 121.0), claim(db, 121.0))] == ["person", "tomorrow"]
    row = db.read("SELECT lifted_at, lifted_by FROM v_holds")[0]
    assert tuple(row) == (120.0, "mara")
    with pytest.raises(NotFound, match="no active hold"):
        holds.lift(db, number, "mara", 130.0)


def test_lifting_by_key(db: Store) -> None:
    hold(db, None)
    hold(db, 900.0)
    hold(db, None, key="opus")
    assert len(holds.lift(db, "pickle", "mara", 120.0)) == 2
    assert [found.key for found in holds.active(db, 121.0)] == ["opus"]
    with pytest.raises(NotFound):
        holds.lift(db, "pickle", "mara", 122.0)


def test_a_success_disproves_short_guesses_only(db: Store) -> None:
    hold(db, 160.0)
    hold(db, 200.0, scope="model", key="zen/opencode/big-pickle")
    kept = [
        hold(db, 100.0 + holds.SHORT + 1, scope="credential", key="zen"),  # a named reset
        hold(db, 300.0, scope="provider", key="opencode", by="mara"),  # a person's word
        hold(db, None, key="pickle", by="dispatcher"),  # until a person
        hold(db, 160.0, key="another"),
    ]
    kept_ids = set(kept)
    holds.clear_short(db, CANDIDATE, 120.0)
    assert {number for number, _ in keys(db, 121.0)} == kept_ids
    assert holds.clear_short(db, CANDIDATE, 122.0) == 0


def test_workers_that_met_a_limit_side_by_side_are_one_hit(db: Store) -> None:
    """The hold was placed after the second worker had begun: its own hit of the same limit is not a second one."""
    hold(db, 160.0)
    hold(db, 900.0, 150.0, by="mara")  # a person's word is no hit
    assert holds.hits(db, HoldScope.CANDIDATE, "pickle", 0.0, before=90.0) == 0
    assert holds.hits(db, HoldScope.CANDIDATE, "pickle", 0.0, before=170.0) == 1


def test_the_last_release_is_a_person_s(db: Store) -> None:
    hold(db, 160.0)
    hold(db, 200.0, 110.0)  # replaces the first
    assert holds.last_release(db, HoldScope.CANDIDATE, "pickle") == 0.0
    holds.lift(db, "pickle", "mara", 120.0)
    assert holds.last_release(db, HoldScope.CANDIDATE, "pickle") == 120.0
