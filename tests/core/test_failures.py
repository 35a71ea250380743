"""The table of failures, row by row: the texts of the field, their class, whose hold it is and when it ends."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dispatcher import failures, resets
from dispatcher.failures import ErrorChannel, classify
from dispatcher.task import HoldScope, OutcomeClass

NOW = datetime(2026, 8, 3, 12, 0, tzinfo=UTC).timestamp()
MIDNIGHT = datetime(2026, 8, 4, tzinfo=UTC).timestamp()
O = OutcomeClass  # noqa: E741

TEXTS = [
    # plans and windows
    ("Claude AI usage limit reached|1785767400", O.QUOTA_EXHAUSTED),
    ("Claude usage limit reached. Your limit will reset at 3pm (America/Santiago).", O.QUOTA_EXHAUSTED),
    ("5-hour limit reached ∙ resets 1am", O.QUOTA_EXHAUSTED),
    ("Session limit reached ∙ resets 2am", O.QUOTA_EXHAUSTED),
    ("You've hit your limit · resets 2pm (Asia/Shanghai)", O.QUOTA_EXHAUSTED),
    ("You’ve hit your session limit · resets 4:10am", O.QUOTA_EXHAUSTED),
    ("You've hit your session limit · resets 5:20am (America/Denver)\n/usage-credits to finish", O.QUOTA_EXHAUSTED),
    ("You've hit your weekly limit · resets Jul 27 at 4:30am (Asia/Calcutta)", O.QUOTA_EXHAUSTED),
    ("Weekly limit reached · resets 10am (Asia/Seoul) · /upgrade to Max", O.QUOTA_EXHAUSTED),
    ("Opus weekly limit reached ∙ resets Oct 24", O.QUOTA_EXHAUSTED),
    ("You've hit your usage limit. Upgrade to Pro or try again in 2 days 17 hours 14 minutes.", O.QUOTA_EXHAUSTED),
    ("You've hit your usage limit, try again at 10 de jul. de 2026, 11:52.", O.QUOTA_EXHAUSTED),
    ("5 hour usage limit reached. It will reset in 5 hours 23 minutes.", O.QUOTA_EXHAUSTED),
    ("Monthly usage limit reached. Resets in 3 days.", O.QUOTA_EXHAUSTED),
    ("Subscription quota exceeded. Retry in 2 hours.", O.QUOTA_EXHAUSTED),
    ("Free usage exceeded, subscribe to Go [retrying in 17h 42m attempt #1]", O.QUOTA_EXHAUSTED),
    ("Free usage exceeded, add credits", O.QUOTA_EXHAUSTED),
    ("Rate limit exceeded: free-models-per-day. Add 10 credits to unlock 1000 free model requests", O.QUOTA_EXHAUSTED),
    ("Rate limit exceeded: free-models-per-day-high-balance.", O.QUOTA_EXHAUSTED),
    # a 429 that names nothing
    ("API Error: Rate limit reached", O.RATE_LIMITED),
    ("API Error: Request rejected (429) · rl", O.RATE_LIMITED),
    ("API Error: Server is temporarily limiting requests (not your usage limit) · wait", O.RATE_LIMITED),
    ("Rate limit exceeded. Please try again later.", O.RATE_LIMITED),
    ("Upstream request failed: [rate_limit_exceeded] Rate limit exceeded. Please retry later.", O.RATE_LIMITED),
    ('AI_TypeValidationError: Type validation failed: Value: {"error":{"error_msg":"Too many requests, '
     'the rate limit is 8000000 tokens per minute.","error_code":"X.81101.429"}}', O.RATE_LIMITED),
    # money
    ("This request requires more credits, or fewer max_tokens. You requested up to 32000 tokens", O.BILLING),
    ("Prompt tokens limit exceeded: 230799 > 91442. To increase, visit the settings", O.BILLING),
    ("Insufficient credits. Add more using the settings", O.BILLING),
    ("Credit balance too low · Add funds", O.BILLING),
    ("Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing", O.BILLING),
    ("Insufficient balance. Manage your billing here", O.BILLING),
    ("No payment method. Add a payment method here", O.BILLING),
    ("You have reached your monthly spending limit of $20.", O.BILLING),
    ("Your workspace has reached its monthly spending limit of $20.", O.BILLING),
    ("Free promotion has ended for X. You can continue using the model by subscribing", O.BILLING),
    ("Third-party apps now draw from your extra usage, not your plan limits.", O.BILLING_MISMATCH),
    # logins
    ("Failed to authenticate: OAuth session expired and could not be refreshed", O.AUTH),
    ("OAuth token has expired. Please obtain a new token or refresh your existing token.", O.AUTH),
    ("Not logged in · Please run /login", O.AUTH),
    ('401 authentication_error "Invalid authentication credentials"', O.AUTH),
    ("Your organization has disabled Claude subscription access for Claude Code", O.AUTH),
    ("AI_APICallError: No auth credentials found", O.AUTH),
    ("Missing API key.", O.AUTH),
    ("Invalid API key.", O.AUTH),
    ("This workspace has been blocked. Contact support", O.AUTH),
    ("Upstream request failed: [permission_error] API access paused for this organization.", O.AUTH),
    # models
    ("There's an issue with the selected model (claude-x). It may not exist", O.MODEL_NOT_FOUND),
    ("Model not found: openrouter/hunter-alpha. Did you mean: openrouter/hunter-alpha?", O.MODEL_NOT_FOUND),
    ("Error from provider: Model not found, inaccessible, and/or not deployed", O.MODEL_NOT_FOUND),
    ("Model big-pickle is not supported", O.MODEL_NOT_FOUND),
    ("Model X is not supported for format Y", O.MODEL_NOT_FOUND),
    ("Model is disabled", O.MODEL_NOT_FOUND),
    ("Provider X not supported", O.MODEL_NOT_FOUND),
    # overloaded
    ("API Error: 529 Overloaded. This is a server-side issue, usually temporary", O.OVERLOADED),
    ('API Error: 529 {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}', O.OVERLOADED),
    ("API Error: Repeated 529 Overloaded errors", O.OVERLOADED),
    ("No provider available", O.OVERLOADED),
    ("API Error: 502 Bad Gateway", O.OVERLOADED),
    # network
    ("The socket connection was closed unexpectedly. For more information, pass `verbose: true`", O.NETWORK),
    ("ECONNRESET: The socket connection was closed unexpectedly", O.NETWORK),
    ("Cannot connect to API: getaddrinfo ENOTFOUND", O.NETWORK),
    ("API Error: Can't reach the API server — check your internet or DNS (ENOTFOUND)", O.NETWORK),
    ("Request timed out. If the API is slow to answer", O.NETWORK),
    ("fetch failed", O.NETWORK),
    ("socket hang up", O.NETWORK),
    # the CLI itself
    ("Error: Unexpected error database is locked", O.HARNESS_LOCKED),
    ("SQLiteError: locking protocol", O.HARNESS_LOCKED),
    ("Failed to execute statement", O.HARNESS_LOCKED),
    ("ServeError: port 4096", O.HARNESS_LOCKED),
    ("! permission requested: external_directory (/*); auto-rejecting", O.PERMISSION_DENIED),
    ("--dangerously-skip-permissions cannot be used with root/sudo privileges", O.PERMISSION_DENIED),
    ("Error: piped stdin input exceeds 10MB. Pass large content as a file path", O.BRIEF_TOO_LARGE),
    ("error: gpg failed to sign the data", O.GIT_SIGNING),
    ("The grep tool was called with invalid arguments: [ ... ]. Please rewrite the input", O.INVALID_TOOL_ARGS),
    ("Stopped: repeated tool failures detected.", O.INVALID_TOOL_ARGS),
    ("Unexpected server error. Check server logs for details.", O.INTERNAL),
    ("API Error: 500 Internal server error.", O.INTERNAL),
    ("Claude Code cannot be launched inside another Claude Code session.", O.INTERNAL),
]  # fmt: skip

OVERFLOWS = [
    "prompt is too long: 208310 tokens",
    "input is too long for requested model",
    "Your input exceeds the context window of this model",
    "The input token count (1) exceeds the maximum number of tokens allowed",
    "This model's maximum prompt length is 131072",
    "Please reduce the length of the messages",
    "This model's maximum context length is 100000 tokens",
    "prompt token count of 129923 exceeds the limit of 128000",
    "the request exceeds the available context size",
    "tokens to keep is greater than the context length",
    "context window exceeds limit",
    "exceeded model token limit: 65536",
    "context_length_exceeded",
    "request entity too large",
    "model's context length is only 8192 tokens",
    "input length 9000 exceeds the context length",
    "400 (no body)",
    "413 (no body)",
]


@pytest.mark.parametrize(("text", "kind"), [*TEXTS, *((text, O.CONTEXT_OVERFLOW) for text in OVERFLOWS)])
@pytest.mark.parametrize("place", ["result", "message", "log"])
def test_texts_of_the_error_channel(text: str, kind: OutcomeClass, place: str) -> None:
    channel = {
        "result": ErrorChannel(result_text=text),
        "message": ErrorChannel(message=text),
        "log": ErrorChannel(log_lines=(text,)),
    }[place]
    found = classify(channel, NOW)
    assert found is not None
    assert found.kind is kind
    assert found.proof
    assert found.reason


ZEN = [
    ("AuthError", O.AUTH), ("CreditsError", O.BILLING), ("MonthlyLimitError", O.BILLING), ("UserLimitError", O.BILLING),
    ("ModelError", O.MODEL_NOT_FOUND), ("RateLimitError", O.RATE_LIMITED), ("FreeUsageLimitError", O.QUOTA_EXHAUSTED),
    ("BlackUsageLimitError", O.QUOTA_EXHAUSTED), ("GoUsageLimitError", O.QUOTA_EXHAUSTED),
    ("SubscriptionUsageLimitError", O.QUOTA_EXHAUSTED),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "expected"), ZEN)
@pytest.mark.parametrize("message", ["超出速率限制，请稍后再试。", "Превышен лимит", "Rate limit exceeded."])
@pytest.mark.parametrize("status", [401, 429, None])
def test_zen_is_told_by_its_type_in_any_language(
    kind: str, expected: OutcomeClass, message: str, status: int | None
) -> None:
    body = json.dumps({"type": "error", "error": {"type": kind, "message": message}, "metadata": {}})
    found = classify(ErrorChannel("opencode", status, message=message, body=body), NOW)
    assert found is not None
    assert found.kind is expected


@pytest.mark.parametrize(
    ("status", "kind"),
    [(429, O.RATE_LIMITED), (401, O.AUTH), (403, O.AUTH), (402, O.BILLING), (404, O.MODEL_NOT_FOUND),
     (413, O.CONTEXT_OVERFLOW), (500, O.INTERNAL), (502, O.OVERLOADED), (503, O.OVERLOADED), (529, O.OVERLOADED)],
)  # fmt: skip
def test_bare_statuses(status: int, kind: OutcomeClass) -> None:
    found = classify(ErrorChannel(status=status), NOW)
    assert found is not None
    assert found.kind is kind


def test_an_unknown_400_proves_nothing() -> None:
    assert classify(ErrorChannel(status=400, message="odd bad request"), NOW) is None
    assert classify(ErrorChannel(), NOW) is None


def test_a_code_that_is_a_string_is_a_status() -> None:
    body = '{"error":{"message":"slow down","code":"429"}}'
    found = classify(ErrorChannel("opencode", body=body), NOW)
    assert found is not None
    assert found.kind is O.RATE_LIMITED


def test_credit_text_inside_a_400_is_money_and_not_a_bad_request() -> None:
    text = '400 {"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low"}}'
    found = classify(ErrorChannel("claude", 400, result_text=text), NOW)
    assert found is not None
    assert (found.kind, found.hold and found.hold.scope) == (O.BILLING, HoldScope.CREDENTIAL)
    assert found.hold is not None
    assert found.hold.until is None


REJECTED = {"status": "rejected", "resetsAt": NOW + 7200, "rateLimitType": "five_hour", "isUsingOverage": False}


def test_the_event_beats_the_text() -> None:
    channel = ErrorChannel(
        "claude", 429, rate_limit_info=REJECTED, result_text="You've hit your limit · resets soonish"
    )
    found = classify(channel, NOW)
    assert found is not None
    assert found.hold is not None
    assert (found.kind, found.hold.until, found.hold.window) == (O.QUOTA_EXHAUSTED, NOW + 7200, "five_hour")


@pytest.mark.parametrize(
    "info",
    [
        {"status": "allowed"},
        {"status": "allowed", "resetsAt": NOW + 5, "rateLimitType": "never_seen_before"},
        {"status": "allowed_warning", "unifiedWindows": {"five_hour": {"utilization": 1}}},
        {"status": "rejected", "isUsingOverage": True, "resetsAt": NOW + 5, "overageStatus": "allowed"},
        {"status": "rejected", "isUsingOverage": False},  # how a plain 429 is booked
        {},
    ],
)
def test_limits_that_are_only_information(info: dict[str, object]) -> None:
    assert not failures.window_rejected(info)
    assert classify(ErrorChannel("claude", rate_limit_info=info), NOW) is None


def test_a_window_of_one_model_family_holds_only_the_model() -> None:
    found = classify(ErrorChannel("claude", rate_limit_info={**REJECTED, "rateLimitType": "seven_day_opus"}), NOW)
    assert found is not None
    assert found.hold is not None
    assert found.hold.scope is HoldScope.MODEL
    weekly = classify(ErrorChannel(result_text="Opus weekly limit reached ∙ resets Aug 7"), NOW)
    assert weekly is not None
    assert weekly.hold is not None
    assert weekly.hold.scope is HoldScope.MODEL


def usage_limit(**fields: object) -> str:
    return json.dumps({"error": {"type": "usage_limit_reached", **fields}})


FREE = ErrorChannel("opencode", 429, error_type="FreeUsageLimitError")
WEEKLY = ErrorChannel("claude", 429, api_error="usage_limit_reached")
HEADERS = json.dumps({"error": {"metadata": {"headers": {"X-RateLimit-Reset": f"{(NOW + 99) * 1000:.0f}"}}}})

CAP = json.dumps(
    {"error": {"message": "Rate limit exceeded: free-models-per-day-high-balance.", "code": "429",
               "metadata": {"headers": {"X-RateLimit-Remaining": "0"}}}}
)  # fmt: skip


def free(said: str) -> ErrorChannel:
    return ErrorChannel("opencode", message=f"Free usage exceeded, {said}")


HOLDS = [
    (free("subscribe to Go [retrying in 17h 42m attempt #1]"), HoldScope.MODEL, NOW + 17 * 3600 + 42 * 60, "day"),
    (free("retrying in 6h16m - attempt #1"), HoldScope.MODEL, NOW + 6 * 3600 + 16 * 60, "day"),
    (free("add credits [retrying in 9h attempt #2]"), HoldScope.MODEL, NOW + 9 * 3600, "day"),
    (free("[62056 秒后重试 #1]"), HoldScope.MODEL, NOW + 62056, "day"),
    (free("subscribe to Go"), HoldScope.MODEL, MIDNIGHT, "day"),
    (ErrorChannel("opencode", body=CAP), HoldScope.CREDENTIAL, MIDNIGHT, "day"),
    (ErrorChannel("opencode", body=CAP.replace('"429"', "429")), HoldScope.CREDENTIAL, MIDNIGHT, "day"),
    (FREE, HoldScope.MODEL, MIDNIGHT, "day"),
    (replace(FREE, headers={"Retry-After": "600"}), HoldScope.MODEL, NOW + 600, "day"),
    (ErrorChannel("opencode", message="Free usage exceeded", next_try=NOW + 7200), HoldScope.MODEL, NOW + 7200, "day"),
    (ErrorChannel("opencode", action="free_tier_limit", next_try=NOW + 7200), HoldScope.MODEL, NOW + 7200, "day"),
    (ErrorChannel("opencode", 429, message="free-models-per-day"), HoldScope.CREDENTIAL, MIDNIGHT, "day"),
    (ErrorChannel("opencode", 429, message="slow down"), HoldScope.MODEL, NOW + 60, None),
    (ErrorChannel("opencode", 429, headers={"retry-after": "5"}), HoldScope.MODEL, NOW + 5, None),
    (ErrorChannel("opencode", 429, body=usage_limit(resets_at=NOW + 99)), HoldScope.CREDENTIAL, NOW + 99, None),
    (ErrorChannel("opencode", 429, body=usage_limit(resets_in_seconds=99)), HoldScope.CREDENTIAL, NOW + 99, None),
    (ErrorChannel("opencode", 429, body=HEADERS), HoldScope.MODEL, NOW + 99, None),
    (
        replace(WEEKLY, result_text="You've hit your weekly limit · resets Aug 5, 1pm (UTC)"),
        HoldScope.CREDENTIAL,
        NOW + 2 * 86400 + 3600,
        "seven_day",
    ),
    (WEEKLY, HoldScope.CREDENTIAL, NOW + 3600, None),
    (ErrorChannel("claude", 401), HoldScope.CREDENTIAL, None, None),
    (ErrorChannel("claude", 404, error="model_not_found"), HoldScope.MODEL, None, None),
]


@pytest.mark.parametrize(("channel", "scope", "until", "window"), HOLDS)
def test_holds(channel: ErrorChannel, scope: HoldScope, until: float | None, window: str | None) -> None:
    found = classify(channel, NOW)
    assert found is not None
    assert found.hold is not None
    assert (found.hold.scope, found.hold.until, found.hold.window) == (scope, until, window)


def test_short_troubles_hold_nothing() -> None:
    for channel in (
        ErrorChannel(status=503),
        ErrorChannel(message="fetch failed"),
        ErrorChannel(message="database is locked"),
    ):
        found = classify(channel, NOW)
        assert found is not None
        assert found.hold is None


def test_the_log_unmasks_an_unknown_error_but_not_a_known_one() -> None:
    missing = "ProviderModelNotFoundError: Model not found: fake/zzz."
    log = (f'timestamp=2026-11-29T13:09:05.978Z level=ERROR run=x message=failed ref=err_1 error="{missing}"',)
    masked = ErrorChannel("opencode", error_name="UnknownError", message="Unexpected server error.", log_lines=log)
    found = classify(masked, NOW)
    assert found is not None
    assert found.kind is O.MODEL_NOT_FOUND
    assert "fake/zzz" in found.reason
    money = classify(replace(masked, error_name="APIError", status=402, message="Insufficient credits"), NOW)
    assert money is not None
    assert money.kind is O.BILLING


def test_an_old_log_line_with_json_is_read() -> None:
    error = json.dumps({"error": {"statusCode": 429, "message": "x", "type": "FreeUsageLimitError"}})
    line = f"ERROR 2026-01-13T10:00:00 +5ms service=llm error={error}"
    found = classify(ErrorChannel("opencode", log_lines=(line,)), NOW)
    assert found is not None
    assert found.kind is O.QUOTA_EXHAUSTED


def test_rows_are_complete_and_distinct() -> None:
    ids = [row.id for row in failures.TABLE]
    assert len(ids) == len(set(ids))
    for row in failures.TABLE:
        assert row.matches
        assert row.reason
        assert row.action
        assert row.source
        assert (row.scope is None) == (row.until is failures.Until.NO_HOLD)
        if row.kind in (O.RATE_LIMITED, O.QUOTA_EXHAUSTED):
            assert not row.counts


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=150, deadline=None)
@given(
    texts=st.lists(st.text(max_size=80) | st.sampled_from([text for text, _ in TEXTS]), max_size=3),
    body=_JSON.map(lambda value: json.dumps({"error": value})) | st.text(max_size=60),
    status=st.none() | st.integers(-5, 700),
    info=st.none() | st.dictionaries(st.sampled_from(["status", "resetsAt", "rateLimitType", "isUsingOverage"]), _JSON),
)
def test_nothing_crashes_and_every_hold_is_bounded(
    texts: list[str], body: str, status: int | None, info: dict[str, object] | None
) -> None:
    channel = ErrorChannel("x", status, body=body, log_lines=tuple(texts), message="".join(texts), rate_limit_info=info)
    found = classify(channel, NOW)
    if found is not None and found.hold is not None and found.hold.until is not None:
        assert NOW < found.hold.until <= NOW + resets.CAP
    if found is not None:
        assert len(found.proof) <= failures.PROOF_LIMIT
