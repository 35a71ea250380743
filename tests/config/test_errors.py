"""A models.yaml that is wrong: one line with file, line and the fix, whatever is wrong with it."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dispatcher.config import load
from dispatcher.errors import BadInput, ConfigError
from tests.config.samples import EXAMPLE, LEAST, environ_of, load_text

# (what is appended to a file of 6 lines, the line of the error, a word of the message, a word of the hint)
APPENDED = [
    ("candidats:\n  x: 1\n", 7, "unknown key 'candidats'", '"candidates"'),
    ("limits: {hard_cap: 45}\n", 7, "45 has no unit", "45m"),
    ("limits: {hard_cap: soon}\n", 7, "not a duration", "1h30m"),
    ("limits: {hard_cap: 0s}\n", 7, "longer than nothing", ""),
    ("limits:\n  hard_cap: 45m\n  stal: 10m\n", 9, "limits: unknown key 'stal'", '"stall"'),
    ("limits: {min_free_disk: 2G}\n", 7, "not a size", "2GiB"),
    ("limits: {min_free_disk: 2048}\n", 7, "not a size", "2GiB"),
    ("limits: {jobs: 0}\n", 7, "1 or more", ""),
    ("limits: {jobs: two}\n", 7, "whole number", ""),
    ("limits: {jobs: true}\n", 7, "is true", ""),
    ("limits: {max_load_per_core: -1}\n", 7, "more than 0", ""),
    ("limits: 45m\n", 7, "must be a mapping", ""),
    ("difficulty:\n  - {match: {title: '(typo'}, is: trivial}\n", 8, "not a regular expression", ""),
    ("difficulty:\n  - {match: {title: typo}, is: tricky}\n", 8, "'tricky' is not one of", "trivial"),
    ("difficulty:\n  - {match: {titel: typo}, is: easy}\n", 8, "unknown key 'titel'", "title"),
    ("difficulty:\n  - {match: {title: typo}}\n", 8, "needs `match` and `is`", ""),
    ("difficulty:\n  - {match: {}, is: easy}\n", 8, "is empty", "words_over"),
    ("difficulty: {title: typo}\n", 7, "must be a list", ""),
    ("repositories:\n  src/shop: {tools: edit}\n", 8, "not an absolute path", "~/"),
    ("repositories:\n  /a/b: {}\n  /a/../a/b/: {}\n", 9, "same folder", ""),
    ("repositories:\n  /a/b:\n    tools: write\n", 9, "'write' is not one of read, edit, full", ""),
    ("repositories:\n  /a/b:\n    credentials: [zen, max]\n", 9, "no credential 'max'", "zen"),
    ("repositories:\n  /a/b: {copy_files: [../../etc/passwd]}\n", 8, "leads out of the repository", "relative"),
    ("repositories:\n  /a/b: {copy: rsync}\n", 8, "'rsync' is not one of", "clone"),
    ("defaults: {sandbox: bwarp}\n", 7, "no sandbox 'bwarp'", "bwrap"),
    ("defaults: {sandbox: none}\nsandbox: bwrap\n", 7, "said twice", "keep one"),
    ("sandboxes:\n  box:\n    kind: docker\n", 8, "names no image", "image"),
    ("sandboxes:\n  box: {image: x}\n", 8, "says no kind", "docker"),
    ("sandboxes:\n  none: {command: x}\n", 8, "cannot be defined", ""),
    ("environment: {pass: [ANTHROPIC_API_KEY]}\n", 7, "decides who pays", ""),
    ("environment: {pass: [OPENAI_BASE_URL]}\n", 7, "decides who pays", ""),
    ("environment: {pass: [CLAUDECODE]}\n", 7, "marks the run", ""),
    ("environment: {pass: [GIT_DIR]}\n", 7, "another repository", ""),
    ("environment: {pas: []}\n", 7, "unknown key 'pas'", "pass"),
    ("harnesses: {opencod: {path: /x}}\n", 7, "unknown key 'opencod'", "opencode"),
    ("harnesses: {opencode: {path: bin/opencode}}\n", 7, "not an absolute path", ""),
    ("harnesses: {opencode: {env: {SOME_TOKEN: x}}}\n", 7, "does not belong here", "credential"),
    ("copies: {mode: hardlink}\n", 7, "'hardlink' is not one of clone", ""),
    ("webhook: ftp://x\n", 7, "http", ""),
    ("allow_untested: maybe\n", 7, "true or false", ""),
    ("rules:\n  - fix: it\n", 8, "became a mapping", "quotes"),
    ("rules:\n  - 12\n", 8, "must be a text, is the number 12", ""),
    ("approvals:\n  rules: [ask]\n", 8, "must be a mapping", ""),
    ("approvals:\n  - {tool: bash}\n  - {comand: git push}\n", 9, "has no 'comand'", "command"),
    ("approvals:\n  rules:\n    - {tool: bash, do: maybe}\n", 9, "`do` is 'maybe'", "deny"),
    ("approvals:\n  rules:\n    - tool: bash\n      remember: always\n", 9, "can only be `never`", "leave it out"),
    ("approvals:\n  rules:\n    - {network: false}\n", 9, "can only be true", ""),
    ("approvals:\n  rules:\n    - {command: [git push, rm]}\n", 9, "is one text", "a rule for each"),
    ("approvals:\n  rules:\n    - {command: git push, path: a}\n", 9, "do not go together", "two rules"),
    ("approvals:\n  rules:\n    - {tool: 12}\n", 9, "text or a list of texts", ""),
    ("routes:\n  easy: [pickle]\n", 7, "twice", ""),
    ("allow_untested: yes\n", 7, "without quotes", "true"),
    ("limits:\n\tjobs: 2\n", 8, "tab", "spaces"),
    ("limits: {jobs: 2\n", 8, "expected", ""),
]


@pytest.mark.parametrize(("text", "line", "message", "hint"), APPENDED, ids=[row[0] for row in APPENDED])
def test_appended(tmp_path: Path, text: str, line: int, message: str, hint: str) -> None:
    check(tmp_path, LEAST + text, line, message, hint)


# (what is replaced in the file of 6 lines, by what, the line of the error, message, hint)
REPLACED = [
    ("zen: {billing: free}", "zen: {}", 2, "says no billing", "subscription"),
    ("zen: {billing: free}", "zen: {billing: gratis}", 2, "'gratis' is not one of", "free"),
    ("zen: {billing: free}", "zen: {billing: free, enviroment: [X]}", 2, "unknown key", "env"),
    (
        "zen: {billing: free}",
        "zen: {billing: free, env: [sk-ant-api03-abc]}",
        2,
        "never its value",
        "ANTHROPIC_API_KEY",
    ),
    ("zen: {billing: free}", "zen: {billing: free, env: CLAUDECODE}", 2, "marks the run", ""),
    ("zen: {billing: free}", "zen: {billing: free, base_url: localhost}", 2, "http://", ""),
    ("zen: {billing: free}", "zen: {billing: free, budget: {usd: {year: 5}}}", 2, "unknown key 'year'", "day"),
    ("zen: {billing: free}", "zen: {billing: free, budget: {usd: {day: 0}}}", 2, "more than 0", ""),
    ("zen: {billing: free}", "zen: free", 2, "must be a mapping", ""),
    ("zen: {billing: free}", "no: {billing: free}", 2, "", '"no"'),
    ("zen: {billing: free}", "a b: {billing: free}", 2, "cannot be the name of a credential", "dash"),
    ("harness: opencode, ", "", 4, "names no harness", "claude"),
    ("harness: opencode", "harness: codex", 4, "no harness 'codex'", "opencode"),
    ("model: opencode/big-pickle, ", "", 4, "names no model", "full id"),
    ("model: opencode/big-pickle", "model: ''", 4, "is empty", ""),
    ("model: opencode/big-pickle", "model: ~", 4, "is empty", ""),
    ("model: opencode/big-pickle", "model: big-pickle", 4, "not a full id", "provider/model"),
    ("model: opencode/big-pickle", "model: openrouter/auto", 4, "is an alias", "floating"),
    ("model: opencode/big-pickle", "model: 'a/b: free'", 4, "has a space", "free"),
    ("model: opencode/big-pickle", "model: {a/b: free}", 4, "became a mapping", "provider/model:free"),
    ("model: opencode/big-pickle", "model: [a/b: free]", 4, "must be a text", ""),
    ("harness: opencode, model: opencode/big-pickle", "harness: claude, model: sonnet", 4, "is an alias", "floating"),
    ("harness: opencode, model: opencode/big-pickle", "harness: claude, model: claude-opus-latest", 4, "alias", ""),
    (", credential: zen", "", 4, "names no credential", "zen"),
    ("credential: zen", "credential: zne", 4, "no credential 'zne'", "zen"),
    ("credential: zen", "credential: zen, per_day: 0", 4, "1 or more", ""),
    ("medium: [pickle]", "medium: [pikle]", 6, "no candidate 'pikle'", "pickle"),
    ("medium: [pickle]", "medium: []", 6, "has no candidates", "at least one"),
    ("medium: [pickle]", "medium:", 6, "has no candidates", ""),
    ("medium: [pickle]", "medium: {spill: true}", 6, "has no candidates", ""),
    ("medium: [pickle]", "medium: [pickle, pickle]", 6, "listed twice", ""),
    ("medium: [pickle]", "medium: pickle", 6, "must be a list", ""),
    ("medium: [pickle]", "medium:\n    - pickle\n    - openrouter/x/y: free", 8, "became a mapping", "quotes"),
    ("medium: [pickle]", "midium: [pickle]", 6, "unknown key 'midium'", "medium"),
    ("  medium: [pickle]\n", "", 5, "is empty", "at least one"),
    ("routes:\n  medium: [pickle]\n", "", 1, "there are no routes", "init"),
]


@pytest.mark.parametrize(("old", "new", "line", "message", "hint"), REPLACED, ids=[row[1] for row in REPLACED])
def test_replaced(tmp_path: Path, old: str, new: str, line: int, message: str, hint: str) -> None:
    assert old in LEAST
    check(tmp_path, LEAST.replace(old, new), line, message, hint)


def check(folder: Path, text: str, line: int, message: str, hint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_text(folder, text)
    assert caught.value.line == line
    assert caught.value.message.startswith(f"{folder}/home/models.yaml:{line}: ")
    assert message in caught.value.message
    assert hint in (caught.value.hint or "")
    assert "\n" not in caught.value.message
    assert "sk-ant" not in caught.value.message + (caught.value.hint or "")  # a key written by mistake is not repeated


def problem_of(folder: Path, text: str) -> ConfigError | None:
    try:
        load_text(folder, text)
    except ConfigError as error:
        return error
    return None


@pytest.mark.parametrize("size", range(0, len(EXAMPLE), 37))
def test_a_file_that_is_cut_off_loads_or_is_refused_in_one_line(tmp_path: Path, size: int) -> None:
    error = problem_of(tmp_path, EXAMPLE[:size])
    if error is not None:
        assert error.line is not None
        assert "\n" not in error.message


_WORDS = EXAMPLE.split(" ")
_ODD = ("", "[", "}", ":", "-", "no", "1", "null", "~", "{a: b}", "é", *_WORDS[:30])


@given(st.lists(st.tuples(st.integers(0, len(_WORDS) - 1), st.sampled_from(_ODD)), min_size=1, max_size=3))
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_any_damage_is_a_clear_error_and_never_a_crash(tmp_path: Path, damage: list[tuple[int, str]]) -> None:
    words = list(_WORDS)
    for place, word in damage:
        words[place] = word
    error = problem_of(tmp_path, " ".join(words))
    assert error is None or error.line is not None


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    home, environ = tmp_path / "home", environ_of(tmp_path)
    with pytest.raises(BadInput, match=r"there is no models\.yaml in .*home") as caught:
        load(home, environ)
    assert "dispatcher init" in (caught.value.hint or "")
    home.mkdir()
    (home / "models.yaml").write_bytes(b"rules:\n  - caf\xe9\n")
    with pytest.raises(ConfigError, match=r"models\.yaml:2: is not UTF-8"):
        load(home, environ)
    (home / "models.yaml").unlink()
    (home / "models.yaml").mkdir()
    with pytest.raises(ConfigError, match="cannot be read"):
        load(home, environ)


def test_without_home_the_copies_need_a_place(tmp_path: Path) -> None:
    load_text(tmp_path, LEAST)
    with pytest.raises(BadInput, match="HOME is not set"):
        load(tmp_path / "home", {})
    load_text(tmp_path, LEAST + "copies: {root: /var/tmp/copies}\n")
    assert load(tmp_path / "home", {}).copies_root == Path("/var/tmp/copies")
    load_text(tmp_path, LEAST + "copies: {root: ~/copies}\n")
    with pytest.raises(ConfigError, match="HOME is not set"):
        load(tmp_path / "home", {})
