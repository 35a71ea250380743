"""A record is a frozen dataclass in everything but the cost of its definition."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, asdict, field, fields, is_dataclass, replace

import pytest

from dispatcher.record import record


@record
class Point:
    x: int
    y: int = 2
    tags: tuple[str, ...] = ()
    notes: dict[str, str] = field(default_factory=dict)
    secret: str = field(default="s", repr=False)


def test_it_is_a_dataclass() -> None:
    point = Point(1, tags=("a",))
    assert is_dataclass(point)
    assert [spec.name for spec in fields(point)] == ["x", "y", "tags", "notes", "secret"]
    assert replace(point, y=5) == Point(1, 5, ("a",))
    assert asdict(point) == {"x": 1, "y": 2, "tags": ("a",), "notes": {}, "secret": "s"}
    assert repr(point) == "Point(x=1, y=2, tags=('a',), notes={})"
    assert Point(1) != Point(2)
    assert Point(1).notes is not Point(1).notes


def test_it_is_frozen() -> None:
    point = Point(1)
    with pytest.raises(FrozenInstanceError):
        point.x = 3  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError):
        del point.x


@pytest.mark.parametrize(
    ("values", "named", "words"),
    [
        ((), {}, "needs a value for 'x'"),
        ((1, 2, (), {}, "s", 6), {}, "takes 5 values"),
        ((1,), {"x": 2}, "two values for 'x'"),
        ((1,), {"z": 2}, "an unknown 'z'"),
    ],
)
def test_wrong_calls_are_refused(values: tuple[object, ...], named: dict[str, object], words: str) -> None:
    with pytest.raises(TypeError, match=words):
        Point(*values, **named)  # type: ignore[arg-type]


def test_values_hash_alike() -> None:
    @record
    class Key:
        name: str
        number: int = 0

    assert len({Key("a"), Key("a"), Key("b")}) == 2
