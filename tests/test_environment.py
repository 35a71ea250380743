"""The worker's environment: what gets through, what never does, and that no value is ever told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatcher.environment import MARKER, WorkerEnvironment, build, is_money, why_not_passed
from dispatcher.errors import BadInput
from dispatcher.runner.attempt import who_pays, withheld
from dispatcher.task import Billing, Candidate, Credential

CRON = {"HOME": "/home/ann", "LOGNAME": "ann", "PATH": "/usr/bin:/bin", "SHELL": "/bin/sh", "PWD": "/home/ann"}
PLAN = Credential("plan", Billing.SUBSCRIPTION)
API = Credential("api", Billing.METERED, env=("ANTHROPIC_API_KEY",))
FREE = Credential("zen", Billing.FREE)


def worker(
    environ: Mapping[str, str],
    *,
    passed: Sequence[str] = (),
    credential: Credential = PLAN,
    harness: str = "claude",
    extra: Mapping[str, str] | None = None,
    programs: Sequence[str] = (),
) -> WorkerEnvironment:
    return build(
        {"HOME": "/home/ann", **environ},
        passed=passed,
        credential=credential,
        harness=harness,
        marker="m1",
        extra=extra or {},
        programs=programs,
    )


@pytest.mark.parametrize(
    "name",
    [
        "USER",
        "LOGNAME",
        "SHELL",
        "TZ",
        "TMPDIR",
        "LANG",
        "LC_ALL",
        "LC_TIME",
        "XDG_CONFIG_HOME",
        "XDG_RUNTIME_DIR",
        "http_proxy",
        "HTTPS_PROXY",
        "no_proxy",
        "SSL_CERT_FILE",
        "NODE_EXTRA_CA_CERTS",
        "GIT_AUTHOR_NAME",
        "GIT_COMMITTER_EMAIL",
        "GIT_SSL_CAINFO",
    ],
)  # fmt: skip
def test_passed_without_asking(name: str) -> None:
    assert worker({name: "/x"}).variables[name] == "/x"


# What must not get through by itself, and not by `environment.pass` either.
MONEY = [
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "ANTHROPIC_BASE_URL",
    "ANTHROPIC_CUSTOM_HEADERS",
    "ANTHROPIC_MODEL",
    "OPENAI_API_KEY",
    "OPENAI_BASE_URL",
    "OPENROUTER_API_KEY",
    "OPENCODE_API_KEY",
    "GEMINI_API_KEY",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "CLAUDE_CODE_USE_BEDROCK",
    "CLAUDE_CODE_USE_VERTEX",
    "CLAUDE_CODE_USE_FOUNDRY",
    "AWS_ACCESS_KEY_ID",
    "AWS_PROFILE",
    "AWS_BEARER_TOKEN_BEDROCK",
    "AZURE_API_KEY",
    "CLOUDFLARE_API_TOKEN",
    "WATSONX_AI_APIKEY",
    "ZENIFRA_AI_KEY",
    "HF_TOKEN",
    "ZENMUX_API_KEY",
    "ANTHROPIC_FOUNDRY_RESOURCE",
    "OPENCODE_AUTH_CONTENT",
    "CLAUDE_CODE_API_KEY_FILE_DESCRIPTOR",
]
MARKERS = [
    "CLAUDECODE",
    "CLAUDE_CODE_ENTRYPOINT",
    "CLAUDE_CODE_SSE_PORT",
    "OPENCODE",
    "OPENCODE_PID",
    "OPENCODE_CONFIG_CONTENT",
    "AGENT",
    "DISPATCHER_HOME",
    "DISPATCHER_BRIDGE",
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_CONFIG_COUNT",
    "GIT_CONFIG_KEY_0",
    "GIT_CONFIG_PARAMETERS",
    "GIT_TRACE2_EVENT",
    "GIT_EXEC_PATH",
]
UNASKED = [
    "TERM",
    "SSH_AUTH_SOCK",
    "GH_TOKEN",
    "GITHUB_TOKEN",
    "NPM_TOKEN",
    "JAVA_HOME",
    "PYTHONPATH",
    "LD_PRELOAD",
    "NODE_OPTIONS",
    "BASH_ENV",
    "GIT_SSH",
    "GIT_AUTHOR_DATE",
    "GIT_EDITOR",
    "DISPLAY",
    "CODEX_SANDBOX",
    "CURSOR_AGENT",
    "OPENCODE_CONFIG",
    "PWD",
]


@pytest.mark.parametrize("name", MONEY + MARKERS)
@pytest.mark.parametrize("passed", [False, True])
def test_never_given(name: str, passed: bool) -> None:
    built = worker({name: "value-7"}, passed=[name] if passed else [])
    assert "value-7" not in built.variables.values()
    assert why_not_passed(name) is not None


@pytest.mark.parametrize("name", UNASKED)
def test_given_only_when_passed(name: str) -> None:
    assert "value-7" not in worker({name: "value-7"}).variables.values()
    assert worker({name: "value-7"}, passed=[name]).variables[name] == "value-7"


@pytest.mark.parametrize("name", MONEY)
def test_money_is_kept_and_its_credential_gets_it(name: str) -> None:
    assert is_money(name)
    held = worker({name: "value-7"})
    assert held.stripped == (name,)
    paying = worker({name: "value-7"}, credential=Credential("own", Billing.METERED, env=(name,)))
    assert paying.variables[name] == "value-7"
    assert (paying.stripped, paying.missing) == ((), ())


def test_only_keys_that_this_worker_would_pay_with_are_noted() -> None:
    keys = {"ANTHROPIC_API_KEY": "a", "OPENAI_API_KEY": "b", "OPENCODE_API_KEY": "c", "AWS_CA_BUNDLE": "/ca.pem"}
    zen = Credential("zen", Billing.FREE)
    notes = {}
    for harness, model in (("claude", "claude-sonnet-4-5"), ("opencode", "opencode/big-pickle")):
        built = worker(keys, credential=zen, harness=harness)
        assert built.variables["AWS_CA_BUNDLE"] == "/ca.pem"
        notes[harness] = withheld(Candidate("one", harness, model, zen), built)
    why = "kept from the worker, since credential zen does not name it:"
    assert notes == {"claude": (f"{why} ANTHROPIC_API_KEY",), "opencode": (f"{why} OPENCODE_API_KEY",)}


@pytest.mark.parametrize(
    ("model", "names"),
    [
        ("anthropic/claude-sonnet-4-5", [name for name in MONEY if name.startswith("ANTHROPIC_")]),
        ("openai/gpt-5", ["OPENAI_API_KEY", "OPENAI_BASE_URL"]),
        ("openrouter/qwen/qwen3", ["OPENROUTER_API_KEY"]),
        ("opencode/big-pickle", ["OPENCODE_API_KEY"]),
        ("opencode-go/kimi", ["OPENCODE_API_KEY"]),
        ("google/gemini", ["GEMINI_API_KEY", "GOOGLE_APPLICATION_CREDENTIALS"]),
        ("google-vertex/gemini", ["GOOGLE_APPLICATION_CREDENTIALS"]),
        ("amazon-bedrock/nova", ["AWS_ACCESS_KEY_ID", "AWS_PROFILE", "AWS_BEARER_TOKEN_BEDROCK"]),
        ("azure/gpt-5", ["AZURE_API_KEY"]),
        ("cloudflare-ai-gateway/llama", ["CLOUDFLARE_API_TOKEN"]),
        ("huggingface/qwen3", ["HF_TOKEN"]),
        ("moonshotai/kimi", ["MOONSHOT_API_KEY"]),
        ("togetherai/llama", ["TOGETHER_API_KEY"]),
        ("vercel/any", ["AI_GATEWAY_API_KEY"]),
        ("ai-router/any", ["AI_ROUTER_API_KEY"]),
        ("zai/glm", ["ZHIPU_API_KEY"]),
    ],
)
def test_each_key_that_a_model_of_opencode_would_be_paid_with_is_noted(model: str, names: list[str]) -> None:
    """And no other one: all keys of the machine are set."""
    every = {*MONEY, "MOONSHOT_API_KEY", "TOGETHER_API_KEY", "AI_GATEWAY_API_KEY", "AI_ROUTER_API_KEY", "ZHIPU_API_KEY"}
    built = worker(dict.fromkeys(every, "value-7"), credential=FREE, harness="opencode")
    [note] = withheld(Candidate("one", "opencode", model, FREE), built)
    why, _, noted = note.partition(": ")
    assert why == "kept from the worker, since credential zen does not name it"
    assert noted.split(", ") == sorted([*names, "OPENCODE_AUTH_CONTENT"])


def test_each_key_that_claude_would_pay_with_is_noted_and_the_one_that_pays_is_named() -> None:
    built = worker(dict.fromkeys(MONEY, "value-7"), credential=API)
    candidate = Candidate("one", "claude", "claude-sonnet-4-5", API)
    assert who_pays(candidate, built) == ("pays with ANTHROPIC_API_KEY (api, metered)",)
    [note] = withheld(candidate, built)
    assert note.partition(": ")[2].split(", ") == [
        "ANTHROPIC_AUTH_TOKEN",
        "ANTHROPIC_BASE_URL",
        "ANTHROPIC_CUSTOM_HEADERS",
        "CLAUDE_CODE_USE_BEDROCK",
        "CLAUDE_CODE_USE_FOUNDRY",
        "CLAUDE_CODE_USE_VERTEX",
    ]
    assert who_pays(candidate, worker({})) == (), "nothing that is set carries the credential"


def test_one_key_of_two() -> None:
    built = worker({"ANTHROPIC_API_KEY": "a", "ANTHROPIC_AUTH_TOKEN": "b"}, credential=API)
    assert built.variables["ANTHROPIC_API_KEY"] == "a"
    assert built.stripped == ("ANTHROPIC_AUTH_TOKEN",)


def test_a_key_that_is_not_set_is_missing() -> None:
    for environ in ({}, {"ANTHROPIC_API_KEY": ""}):
        built = worker(environ, credential=API)
        assert built.missing == ("ANTHROPIC_API_KEY",)
        assert built.notes == ("named by credential api but not set: ANTHROPIC_API_KEY",)


@pytest.mark.parametrize(
    ("credential", "harness", "token", "folder"),
    [
        (PLAN, "claude", True, True),
        (API, "claude", False, True),  # a run that spends a key must not fall back to the plan
        (PLAN, "opencode", False, False),
        (FREE, "opencode", False, False),
        (Credential("own", Billing.SUBSCRIPTION, env=("CLAUDE_CODE_OAUTH_TOKEN",)), "claude", True, True),
    ],
)
def test_the_login_of_claude(credential: Credential, harness: str, token: bool, folder: bool) -> None:
    environ = {"CLAUDE_CODE_OAUTH_TOKEN": "t", "CLAUDE_CONFIG_DIR": "/c", "ANTHROPIC_API_KEY": "k"}
    built = worker(environ, credential=credential, harness=harness)
    assert ("CLAUDE_CODE_OAUTH_TOKEN" in built.variables) is token
    assert ("CLAUDE_CODE_OAUTH_TOKEN" in built.stripped) is not token
    assert ("CLAUDE_CONFIG_DIR" in built.variables) is folder


def test_what_the_credential_declares_wins() -> None:
    own = Credential("own", Billing.SUBSCRIPTION, base_url="http://127.0.0.1:1", config_dir="/work")
    environ = {"ANTHROPIC_BASE_URL": "http://elsewhere", "CLAUDE_CONFIG_DIR": "/home/ann/.claude"}
    built = worker(environ, credential=own)
    assert built.variables["ANTHROPIC_BASE_URL"] == "http://127.0.0.1:1"
    assert built.variables["CLAUDE_CONFIG_DIR"] == "/work"
    assert built.stripped == ()
    assert "ANTHROPIC_BASE_URL" not in worker(environ, credential=own, harness="opencode").variables


def test_cron_gets_what_a_login_shell_has() -> None:
    built = build(
        CRON,
        passed=(),
        credential=FREE,
        harness="opencode",
        marker="m1",
        extra={},
        programs=["/home/ann/.nvm/versions/node/v22.1.0/bin/opencode"],
    )
    assert built.variables == {
        "HOME": "/home/ann",
        "LOGNAME": "ann",
        "USER": "ann",
        "SHELL": "/bin/sh",
        "PATH": "/home/ann/.nvm/versions/node/v22.1.0/bin:/home/ann/.local/bin:/usr/bin:/bin",
        "LANG": "C.UTF-8",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ASKPASS": "",
        "GIT_SSH_COMMAND": "ssh -oBatchMode=yes",
        "SSH_ASKPASS_REQUIRE": "never",
        MARKER: "m1",
    }
    assert (built.stripped, built.notes) == ((), ())


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, {"LANG": "C.UTF-8"}),
        ({"LANG": "C"}, {"LANG": "C.UTF-8"}),
        ({"LANG": "POSIX", "LC_ALL": "C"}, {"LANG": "C.UTF-8"}),
        ({"LANG": "de_DE.UTF-8"}, {"LANG": "de_DE.UTF-8"}),
        ({"LC_ALL": "de_DE.UTF-8"}, {"LANG": "C.UTF-8", "LC_ALL": "de_DE.UTF-8"}),
        ({"LC_CTYPE": "UTF-8"}, {"LC_CTYPE": "UTF-8"}),
        ({"LANG": "en_US.UTF-8", "LC_TIME": "C"}, {"LANG": "en_US.UTF-8", "LC_TIME": "C"}),
    ],
)
def test_locale(given: Mapping[str, str], expected: Mapping[str, str]) -> None:
    found = {name: value for name, value in worker(given).variables.items() if name.startswith(("LANG", "LC_"))}
    assert found == expected


@pytest.mark.parametrize(
    ("path", "programs", "expected", "noted"),
    [
        ("/usr/bin", [], "/home/ann/.local/bin:/usr/bin", False),
        ("/home/ann/.local/bin:/usr/bin", [], "/home/ann/.local/bin:/usr/bin", False),
        ("/usr/bin", ["/usr/bin/claude"], "/home/ann/.local/bin:/usr/bin", False),
        ("/usr/bin", ["/opt/a/claude"], "/opt/a:/home/ann/.local/bin:/usr/bin", False),
        ("/usr/bin::.:bin", ["claude"], "/home/ann/.local/bin:/usr/bin", True),
        ("", [], "/home/ann/.local/bin:/usr/local/bin:/usr/bin:/bin", False),
    ],
)
def test_path(path: str, programs: Sequence[str], expected: str, noted: bool) -> None:
    built = worker({"PATH": path}, programs=programs)
    assert built.variables["PATH"] == expected
    assert any("PATH" in note for note in built.notes) is noted


def test_what_the_harness_adds_wins_but_the_marker_is_ours() -> None:
    built = worker(
        {"TMPDIR": "/tmp", MARKER: "outer"},
        extra={"TMPDIR": "/attempt/tmp", "OPENCODE_CONFIG_CONTENT": "{}", MARKER: "forged", "GIT_TRACE2_EVENT": "/t"},
    )
    assert built.variables["TMPDIR"] == "/attempt/tmp"
    assert built.variables["OPENCODE_CONFIG_CONTENT"] == "{}"
    assert built.variables["GIT_TRACE2_EVENT"] == "/t"
    assert built.variables[MARKER] == "m1"


def test_an_ssh_command_that_is_passed_is_kept() -> None:
    built = worker({"GIT_SSH_COMMAND": "ssh -i /key"}, passed=["GIT_SSH_COMMAND"])
    assert built.variables["GIT_SSH_COMMAND"] == "ssh -i /key"


@pytest.mark.parametrize("environ", [{}, {"HOME": ""}])
def test_without_home(environ: Mapping[str, str]) -> None:
    with pytest.raises(BadInput, match="HOME is not set") as caught:
        build(environ, passed=(), credential=PLAN, harness="claude", marker="m", extra={})
    assert "crontab" in (caught.value.hint or "")
    built = build(environ, passed=(), credential=PLAN, harness="claude", marker="m", extra={"HOME": "/box"})
    assert built.variables["HOME"] == "/box"  # a sandbox gives its own


NAMES = st.sampled_from([*MONEY, *MARKERS, *UNASKED, "PATH", "LANG", "XDG_DATA_HOME", "GIT_AUTHOR_NAME"])


@given(
    st.sets(NAMES), st.sets(NAMES), st.sets(st.sampled_from(MONEY), max_size=2), st.sampled_from(["claude", "opencode"])
)
def test_no_value_is_told_and_no_money_leaks(given_: set[str], passed: set[str], own: set[str], harness: str) -> None:
    environ = {name: f"secret-{name}" for name in given_}
    credential = Credential("c", Billing.METERED, env=tuple(sorted(own)))
    built = worker(environ, passed=sorted(passed), credential=credential, harness=harness)
    assert "secret-" not in repr(built)
    assert {name for name in built.variables if is_money(name)} == own & given_
    assert set(built.stripped) == {name for name in given_ if is_money(name)} - own
