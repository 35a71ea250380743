"""What holds for every test.

Tests that start whole programs get a second look when they fail: on a busy machine a real CLI may need longer to start
than any limit that still proves something. Both looks are printed (`-rR`), so a test that needs its second one often is
seen and repaired, not hidden.
"""

from __future__ import annotations

import pytest

WHOLE_PROGRAMS = ("tests/e2e/", "tests/supervisor/", "tests/chaos/", "tests/cron/", "tests/sandbox/")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.nodeid.startswith(WHOLE_PROGRAMS) or item.get_closest_marker("real_cli"):
            item.add_marker(pytest.mark.flaky(reruns=2))
