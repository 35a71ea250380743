"""What a CLI would read by itself and pay with, as files and variables; nothing is started."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from dispatcher import money
from dispatcher.money import WrongMoney, problems, refuse
from dispatcher.task import Billing, Candidate, Credential

PLAN = Credential("plan", Billing.SUBSCRIPTION)
TOKEN = Credential("plan", Billing.SUBSCRIPTION, env=("CLAUDE_CODE_OAUTH_TOKEN",))
KEY = Credential("api", Billing.METERED, env=("ANTHROPIC_API_KEY",))
BARE = Credential("api", Billing.METERED)
FREE = Credential("zen", Billing.FREE)
GATEWAY = Credential("gate", Billing.METERED, env=("ANTHROPIC_API_KEY",), base_url="https://gate.example/")
SECRET = "sk-very-secret"
CARRIED = {"ANTHROPIC_API_KEY": SECRET}
LOGIN = {"claudeAiOauth": {"accessToken": SECRET}}

NONE: Mapping[str, str] = {}

Files = dict[str, str | dict[str, Any]]


@pytest.fixture(autouse=True)
def managed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(money, "MANAGED", tmp_path / "etc")
    return tmp_path / "etc"


def look(
    root: Path,
    credential: Credential,
    files: Files,
    *,
    harness: str = "claude",
    model: str = "claude-sonnet-5-5",
    trusted: bool = False,
    variables: Mapping[str, str] = NONE,
) -> list[str]:
    """What is wrong, each as one line. `files` are below `home/`, `work/` or `etc/`."""
    for path, content in files.items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content if isinstance(content, str) else json.dumps(content))
    candidate = Candidate("one", harness, model, credential)
    everything = {"HOME": str(root / "home"), **variables}
    found = list(problems(candidate, everything, root / "work", trusted=trusted))
    assert SECRET not in str(found), "names only"
    assert all(fix for _, fix in found)
    return [text for text, _ in found]


SETTINGS = "home/.claude/settings.json"
HELPER: Files = {SETTINGS: {"apiKeyHelper": f"echo {SECRET}"}}


@pytest.mark.parametrize(
    ("credential", "files", "variables", "words"),
    [
        (PLAN, {}, {}, None),
        (PLAN, {"home/.claude/.credentials.json": LOGIN}, {}, None),
        (PLAN, HELPER, {}, "apiKeyHelper"),
        (KEY, HELPER, CARRIED, "apiKeyHelper"),
        (BARE, HELPER, {}, None),  # its own way to pay
        (PLAN, {"etc/claude-code/managed-settings.json": {"apiKeyHelper": "x"}}, {}, "apiKeyHelper"),
        (PLAN, {"etc/claude-code/managed-settings.d/a.json": {"apiKeyHelper": "x"}}, {}, "apiKeyHelper"),
        (PLAN, {SETTINGS: '{ // no JSON, so claude ignores it\n"apiKeyHelper": "x"}'}, {}, None),
        (PLAN, {SETTINGS: "[1]"}, {}, None),
        (PLAN, {SETTINGS: {"env": "ANTHROPIC_API_KEY"}}, {}, None),
        (PLAN, {SETTINGS: {"env": {"ANTHROPIC_API_KEY": SECRET}}}, {}, "ANTHROPIC_API_KEY"),
        (PLAN, {SETTINGS: {"env": {"ANTHROPIC_API_KEY": ""}}}, {}, None),
        (PLAN, {SETTINGS: {"env": {"FOO": "1", "ANTHROPIC_MODEL": "x"}}}, {}, None),
        (KEY, {SETTINGS: {"env": {"ANTHROPIC_API_KEY": SECRET}}}, CARRIED, None),  # the same one
        (KEY, {SETTINGS: {"env": {"ANTHROPIC_API_KEY": "another"}}}, CARRIED, "ANTHROPIC_API_KEY"),
        (PLAN, {"home/.claude.json": {"env": {"ANTHROPIC_AUTH_TOKEN": SECRET}}}, {}, "ANTHROPIC_AUTH_TOKEN"),
        (PLAN, {SETTINGS: {"env": {"CLAUDE_CODE_USE_BEDROCK": "1"}}}, {}, "CLAUDE_CODE_USE_BEDROCK"),
        (PLAN, {SETTINGS: {"env": {"CLAUDE_CODE_USE_VERTEX": "true"}}}, {}, "CLAUDE_CODE_USE_VERTEX"),
        (PLAN, {SETTINGS: {"env": {"CLAUDE_CODE_USE_FOUNDRY": 1}}}, {}, "CLAUDE_CODE_USE_FOUNDRY"),
        (PLAN, {SETTINGS: {"env": {"CLAUDE_CODE_USE_BEDROCK": "0"}}}, {}, None),
        (PLAN, {}, {"CLAUDE_CODE_USE_BEDROCK": "1"}, "CLAUDE_CODE_USE_BEDROCK"),
        (PLAN, {SETTINGS: {"env": {"ANTHROPIC_BASE_URL": "http://other"}}}, {}, "ANTHROPIC_BASE_URL"),
        (GATEWAY, {SETTINGS: {"env": {"ANTHROPIC_BASE_URL": "https://gate.example"}}}, CARRIED, None),
        (GATEWAY, {SETTINGS: {"env": {"ANTHROPIC_BASE_URL": "https://gate.example.net"}}}, CARRIED, "BASE_URL"),
        (PLAN, {"home/.claude.json": {"primaryApiKey": SECRET}}, {}, "primaryApiKey"),
        (PLAN, {"other/.claude.json": {"primaryApiKey": SECRET}}, {}, None),
        (BARE, {"home/.claude.json": {"primaryApiKey": SECRET}}, {}, None),
        (BARE, {"home/.claude/.credentials.json": LOGIN}, {}, "is a subscription"),
        (FREE, {"home/.claude/.credentials.json": LOGIN}, {}, "is a subscription"),
        (KEY, {"home/.claude/.credentials.json": LOGIN}, CARRIED, None),  # the key wins
        (KEY, {}, {}, "ANTHROPIC_API_KEY is not set"),
        (TOKEN, {}, {"CLAUDE_CODE_OAUTH_TOKEN": SECRET}, None),
        (Credential("plan", Billing.SUBSCRIPTION, env=("ANTHROPIC_API_KEY",)), {}, CARRIED, "is a metered key"),
        (PLAN, {"work/.env": f"export ANTHROPIC_API_KEY='{SECRET}'\n"}, {}, ".env of the project"),
        (PLAN, {"work/.env.local": f"ANTHROPIC_BASE_URL = {SECRET}\n"}, {}, ".env.local of the project"),
        (PLAN, {"work/.env": "OPENAI_API_KEY=x\n# ANTHROPIC_API_KEY=x\nANTHROPIC_API_KEY=\n"}, {}, None),
        (PLAN, {"work/.env.example": "ANTHROPIC_API_KEY=x\n"}, {}, None),
        (KEY, {"work/.env": "ANTHROPIC_API_KEY=x\n"}, CARRIED, None),  # what is set already is not replaced
    ],
)
def test_claude(
    tmp_path: Path, credential: Credential, files: Files, variables: dict[str, str], words: str | None
) -> None:
    found = look(tmp_path, credential, files, variables=variables)
    if words is None:
        assert found == []
    else:
        assert words in found[0]


def test_claude_with_its_own_config_dir(tmp_path: Path) -> None:
    """Another CLAUDE_CONFIG_DIR has another login, other settings, and its own .claude.json."""
    own: Files = {"own/settings.json": {"apiKeyHelper": "x"}, "own/.claude.json": {"primaryApiKey": SECRET}}
    assert look(tmp_path, PLAN, own) == []
    found = look(tmp_path, PLAN, {}, variables={"CLAUDE_CONFIG_DIR": str(tmp_path / "own")})
    assert len(found) == 2


def test_settings_of_the_project_count_when_claude_reads_them(tmp_path: Path) -> None:
    files: Files = {"work/.claude/settings.json": {"env": {"ANTHROPIC_API_KEY": SECRET}}}
    assert look(tmp_path, PLAN, files) == []
    assert "ANTHROPIC_API_KEY" in look(tmp_path, PLAN, files, trusted=True)[0]


AUTH = "home/.local/share/opencode/auth.json"
GLOBAL = "home/.config/opencode/opencode.json"
OPENAI = Credential("openai", Billing.METERED, env=("OPENAI_API_KEY",))
NAMED = {"OPENAI_API_KEY": SECRET}


def stored(provider: str, kind: str) -> Files:
    return {AUTH: {provider: {"type": kind, "key": SECRET, "access": SECRET}}}


def configured(**options: str) -> dict[str, Any]:
    return {"provider": {"openai": {"options": options}}}


URL = "https://gate.example/v1"


@pytest.mark.parametrize(
    ("credential", "model", "files", "variables", "words"),
    [
        (FREE, "opencode/big-pickle", {}, {}, None),
        (FREE, "opencode/big-pickle", stored("opencode", "api"), {}, None),
        (FREE, "openrouter/x/y:free", stored("openrouter", "api"), {}, None),
        (PLAN, "zai-coding-plan/glm", stored("zai-coding-plan", "api"), {}, None),
        (PLAN, "anthropic/claude-sonnet-5-5", stored("anthropic", "oauth"), {}, None),
        (PLAN, "anthropic/claude-sonnet-5-5", stored("anthropic", "api"), {}, "metered key"),
        (FREE, "openai/gpt", stored("openai", "api"), {}, "metered key"),
        (FREE, "openai/gpt", stored("openai", "oauth"), {}, "is a plan"),
        (BARE, "openai/gpt", stored("openai", "oauth"), {}, "is a plan"),
        (BARE, "openai/gpt", stored("openai", "api"), {}, None),
        (OPENAI, "openai/gpt", {}, NAMED, None),
        (OPENAI, "openai/gpt", {}, {}, "OPENAI_API_KEY is not set"),
        (OPENAI, "openai/gpt", stored("openai", "api"), NAMED, "instead of OPENAI_API_KEY"),
        (OPENAI, "openai/gpt", stored("groq", "api"), NAMED, None),
        (OPENAI, "openai/gpt", {GLOBAL: configured(baseURL=URL)}, NAMED, "options.baseURL of openai"),
        (OPENAI, "openai/gpt", {GLOBAL: configured(apiKey=SECRET)}, NAMED, "key of its own"),
        (OPENAI, "openai/gpt", {GLOBAL: configured(apiKey="{env:OPENAI_API_KEY}")}, NAMED, None),
        (OPENAI, "groq/llama", {GLOBAL: configured(baseURL=URL)}, NAMED, None),
        (BARE, "openai/gpt", {GLOBAL: {"provider": {"openai": {"api": URL}}}}, {}, "api of openai"),
        (BARE, "openai/gpt", {"home/.opencode/opencode.json": configured(baseURL=URL)}, {}, "baseURL"),
        (BARE, "openai/gpt", {"etc/opencode/opencode.json": configured(baseURL=URL)}, {}, "baseURL"),
        (BARE, "openai/gpt", {"work/opencode.json": configured(baseURL=URL)}, {}, None),  # not read
        (FREE, "opencode/big-pickle", {"work/.env": "OPENCODE_API_KEY=x\n"}, {}, ".env of the project"),
        (FREE, "opencode/big-pickle", {"work/.env": "OPENAI_API_KEY=x\nOPENCODE_COLOR=1\n"}, {}, None),
        (FREE, "google/gemini", {"work/.env": "GEMINI_API_KEY=x\n"}, {}, ".env of the project"),
    ],
)
def test_opencode(
    tmp_path: Path, credential: Credential, model: str, files: Files, variables: dict[str, str], words: str | None
) -> None:
    found = look(tmp_path, credential, files, harness="opencode", model=model, variables=variables)
    if words is None:
        assert found == []
    else:
        assert words in found[0]


@pytest.mark.parametrize("declared", ["https://gate.example", "https://gate.example/v1/", URL])
def test_a_declared_address_may_be_used(tmp_path: Path, declared: str) -> None:
    gate = Credential("gate", Billing.METERED, base_url=declared)
    jsonc = f'{{ // see https://x/\n "provider": {{"openai": {{"options": {{"baseURL": "{URL}",}}}}}} /* ok */ }}'
    files: Files = {"home/.config/opencode/opencode.jsonc": jsonc}
    assert look(tmp_path, gate, files, harness="opencode", model="openai/gpt") == []
    assert "baseURL" in look(tmp_path, BARE, files, harness="opencode", model="openai/gpt")[0]


def test_a_declared_address_that_opencode_does_not_use(tmp_path: Path) -> None:
    gate = Credential("gate", Billing.METERED, base_url=URL)
    assert "opencode has none" in look(tmp_path, gate, {}, harness="opencode", model="openai/gpt")[0]


def test_where_opencode_looks_is_what_its_environment_says(tmp_path: Path) -> None:
    files: Files = {"cfg/opencode/config.json": configured(baseURL="{env:GATE}/v1"), "data/opencode/auth.json": "{}"}
    found = look(
        tmp_path,
        BARE,
        files,
        harness="opencode",
        model="openai/gpt",
        variables={"XDG_CONFIG_HOME": str(tmp_path / "cfg"), "GATE": "https://gate.example"},
    )
    assert "https://gate.example/v1" in found[0]


def test_refusing_names_the_candidate_and_what_to_do(tmp_path: Path) -> None:
    candidate = Candidate("one", "claude", "claude-sonnet-5-5", KEY)
    with pytest.raises(WrongMoney, match="one would not spend what api says: ANTHROPIC_API_KEY is not set") as refused:
        refuse(candidate, {"HOME": str(tmp_path)}, tmp_path)
    assert refused.value.hint
    refuse(Candidate("s", "scripted", "scripted/s1", KEY), {"HOME": str(tmp_path)}, tmp_path)


# --- no login at all ---


def missing(
    root: Path,
    credential: Credential,
    files: Files,
    harness: str = "claude",
    model: str = "claude-sonnet-5-5",
    variables: Mapping[str, str] = NONE,
) -> tuple[str, str] | None:
    look(root, credential, files)  # writes them
    return money.no_login(Candidate("one", harness, model, credential), {"HOME": str(root / "home"), **variables})


@pytest.mark.parametrize(
    ("credential", "files", "variables", "there"),
    [
        (PLAN, {}, {}, False),
        (PLAN, {"home/.claude/.credentials.json": "{}"}, {}, False),
        (PLAN, {"home/.claude/.credentials.json": LOGIN}, {}, True),
        (PLAN, {}, {"CLAUDE_CODE_OAUTH_TOKEN": SECRET}, True),
        (BARE, {}, {}, False),
        (BARE, {"home/.claude.json": {"primaryApiKey": SECRET}}, {}, True),
        (BARE, {SETTINGS: {"apiKeyHelper": "x"}}, {}, True),
        (BARE, {SETTINGS: {"env": {"ANTHROPIC_API_KEY": SECRET}}}, {}, True),
        (KEY, {}, {}, True),  # what it names is asked for elsewhere
    ],
)
def test_a_claude_without_a_login_is_noticed(
    tmp_path: Path, credential: Credential, files: Files, variables: dict[str, str], there: bool
) -> None:
    found = missing(tmp_path, credential, files, variables=variables)
    assert (found is None) is there
    if found is not None:
        assert found == (
            f"claude has no login in {tmp_path}/home/.claude/.credentials.json",
            "start `claude` once, and /login",
        )


def test_a_login_is_looked_for_in_the_config_dir_of_its_credential(tmp_path: Path) -> None:
    own = {"CLAUDE_CONFIG_DIR": str(tmp_path / "own")}
    found = missing(tmp_path, PLAN, {"home/.claude/.credentials.json": LOGIN}, variables=own)
    assert found is not None
    assert f"CLAUDE_CONFIG_DIR={tmp_path}/own claude" in found[1]
    assert missing(tmp_path, PLAN, {"own/.credentials.json": LOGIN}, variables=own) is None


@pytest.mark.parametrize(
    ("credential", "model", "files", "there"),
    [
        (FREE, "opencode/big-pickle", {}, True),
        (BARE, "opencode/gpt", {}, False),
        (BARE, "opencode/gpt", stored("opencode", "api"), True),
        (FREE, "openrouter/x/y:free", {}, False),
        (FREE, "openrouter/x/y:free", stored("openrouter", "api"), True),
        (PLAN, "anthropic/claude-sonnet-5-5", stored("openai", "oauth"), False),
        (BARE, "openai/gpt", {GLOBAL: configured(baseURL=URL)}, True),
        (OPENAI, "openai/gpt", {}, True),  # what it names is asked for elsewhere
    ],
)
def test_an_opencode_without_a_login_is_noticed(
    tmp_path: Path, credential: Credential, model: str, files: Files, there: bool
) -> None:
    found = missing(tmp_path, credential, files, "opencode", model)
    assert (found is None) is there
    if found is not None:
        assert found[0] == f"opencode has no login for {model.split('/')[0]} in {tmp_path}/{AUTH}"
