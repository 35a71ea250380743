"""The rows: what a failure is recognised by, in the order in which that is tried, and what it means."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from dispatcher.task import HoldScope, OutcomeClass


class Until(StrEnum):
    """How the end of a hold is found when the server states none; a stated one always wins, except for PERSON."""

    NO_HOLD = "no hold"
    STATED = "stated, else a minute"
    WINDOW = "stated, else by the window"
    MIDNIGHT = "stated, else 00:00 UTC"
    PERSON = "until a person lifts it"


@dataclass(frozen=True)
class Match:
    """A way to recognise a row. All given parts must fit; `text` is searched in every text of the channel."""

    types: frozenset[str] = frozenset()  # error_type, lower case
    names: frozenset[str] = frozenset()  # error_name
    words: frozenset[str] = frozenset()  # api_error, error, terminal_reason, subtype or action
    statuses: frozenset[int] = frozenset()
    text: str = ""  # a pattern; compiled when a failure is read for the first time
    rejected: bool = False  # claude's rate_limit_event says rejected, and names a window or a reset


@dataclass(frozen=True)
class Row:
    """One line of the table: what it is recognised by, and what it means."""

    id: str
    kind: OutcomeClass
    matches: tuple[Match, ...]
    reason: str
    action: str  # what happens next, in words; the verdict is what decides
    source: str  # where the fact comes from
    scope: HoldScope | None = None
    until: Until = Until.NO_HOLD
    counts: bool = True  # an attempt of this class counts against its candidate
    window: str | None = None


def _words(*values: str) -> Match:
    return Match(words=frozenset(values))


def _types(*values: str) -> Match:
    return Match(types=frozenset(value.lower() for value in values))


def _names(*values: str) -> Match:
    return Match(names=frozenset(values))


def _status(*values: int) -> Match:
    return Match(statuses=frozenset(values))


def _text(pattern: str) -> Match:
    return Match(text=pattern)


_Q, _R = OutcomeClass.QUOTA_EXHAUSTED, OutcomeClass.RATE_LIMITED
_NEXT = "hold it until the reset; the next candidate goes on"
_PERSON = "hold it until a person has acted; the next candidate goes on"
_AGAIN = "the same candidate after a short back-off"
_OTHER = "the next candidate"
_STOP = "no walk over the list: every candidate would fail alike"
TABLE: tuple[Row, ...] = (
    # -- fields that were written for machines ---------------------------------------------------------------------
    Row(
        "session-window", _Q, (Match(rejected=True), _words("usage_limit_reached")),
        "a window of the subscription is used up", _NEXT,
        "claude 2.1: rate_limit_event with status rejected; result.api_error usage_limit_reached",
        HoldScope.CREDENTIAL, Until.WINDOW, counts=False,
    ),
    Row(
        "zen-free-type", _Q, (_types("FreeUsageLimitError"), _words("free_tier_limit")),
        "the free allowance of this model is used up", _NEXT,
        "opencode Zen: per address and UTC day; some models have a bucket of their own",
        HoldScope.MODEL, Until.MIDNIGHT, counts=False, window="day",
    ),
    Row(
        "plan-type", _Q,
        (_types("GoUsageLimitError", "SubscriptionUsageLimitError", "BlackUsageLimitError", "usage_limit_reached"),),
        "the plan's allowance is used up", _NEXT, "opencode Zen error types; codex usage_limit_reached",
        HoldScope.CREDENTIAL, Until.WINDOW, counts=False,
    ),
    Row(
        "money-type", OutcomeClass.BILLING,
        (_types("CreditsError", "MonthlyLimitError", "UserLimitError", "billing_error", "insufficient_quota",
                "billing_not_active"), _words("billing_error")),
        "money is missing or the key may not pay", _PERSON, "opencode Zen error types; claude 2.1 billing_error",
        HoldScope.CREDENTIAL, Until.PERSON,
    ),
    Row(
        "auth-word", OutcomeClass.AUTH, (_words("oauth_org_not_allowed"), _types("AuthError")),
        "the login is not accepted", _PERSON, "claude 2.1.233 oauth_org_not_allowed; opencode Zen AuthError",
        HoldScope.CREDENTIAL, Until.PERSON,
    ),
    Row(
        "model-type", OutcomeClass.MODEL_NOT_FOUND,
        (_types("ModelError", "model_not_found"), _words("model_not_found"),
         _names("ProviderModelNotFoundError", "ModelNotFoundError")),
        "the model does not exist or is not offered to this account", _PERSON,
        "claude 2.1 error model_not_found; opencode Zen ModelError",
        HoldScope.MODEL, Until.PERSON,
    ),
    Row(
        "overflow-field", OutcomeClass.CONTEXT_OVERFLOW,
        (_names("ContextOverflowError"), _types("context_length_exceeded"),
         _words("prompt_too_long", "image_error", "model_context_window_exceeded")),
        "the conversation no longer fits the model's window", "a candidate with a larger window, fresh session",
        "opencode 1.18 ContextOverflowError; claude 2.1 terminal_reason",
    ),
    Row(
        "run-limit", OutcomeClass.RUN_LIMIT,
        (_words("error_max_turns", "error_max_budget_usd", "max_turns", "budget_exhausted", "max_output_tokens"),
         _names("MessageOutputLengthError")),
        "the run reached its limit of turns, money or output", "the evidence decides; finish what is there",
        "claude 2.1 result subtypes; api_error max_output_tokens",
    ),
    # -- wordings --------------------------------------------------------------------------------------------------
    Row(
        "third-party", OutcomeClass.BILLING_MISMATCH,
        (_text(
            r"third-party (apps?|harness(es)?|tools?|use|usage)\b.{0,60}(extra usage|billed separately|not your plan)"
        ),),
        "the provider bills this use separately from the plan", _PERSON,
        "anthropic's answer to other clients on a subscription", HoldScope.CREDENTIAL, Until.PERSON,
    ),
    Row(
        "money-text", OutcomeClass.BILLING,
        (_text(
            r"insufficient credits|requires more credits|prompt tokens limit exceeded|credit balance (is )?too low|"
            r"insufficient (account )?balance|no payment method|monthly spending limit|insufficient_quota|"
            r"exceeded your current quota, please check your plan and billing"
        ),),
        "money is missing or the key may not pay", _PERSON,
        "OpenRouter 402, Anthropic 400 'credit balance', opencode Zen dictionary",
        HoldScope.CREDENTIAL, Until.PERSON,
    ),
    Row(
        "promotion-over", OutcomeClass.BILLING, (_text(r"free promotion has ended"),),
        "the model is no longer free", _PERSON, "opencode Zen dictionary", HoldScope.MODEL, Until.PERSON,
    ),
    Row(
        "zen-free-text", _Q, (_text(r"free usage exceeded|free usage limit"),),
        "the free allowance of this model is used up", _NEXT, "opencode 1.18 session.status message",
        HoldScope.MODEL, Until.MIDNIGHT, counts=False, window="day",
    ),
    Row(
        "free-models-day", _Q, (_text(r"free-models-per-(day|min)"),),
        "the provider's allowance for free models is used up", _NEXT, "OpenRouter: one cap for all its :free models",
        HoldScope.CREDENTIAL, Until.MIDNIGHT, counts=False, window="day",
    ),
    Row(
        "plan-text", _Q,
        (_text(
            r"(hit|reached) your (\S+ ){0,3}limit|usage limit (has been )?reached|hit your usage limit|"
            r"(session|weekly|monthly|daily|5[- ]hour|five[- ]hour|opus|sonnet|max usage|plan) (\S+ )?limit "
            r"(has been )?reached|subscription quota exceeded|your limit will reset|"
            r"(daily|weekly|monthly) (request |token |usage )?(limit|quota) (reached|exceeded)|"
            r"limit reached\W.{0,40}resets? |quota exceeded.{0,80}per day|requests per day"
        ),),
        "the plan's allowance is used up", _NEXT, "claude code, codex and opencode Go wordings of 2025 and 2026",
        HoldScope.CREDENTIAL, Until.WINDOW, counts=False,
    ),
    Row(
        "model-text", OutcomeClass.MODEL_NOT_FOUND,
        (_text(
            r"issue with the selected model|ProviderModelNotFoundError|model not found|model \S+ is not supported|"
            r"model is disabled|not deployed|does not exist or you do not have access to it|no endpoints found for|"
            r"unknown model\b|is not a valid model|provider \S+ (is )?not supported"
        ),),
        "the model does not exist or is not offered to this account", _PERSON,
        "claude 2.1 404; opencode ProviderModelNotFoundError (only its ERROR log says so)",
        HoldScope.MODEL, Until.PERSON,
    ),
    Row(
        "auth-text", OutcomeClass.AUTH,
        (_text(
            r"failed to authenticate|oauth (token|session)\b.{0,40}(expired|revoked)|not logged in|please run /login|"
            r"invalid api key|missing api key|incorrect api key|no auth credentials found|api access paused|"
            r"workspace has been blocked|invalid authentication credentials|disabled claude subscription access|"
            r"only authorized for use with claude code|token refresh failed|api key is missing|unauthorized: "
        ),),
        "the login is not accepted", _PERSON, "claude 2.1, opencode Zen dictionary",
        HoldScope.CREDENTIAL, Until.PERSON,
    ),
    Row(
        "overflow-text", OutcomeClass.CONTEXT_OVERFLOW,
        (_text(
            r"prompt is too long|input is too long for|exceeds? the context window|"
            r"input token count.{0,40}exceeds the maximum|maximum prompt length is \d|"
            r"reduce the length of the messages|"
            r"maximum context length (is|of) \d|token count of \d+ exceeds the limit|exceeds the limit of \d|"
            r"exceeds the available context size|greater than the context length|context window exceeds limit|"
            r"exceeded model token limit|context_length_exceeded|request entity too large|request too large|"
            r"context length is only \d|input length.{0,40}exceeds.{0,40}context length|^(400|413) \(no body\)|"
            r"(context|window) overflow"
        ),),
        "the conversation no longer fits the model's window", "a candidate with a larger window, fresh session",
        "opencode's own list of provider wordings", 
    ),
    Row(
        "permission-text", OutcomeClass.PERMISSION_DENIED,
        (_text(r"auto-rejecting|\basking id=per_|cannot be used with root/sudo"),),
        "a question that nobody can answer ended the run", _STOP,
        "opencode 1.18 stderr on an `ask` rule; claude 2.1 as root with skip-permissions",
    ),
    Row(
        "brief-size", OutcomeClass.BRIEF_TOO_LARGE,
        (_text(r"piped stdin input exceeds|argument list too long"),),
        "the prompt is larger than the CLI takes", _STOP, "claude 2.1: more than 10 MB on stdin",
    ),
    Row(
        "port", OutcomeClass.HARNESS_LOCKED,
        (_text(r"\bServeError\b|EADDRINUSE|(port \d+|address) (is )?already in use"),),
        "the CLI's port is taken: end the other process, or take `server.port` out of the CLI's own configuration",
        _AGAIN, "opencode 1.18: a second process dies on a pinned port", counts=False,
    ),
    Row(
        "locked", OutcomeClass.HARNESS_LOCKED,
        (_text(r"database is locked|locking protocol|failed to execute statement|already in use"),),
        "the CLI's own store is busy", _AGAIN, "opencode 1.17: several runs share one SQLite file",
        counts=False,
    ),
    Row(
        "signing", OutcomeClass.GIT_SIGNING,
        (_text(r"gpg failed to sign|failed to write commit object"),),
        "git could not sign the commit", _STOP, "git 2.39",
    ),
    Row(
        "overloaded-text", OutcomeClass.OVERLOADED,
        (_types("overloaded_error", "overloaded"), _words("overloaded"),
         _text(r"overloaded_error|\boverloaded\b|currently at capacity|no provider available|high demand")),
        "the provider is overloaded", _AGAIN, "claude 2.1 529; opencode 503", counts=False,
    ),
    Row(
        "rate-words", _R,
        (_words("rate_limit", "account_rate_limit"),
         _types("RateLimitError", "rate_limit_exceeded", "rate_limit_error")),
        "too many requests", _NEXT, "claude 2.1 error enum; opencode Zen RateLimitError",
        HoldScope.MODEL, Until.STATED, counts=False,
    ),
    # -- HTTP statuses ---------------------------------------------------------------------------------------------
    Row(
        "429", _R, (_status(429),), "too many requests (HTTP 429)", _NEXT, "HTTP",
        HoldScope.MODEL, Until.STATED, counts=False,
    ),
    Row(
        "402", OutcomeClass.BILLING, (_status(402),), "payment required (HTTP 402)", _PERSON, "HTTP",
        HoldScope.CREDENTIAL, Until.PERSON,
    ),
    Row(
        "401", OutcomeClass.AUTH,
        (_status(401, 403), _words("authentication_failed"), _types("authentication_error", "permission_error"),
         _names("ProviderAuthError")),
        "the login is not accepted", _PERSON, "HTTP 401 and 403; claude 2.1 authentication_failed",
        HoldScope.CREDENTIAL, Until.PERSON,
    ),
    Row(
        "404", OutcomeClass.MODEL_NOT_FOUND, (_status(404), _types("not_found_error")),
        "the provider does not know this model or address (HTTP 404)", _PERSON, "HTTP; claude 2.1 reads it alike",
        HoldScope.MODEL, Until.PERSON,
    ),
    Row(
        "413", OutcomeClass.CONTEXT_OVERFLOW, (_status(413), _types("request_too_large")),
        "the request is too large (HTTP 413)", "a candidate with a larger window, fresh session", "HTTP",
    ),
    Row(
        "5xx", OutcomeClass.OVERLOADED, (_status(502, 503, 504, 529),), "the provider is overloaded or down", _AGAIN,
        "HTTP", counts=False,
    ),
    Row(
        "network", OutcomeClass.NETWORK,
        (_words("connection_failed"),
         _text(
             r"ECONNRESET|ECONNREFUSED|ENOTFOUND|EAI_AGAIN|ETIMEDOUT|EHOSTUNREACH|ENETUNREACH|getaddrinfo|"
             r"socket connection was closed|socket hang up|fetch failed|cannot connect to api|unable to connect|"
             r"connection (error|refused|dropped|reset|closed)|can't reach the api|request timed out|"
             r"network (error|connection lost)|certificate has expired|self[- ]signed certificate"
         )),
        "the provider could not be reached", _AGAIN, "claude 2.1 connection_failed; words of opencode's own retry list",
        counts=False,
    ),
    Row(
        "rate-text", _R, (_text(r"too many requests|rate.?limit|temporarily limiting requests"),),
        "too many requests", _NEXT, "many providers; also inside AI_TypeValidationError",
        HoldScope.MODEL, Until.STATED, counts=False,
    ),
    Row(
        "tool-arguments", OutcomeClass.INVALID_TOOL_ARGS,
        (_text(r"called with invalid arguments|repeated tool failures|unavailable tool"),),
        "the model could not form a valid tool call", _OTHER, "opencode 1.18",
    ),
    Row(
        "session-gone", OutcomeClass.INTERNAL,
        (_text(r"session not found|no conversation found with session id|no deferred tool marker"),),
        "the session to resume is gone", "a fresh session with the same prompt", "opencode 1.14 to 1.18; claude 2.1",
        counts=False,
    ),
    Row(
        "stated-wait", _R, (_words("retry_after"),), "the provider states a wait before the next try", _NEXT,
        "opencode 1.18 session.status: its message need not name the cause, but only a header makes such a wait",
        HoldScope.MODEL, Until.STATED, counts=False,
    ),
    Row(
        "retrying", OutcomeClass.OVERLOADED, (_words("retrying"),), "the CLI tries again and does not say why", _AGAIN,
        "opencode 1.18 session.status: it retries 429, 5xx and network errors", counts=False,
    ),
    Row(
        "internal", OutcomeClass.INTERNAL,
        (_status(500), _names("UnknownError"), _words("error_during_execution", "server_error"),
         _text(
             r"unexpected server error|internal server error|^error: |\berror:? unknown option|launched inside another"
         )),
        "the CLI reports an error of its own", "once more, then the next candidate",
        "opencode 1.18 UnknownError; claude 2.1 error_during_execution",
    ),
)  # fmt: skip
