from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.supervisor.support import Attempt, attempts


@pytest.fixture
def make_attempt(tmp_path: Path) -> Iterator[Callable[[], Attempt]]:
    with attempts(tmp_path) as make:
        yield make


@pytest.fixture
def attempt(make_attempt: Callable[[], Attempt]) -> Attempt:
    return make_attempt()
