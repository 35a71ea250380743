"""Which files of a repository a harness would run by itself."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dispatcher.harness import project_code


@pytest.mark.parametrize(
    ("path", "content", "runs"),
    [
        (".opencode/plugin/a.js", b"", True),
        (".opencode/plugins/deep/a.ts", b"", True),
        (".opencode/tool/a.ts", b"", True),
        (".OpenCode/Plugin/a.js", b"", True),
        (".opencode", None, True),  # a link
        (".opencode/plugin", None, True),
        (".opencode/agent/review.md", b"text", False),
        (".opencode/command/x.md", b"text", False),
        ("src/.opencode/plugin/a.js", b"", False),  # only the root's is read
        ("opencode.json", b'{"plugin": ["x"]}', True),
        ("opencode.json", b'{"mcp": {"a": {"type": "local", "command": ["x"]}}}', True),
        ("opencode.jsonc", b'{// "plugin": ["no"]\n "model": "a/b", /* "mcp": {} */ "mcp": {},}', False),
        ("opencode.jsonc", b'{"model": "http://x", // a\n "plugin": ["x"],}', True),
        ("opencode.json", b'{"pl\\u0075gin": ["x"]}', True),
        ("opencode.json", b'{"model": "a/b", "plugin": [], "theme": "x"}', False),
        ("opencode.json", b"{broken", True),
        ("opencode.json", b"\xff\xfe", True),
        ("opencode.json", None, True),
        (".opencode/opencode.json", b'{"plugin": ["x"]}', True),
    ],
)
def test_opencode(path: str, content: bytes | None, runs: bool) -> None:
    assert project_code.executed("opencode", {path: content}) == ((path,) if runs else ())


def test_claude_runs_nothing_of_an_untrusted_repository() -> None:
    """Its argv says `--setting-sources user --strict-mcp-config`."""
    assert project_code.places("claude") == ()
    assert project_code.executed("claude", {".claude/settings.json": b'{"hooks": {}}', ".mcp.json": b"{}"}) == ()


@settings(max_examples=100)
@given(st.binary(max_size=200))
def test_any_bytes_are_judged(content: bytes) -> None:
    assert project_code.executed("opencode", {"opencode.json": content}) in ((), ("opencode.json",))
