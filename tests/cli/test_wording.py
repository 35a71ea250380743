"""Times, durations, sizes and money as people read them."""

from __future__ import annotations

import pytest

from dispatcher.cli import wording


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (None, ""),
        (0, "0s"),
        (59.4, "59s"),
        (59.6, "1m00s"),  # rounded up first: never 60s
        (125, "2m05s"),
        (3600, "1h00m"),
        (86_399, "23h59m"),
        (90_000, "1d1h"),
    ],
)
def test_duration(seconds: float | None, words: str) -> None:
    assert wording.duration(seconds) == words


@pytest.mark.parametrize(("usd", "words"), [(None, ""), (0, "$0.00"), (0.004, "$0.0040"), (1.239, "$1.24")])
def test_unknown_money_is_never_zero(usd: float | None, words: str) -> None:
    assert wording.money(usd) == words


@pytest.mark.parametrize(("count", "words"), [(None, ""), (9_999, "9999"), (12_345, "12k"), (10_000_000, "10.0M")])
def test_tokens(count: int | None, words: str) -> None:
    assert wording.tokens(count) == words


def test_a_wait_without_end_names_the_person(monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    try:
        assert wording.until(None, 0) == "until a person lifts it"
        assert wording.until(3600, 0) == "until 1970-01-01 01:00 (in 1h00m)"
        assert wording.until(0, 100) == "until 1970-01-01 00:00 (in 0s)"
    finally:
        monkeypatch.undo()
        time.tzset()


def test_size() -> None:
    assert [wording.size(1), wording.size(2048), wording.size(3 * 1024**4)] == ["1 B", "2 KiB", "3.0 TiB"]
