"""The small JSON agrees with the large one."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dispatcher.supervisor import plain_json

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4), max_leaves=15
)


@settings(max_examples=60)
@given(values)
def test_round_trip_and_agreement_with_json(value: object) -> None:
    text = plain_json.dumps(value)
    assert json.loads(text) == value
    assert plain_json.loads(text) == value
    assert plain_json.loads(json.dumps(value, indent=1)) == value
    text.encode("ascii")


@settings(max_examples=60)
@given(st.text(max_size=40) | values.map(lambda value: json.dumps(value)[:-1]))
def test_what_json_refuses_is_refused(text: str) -> None:
    try:
        expected = json.loads(text)
    except ValueError:
        with pytest.raises(ValueError):  # noqa: PT011  # any ValueError is the promise
            plain_json.loads(text)
    else:
        found = plain_json.loads(text)
        assert found == expected or (isinstance(found, float) and math.isnan(found))


def test_lone_surrogates_of_file_names_survive() -> None:
    name = b"caf\xe9".decode("utf-8", "surrogateescape")
    assert plain_json.loads(plain_json.dumps([name])) == [name]


def test_a_value_that_json_does_not_know_is_an_error() -> None:
    with pytest.raises(TypeError, match="not a JSON value: set"):
        plain_json.dumps({"x": {1}})
