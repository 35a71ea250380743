"""Takes secrets out of text that leaves the machine: reports, notifications.

Two ways, because neither is enough: the values of variables that look like secrets are replaced wherever they stand,
and so is whatever has the shape of a key. What is replaced is named by its kind, so that a report stays readable.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

_SECRET_NAME = re.compile(r"(?i)(key|token|secret|passw|credential|cookie|auth|webhook|dsn)")
_SHORTEST = 6  # shorter values would take ordinary words out

_SHAPES: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("private key", re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.S)),
    ("key", re.compile(r"\b(?:sk|pk|rk)[-_][A-Za-z0-9_-]{16,}")),
    ("key", re.compile(r"\b(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|hf_[A-Za-z0-9]{20,})")),
    ("key", re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b|\bAIza[\w-]{30,}|\bxox[abeoprs]-[\w-]{10,}")),
    ("token", re.compile(r"\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*")),
    ("token", re.compile(r"(?i)(?<=bearer )[\w.~+/=-]{8,}|(?<=basic )[A-Za-z0-9+/=]{12,}")),
    ("password", re.compile(r"(?<=://)[^\s/:@'\"]{0,200}:[^\s/@'\"]{1,200}(?=@)")),
)
# `api_key=...`, `"token": "..."`: the name says it, whatever the value looks like.
_NAMED = re.compile(
    r"""(?ix)(\b[\w-]{0,40}(?:api[_-]?key|secret|token|passw(?:or)?d|authorization|cookie)[\w-]{0,20}
    ["']?\s*[:=]\s*["']?)(?!\[)([^\s"',;&}]{6,})"""
)


def secrets_of(environ: Mapping[str, str], names: Iterable[str] = ()) -> tuple[str, ...]:
    """The values to take out, longest first: of the variables in `names`, and of all whose name sounds like one."""
    wanted = set(names)
    found = {
        value
        for name, value in environ.items()
        if len(value) >= _SHORTEST and (name in wanted or _SECRET_NAME.search(name)) and not value.startswith("/")
    }
    return tuple(sorted(found, key=lambda value: (-len(value), value)))


def redact(text: str, secrets: Iterable[str] = ()) -> str:
    for value in secrets:
        text = text.replace(value, "[secret]")
    for kind, shape in _SHAPES:
        text = shape.sub(f"[{kind}]", text)
    return _NAMED.sub(_named, text)


def _named(match: re.Match[str]) -> str:
    """`tokens: 1234567` is a count and stays."""
    return match[0] if match[2].replace(".", "").isdigit() else f"{match[1]}[secret]"
