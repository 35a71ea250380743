"""Code that a repository brings along and that a harness would run by itself, without any tool call.

opencode 1.18 runs `.opencode/plugin(s)` and `.opencode/tool(s)` of the working copy, and the plugins and MCP servers
that its `opencode.json(c)` names. `OPENCODE_DISABLE_PROJECT_CONFIG=1`, which untrusted runs get, was seen to stop all
of it in some installations and not the plugin folders in others, so it is no reason to start such a run.
claude 2.1 with `--setting-sources user --strict-mcp-config` runs no hook, server or plugin of the repository.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

_CODE_FOLDERS = ("plugin", "plugins", "tool", "tools")
_CONFIGS = ("opencode.json", "opencode.jsonc", ".opencode/opencode.json", ".opencode/opencode.jsonc")
_RUNS = ("plugin", "mcp", "lsp", "formatter")
_PLACES: Mapping[str, tuple[str, ...]] = {"opencode": (".opencode", "opencode.json", "opencode.jsonc")}

# Texts first, so that what looks like a comment inside one stays.
_COMMENT = re.compile(r'("(?:[^"\\\n]|\\.)*")|//[^\n]*|/\*.*?\*/', re.DOTALL)
_TRAILING = re.compile(r'("(?:[^"\\\n]|\\.)*")|,(?=\s*[}\]])')


def places(harness: str) -> tuple[str, ...]:
    """Where to look in the repository's root; empty for a harness that runs nothing by itself."""
    return _PLACES.get(harness, ())


def executed(harness: str, files: Mapping[str, bytes | None]) -> tuple[str, ...]:
    """Which of the files at `places` the harness would run by itself, or what they name. Sorted."""
    if harness not in _PLACES:
        return ()
    return tuple(sorted(path for path, content in files.items() if _runs(path, content)))


def _runs(path: str, content: bytes | None) -> bool:
    parts = path.lower().split("/")  # a disk that ignores case finds `.OpenCode` as well
    if parts == [".opencode"] or (len(parts) == 2 and parts[0] == ".opencode" and parts[1] in _CODE_FOLDERS):
        return True  # a link or a repository in its place: what it leads to is unknown
    if len(parts) > 2 and parts[0] == ".opencode" and parts[1] in _CODE_FOLDERS:
        return True
    return "/".join(parts) in _CONFIGS and (content is None or _names_code(content))


def _names_code(content: bytes) -> bool:
    """Whether the configuration names a plugin or a server. What cannot be read counts as if it did."""
    try:
        text = content.decode("utf-8-sig")
        plain = _TRAILING.sub(lambda m: m[1] or "", _COMMENT.sub(lambda m: m[1] or " ", text))
        value = json.loads(plain)
    except (ValueError, RecursionError):
        return True
    return not isinstance(value, dict) or any(value.get(key) for key in _RUNS)
