"""The short form of the chaos: 40 tasks, 20 kills. What it shows stands in `run.py`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.run import play


@pytest.mark.timeout(900)
def test_forty_tasks_and_twenty_kills(tmp_path: Path) -> None:
    said, right = play(tmp_path, 40, 20, 7)
    assert right, said
