"""Reset times: every wording seen in the field, with the arithmetic beside it."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dispatcher import resets


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


AUGUST = "2026-08-03T04:56:00"  # a Monday; 06:56 in Zurich

TABLE = [
    # now, text, expected (UTC)
    (AUGUST, "You've hit your session limit - resets 11:20am (Europe/Zurich)", "2026-08-03T09:20:00"),
    (AUGUST, "You've hit your weekly limit · resets Aug 3, 7am (Europe/Zurich)", "2026-08-03T05:00:00"),
    (AUGUST, "You've hit your limit · resets 7am (Europe/Zurich)", "2026-08-03T05:00:00"),
    (AUGUST, "Claude AI usage limit reached|1785749924", "2026-08-03T09:38:44"),
    (AUGUST, "usage limit reached and won't reset|1785749924", "2026-08-03T09:38:44"),
    # wrapped by a terminal; Santiago is at UTC-4
    (AUGUST, "limit reached. Your limit will reset \n     at 3pm (America/Santiago).", "2026-08-03T19:00:00"),
    (AUGUST, "5-hour limit reached ∙ resets 5am", "2026-08-03T05:00:00"),
    (AUGUST, "Session limit reached · resets 2pm", "2026-08-03T14:00:00"),
    (AUGUST, "Session limit reached - resets 2pm", "2026-08-03T14:00:00"),
    (
        AUGUST,
        "You’ve hit your session limit · resets 5:20am (America/Denver)\n/usage-credits",
        "2026-08-03T11:20:00",
    ),
    ("2025-11-29T12:00:00", "Weekly limit reached · resets Dec 2, 7pm (Europe/Moscow) ·", "2025-12-02T16:00:00"),
    ("2026-07-24T12:00:00", "weekly limit · resets Jul 27 at 4:30am (Asia/Calcutta)", "2026-07-26T23:00:00"),
    ("2026-07-24T12:00:00", "Weekly limit reached · resets 10am (Asia/Seoul) · /upgrade to Max", "2026-07-25T01:00:00"),
    ("2025-10-20T12:00:00", "Opus weekly limit reached ∙ resets Oct 24", "2025-10-24T00:00:00"),
    ("2025-10-24T12:00:00", "Opus weekly limit reached ∙ resets Oct 24", "2025-10-25T00:00:00"),  # today: its end
    ("2025-10-28T12:00:00", "Opus weekly limit reached ∙ resets Oct 31, 9am", "2025-10-31T09:00:00"),
    ("2026-12-31T12:00:00", "Weekly limit reached · resets Jan 2, 9am (UTC)", "2027-01-02T09:00:00"),
    (
        "2027-01-01T00:10:00",
        "Weekly limit reached · resets Dec 31, 11:59pm (UTC)",
        "2027-01-01T00:11:00",
    ),  # stale: soon
    # 23:00 in New York, so half past two is tomorrow
    ("2026-08-13T03:00:00", "resets 2:30am (America/New_York)", "2026-08-13T06:30:00"),
    # 10:03 in Zurich: just passed, so soon and not tomorrow
    ("2026-07-10T08:03:00", "resets 10am (Europe/Zurich)", "2026-07-10T08:04:00"),
    ("2026-07-10T08:59:00", "resets 10am (Europe/Zurich)", "2026-07-10T09:00:00"),  # 59 minutes ago
    ("2026-07-10T09:01:00", "resets 10am (Europe/Zurich)", "2026-07-11T08:00:00"),  # 61: tomorrow's
    ("2026-07-10T23:50:00", "resets 12am", "2026-07-11T00:00:00"),
    ("2026-07-10T00:20:00", "resets 11:50pm (UTC)", "2026-07-10T00:21:00"),  # 30 minutes ago, yesterday
    ("2026-07-10T12:00:00", "resets 12pm (UTC)", "2026-07-10T12:01:00"),
    (AUGUST, "hit your usage limit. Upgrade or try again in 2 days 17 hours 14 minutes.", "2026-08-05T22:10:00"),
    ("2026-07-17T00:00:00", "or try again at Jul 23rd, 2026 4:15 AM.", "2026-07-23T04:15:00"),
    (AUGUST, "Free usage exceeded [retrying in 17h 42m attempt #1]", "2026-08-03T22:38:00"),
    (AUGUST, "[retrying in 8h 13m attempt #1]", "2026-08-03T13:09:00"),
    (AUGUST, "retrying in 6h16m - attempt #1", "2026-08-03T11:12:00"),
    (AUGUST, "retrying in 9h", "2026-08-03T13:56:00"),
    (AUGUST, "[retrying in 62056 attempt #1]", "2026-08-03T22:10:16"),
    (AUGUST, "62056 秒后重试", "2026-08-03T22:10:16"),
    (AUGUST, "[retrying in ~3 weeks attempt #45]", "2026-08-11T04:56:00"),  # the cap of 8 days
    (AUGUST, "5 hour usage limit reached. It will reset in 5 hours 23 minutes. To continue", "2026-08-03T10:19:00"),
    (AUGUST, "Weekly usage limit reached. It will reset in 1 day 3 hours.", "2026-08-04T07:56:00"),
    (AUGUST, "Usage limit reached. It will reset in less than a minute.", "2026-08-03T04:57:00"),
    (AUGUST, "Subscription quota exceeded. Retry in 2 hours, 5 minutes and 3 seconds.", "2026-08-03T07:01:03"),
    (AUGUST, "Please retry in 36.43s.", "2026-08-03T04:56:36.430"),
    (AUGUST, "Please try again in 450ms.", "2026-08-03T04:56:00.450"),
    # the letters are ambiguous, the offset beside them is not
    ("2026-07-30T00:00:00", "It will reset at 2026-07-30 16:11:46 +0800 CST.", "2026-07-30T08:11:46"),
    ("2026-07-30T00:00:00", "quota resets at 2026-07-30T16:11:46Z", "2026-07-30T16:11:46"),
    (AUGUST, '{"resets_at":1785749924,"resets_in_seconds":13872}', "2026-08-03T09:38:44"),
    (AUGUST, '{"resets_in_seconds":13872}', "2026-08-03T08:47:12"),
    (AUGUST, "retry-after: 3600", "2026-08-03T05:56:00"),
    (AUGUST, "resets Tuesday at 9am (UTC)", "2026-08-04T09:00:00"),
    (AUGUST, "resets 9am (Mars/Olympus)", "2026-08-03T09:00:00"),  # nobody knows it: the default zone
    (AUGUST, "resets 9am (CST)", "2026-08-03T09:00:00"),
    (AUGUST, "resets 9am (PDT)", "2026-08-03T16:00:00"),
    (AUGUST, "\x1b[91mresets \x1b[0m9am", "2026-08-03T09:00:00"),
]


@pytest.mark.parametrize(("now", "text", "expected"), TABLE)
def test_wordings(now: str, text: str, expected: str) -> None:
    assert resets.parse(text, at(now)) == pytest.approx(at(expected), rel=0, abs=0.01)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "try again at 10 de jul. de 2026, 11:52.",
        "Rate limit exceeded. Please try again later.",
        "Please retry after a brief wait.",
        "resets 5",
        "resets 13pm",
        "at 12:00 the deploy failed",
        "timestamp=2026-11-29T13:09:10.625Z level=ERROR",
        "Error 429 in 5 hours of work",
        "(attempt 4/10)",
    ],
)
def test_no_reset_is_none(text: str) -> None:
    assert resets.parse(text, at(AUGUST)) is None


def test_a_time_without_a_zone_is_local() -> None:
    assert resets.parse("resets 9am", at(AUGUST), default_zone="Europe/Zurich") == at("2026-08-03T07:00:00")


def test_bound_believes_the_server_once() -> None:
    now = at(AUGUST)
    assert resets.bound(now + 5, now) == now + 5
    assert resets.bound(now - 5, now) == now + resets.SOON
    assert resets.bound(now + 30 * 86400, now) == now + resets.CAP
    assert resets.bound(float("nan"), now) == now + resets.SOON


def test_a_limit_that_outlives_its_reset_waits_longer_each_time() -> None:
    now = at(AUGUST)
    assert [resets.bound(now - 1, now, hits) - now for hits in (1, 2, 3, 9)] == [900, 1800, 3600, 3600]
    assert resets.bound(now + 7200, now, 2) == now + 7200


@pytest.mark.parametrize(
    ("name", "value", "seconds"),
    [
        ("Retry-After", "3600", 3600),
        ("retry-after", "Mon, 03 Aug 2026 05:56:00 GMT", 3600),
        ("retry-after-ms", "1500", 1.5),
        ("anthropic-ratelimit-unified-reset", "1785736560", 3600),
        ("X-RateLimit-Reset", "1785736560000", 3600),
        ("x-ratelimit-reset-requests", "6m0s", 360),
        ("anthropic-ratelimit-requests-reset", "2026-08-03T05:56:00Z", 3600),
        ("x-ratelimit-reset", "20", 20),
    ],
)
def test_headers(name: str, value: str, seconds: float) -> None:
    now = at(AUGUST)
    assert resets.header(name, value, now) == pytest.approx(now + seconds, rel=0, abs=0.01)


def test_headers_that_say_nothing() -> None:
    for name, value in (("retry-after", "soon"), ("retry-after", ""), ("date", "20"), ("retry-after", "-1")):
        assert resets.header(name, value, 0.0) is None


def test_midnight_is_of_utc() -> None:
    assert resets.next_midnight(at("2026-08-03T23:59:59")) == at("2026-08-04T00:00:00")
    assert resets.next_midnight(at("2026-08-04T00:00:00")) == at("2026-08-05T00:00:00")


def test_epoch_refuses_nonsense() -> None:
    now = at(AUGUST)
    values: tuple[object, ...] = (None, True, "x", [], float("nan"), float("inf"), 1e300, 0, -5, 12345, 10**16, 10**400)
    for value in values:
        assert resets.epoch(value, now) is None


_WORDS = st.sampled_from(
    ["resets", "reset at", "try again in", "retrying in", "will reset", "|", "1785749924", "99999999999999", "Feb",
     "30", "Oct 99", "25:99", "12am", "0am", "(Europe/Zurich)", "(../../etc/passwd)", "(UTC+99)", "2026-13-45 99:99:99",
     "9999-12-31T23:59:59Z", "0001-01-01 00:00:00 +1400", "999999999 weeks", "1e309s", "٣ h", "Mon 3pm", "in",
     "at", "-", "~"]
)  # fmt: skip
_TEXTS = st.one_of(st.text(max_size=200), st.lists(_WORDS, max_size=8).map(" ".join))
_TIMES = st.floats(min_value=0, max_value=4e9)


@settings(max_examples=150, deadline=None)
@given(text=_TEXTS, now=_TIMES, zone=st.sampled_from(["UTC", "Europe/Zurich", "", "nowhere", "America/St_Johns"]))
def test_never_crashes_never_past_never_beyond_the_cap(text: str, now: float, zone: str) -> None:
    found = resets.parse(text, now, default_zone=zone)
    assert found is None or now < found <= now + resets.CAP


@settings(max_examples=100, deadline=None)
@given(until=st.floats(), now=_TIMES, hits=st.integers(min_value=0, max_value=50))
def test_bound_is_bounded(until: float, now: float, hits: int) -> None:
    assert now < resets.bound(until, now, hits) <= now + resets.CAP
