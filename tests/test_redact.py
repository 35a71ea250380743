"""What may leave the machine: keys are taken out, ordinary words stay."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dispatcher.redact import redact, secrets_of


@pytest.mark.parametrize(
    "secret",
    [
        "sk-ant-api03-abcdefghijklmnop",
        "sk-or-v1-0123456789abcdef0123",
        "ghp_abcdefghijklmnopqrstuvwx",
        "github_pat_11ABCDEFG0123456789ab",
        "AKIAIOSFODNN7EXAMPLE",
        "AIzaSyA-1234567890abcdefghijklmnopqrstu",
        "xoxb-123456789012-abcdef",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abcdefgh",
    ],
)
@pytest.mark.parametrize("around", ["{}", "key: {}", '"x": "{}"', "Authorization: Bearer {}", "https://h/?a=1&k={}"])
def test_keys_by_their_shape(secret: str, around: str) -> None:
    assert secret not in redact(around.format(secret))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("https://ann:hunter22@example.org/x", "https://[password]@example.org/x"),
        ('{"api_key": "plainvalue"}', '{"api_key": "[secret]"}'),
        ("password=abcdefgh&x=1", "password=[secret]&x=1"),
        ("total_tokens: 1234567", "total_tokens: 1234567"),
        ("-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----\nx", "[private key]\nx"),
        ("the secret of the token is out", "the secret of the token is out"),
        ("commit 3a752ff0c1d2e3f4a5b6c7d8e9f0a1b2c3d4e5f6", "commit 3a752ff0c1d2e3f4a5b6c7d8e9f0a1b2c3d4e5f6"),
    ],
)
def test_keys_by_their_name_and_words_that_stay(text: str, expected: str) -> None:
    assert redact(text) == expected


def test_values_of_the_environment() -> None:
    environ = {
        "MY_TOKEN": "plain-value",
        "SHORT_KEY": "abc",
        "HOME": "/home/ann",
        "SSH_AUTH_SOCK": "/run/agent",
        "PIN": "pin-value",
    }
    assert secrets_of(environ, ["PIN"]) == ("plain-value", "pin-value")
    assert redact("a plain-value in a text", secrets_of(environ)) == "a [secret] in a text"


@settings(max_examples=200)
@given(st.text(max_size=300))
def test_any_text_comes_through(text: str) -> None:
    once = redact(text)
    assert redact(once) == once or "[" in once
