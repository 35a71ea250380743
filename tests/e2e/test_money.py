"""Whose money a run spends: what never reaches a worker, what is refused before any process, what is seen live."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dispatcher.demo.model_server import ModelServer
from tests.e2e.world import World, marked, real_world, script, scripted_world

EDIT = {"text": "I will set the value.", "shell": "echo 2 > value.txt"}
COMMIT = {"shell": "git add value.txt && git commit -qm 'set the value to 2'"}
DONE = {"text": "The value is 2, committed."}
ENV_FILE = "env.txt"
METERED = {"ANTHROPIC_API_KEY": "sk-metered-key", "ANTHROPIC_AUTH_TOKEN": "metered-token"}
OWN_KEY = "SCRIPTED_API_KEY"  # what opencode's provider `scripted` would be paid with
PLAN_TOKEN = "sk-ant-oat01-invented"
OVERAGE = {
    "anthropic-ratelimit-unified-status": "rejected",
    "anthropic-ratelimit-unified-reset": "4102444800",
    "anthropic-ratelimit-unified-representative-claim": "five_hour",
    "anthropic-ratelimit-unified-overage-status": "allowed",
    "anthropic-ratelimit-unified-overage-in-use": "true",
}


class Purse:
    """A world whose credential and environment a test chooses."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.more: dict[str, str] = {}

    def credential(self, text: str) -> None:
        lines = self.world.config_text().splitlines()
        lines[1] = f"  test: {text}"
        (self.world.home / "models.yaml").write_text("\n".join(lines) + "\n")

    def run(self, *words: str) -> Any:
        return self.world.run("run", *words, env={**self.world.environment, **self.more})

    def file(self, path: str, text: str | dict[str, Any]) -> None:
        where = self.world.user_home / path
        where.parent.mkdir(parents=True, exist_ok=True)
        where.write_text(text if isinstance(text, str) else json.dumps(text))

    @property
    def holds(self) -> list[dict[str, Any]]:
        return self.world.rows("select * from hold where lifted_at is null order by id")


@pytest.fixture
def scripted(tmp_path: Path) -> Iterator[Purse]:
    yield Purse(scripted_world(tmp_path))
    assert marked(str(tmp_path)) == [], "a process was left behind"


@pytest.fixture
def claude(tmp_path: Path) -> Iterator[Purse]:
    with ModelServer() as server:
        yield Purse(real_world(tmp_path, "claude", server))
    assert marked(str(tmp_path)) == [], "a process was left behind"


@pytest.fixture
def opencode(tmp_path: Path) -> Iterator[Purse]:
    with ModelServer() as server:
        yield Purse(real_world(tmp_path, "opencode", server))
    assert marked(str(tmp_path)) == [], "a process was left behind"


def dumped(purse: Purse, task: int) -> dict[str, str]:
    copy = Path(purse.world.task(task)["copy_path"])
    return dict(line.split("=", 1) for line in (copy / ENV_FILE).read_text().splitlines() if "=" in line)


def kept(attempt: dict[str, Any]) -> list[str]:
    """The names that the attempt says were kept from its worker."""
    found = re.search(r"kept from the worker, since credential test does not name it: ([A-Z_, ]+)", attempt["notes"])
    return found[1].split(", ") if found else []


DUMP = script({"steps": [{"shell": f"env > {ENV_FILE}"}, {"commit": {"message": "env", "files": [ENV_FILE]}}]})


# --- the environment ----------------------------------------------------------------------------------------------


def test_metered_keys_never_reach_a_subscription_worker(scripted: Purse) -> None:
    scripted.credential("{billing: subscription}")
    scripted.more = {**METERED, OWN_KEY: "sk-own-key"}
    task = scripted.world.add(scripted.world.brief("env", DUMP))
    assert scripted.run().returncode == 0, scripted.world.story(task)

    seen = dumped(scripted, task)
    assert "PATH" in seen
    assert not set(scripted.more) & set(seen)
    assert not set(scripted.more.values()) & set(seen.values())
    [attempt] = scripted.world.attempts(task)
    assert kept(attempt) == [OWN_KEY], "this worker would not have paid with the others"
    assert "pays with" not in attempt["notes"]
    assert attempt["billed_usd"] == 0, "a plan costs nothing per run"


def test_a_metered_credential_gets_the_key_it_names_and_only_that(scripted: Purse) -> None:
    scripted.credential("{billing: metered, env: [ANTHROPIC_API_KEY]}")
    scripted.more = {**METERED, OWN_KEY: "sk-own-key"}
    task = scripted.world.add(scripted.world.brief("env", DUMP))
    assert scripted.run().returncode == 0, scripted.world.story(task)

    seen = dumped(scripted, task)
    assert seen["ANTHROPIC_API_KEY"] == METERED["ANTHROPIC_API_KEY"]
    assert not {"ANTHROPIC_AUTH_TOKEN", OWN_KEY} & set(seen)
    [attempt] = scripted.world.attempts(task)
    assert kept(attempt) == [OWN_KEY]
    assert "pays with ANTHROPIC_API_KEY (test, metered)" in attempt["notes"]
    assert (attempt["credential"], attempt["billing"]) == ("test", "metered")
    assert not any(value in json.dumps(attempt) for value in scripted.more.values())


@pytest.mark.real_cli
def test_claude_on_a_subscription_never_sees_the_keys(claude: Purse) -> None:
    """The real claude prefers a key over a login: the server must see the token of the plan and nothing else."""
    claude.credential(f"{{billing: subscription, env: [CLAUDE_CODE_OAUTH_TOKEN], base_url: '{url(claude)}'}}")
    claude.more = {**METERED, "CLAUDE_CODE_OAUTH_TOKEN": PLAN_TOKEN}
    claude.world.script(0, [EDIT, COMMIT, DONE])
    task = claude.world.add(claude.world.brief("plan", "Make value.txt hold 2."))
    assert claude.run().returncode == 0, claude.world.story(task)

    sent = [request.headers for request in claude.world.prompts(0)]
    assert sent
    assert all(headers.get("authorization") == f"Bearer {PLAN_TOKEN}" for headers in sent)
    assert not any("x-api-key" in headers for headers in sent)
    [attempt] = claude.world.attempts(task)
    assert attempt["outcome"] == "completed"
    assert (attempt["billed_usd"], attempt["cost_usd"] > 0) == (0, True)
    assert "pays with CLAUDE_CODE_OAUTH_TOKEN (test, subscription)" in attempt["notes"]
    assert kept(attempt) == ["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"]


@pytest.mark.real_cli
def test_claude_on_a_key_spends_that_key(claude: Purse) -> None:
    """Although a login of a plan is stored, too."""
    claude.file(".claude/.credentials.json", stored_plan())
    claude.more = METERED
    claude.world.script(0, [EDIT, COMMIT, DONE])
    task = claude.world.add(claude.world.brief("key", "Make value.txt hold 2."))
    assert claude.run().returncode == 0, claude.world.story(task)

    assert {request.headers.get("x-api-key") for request in claude.world.prompts(0)} == {METERED["ANTHROPIC_API_KEY"]}
    assert not any("authorization" in request.headers for request in claude.world.prompts(0))
    [attempt] = claude.world.attempts(task)
    assert attempt["billed_usd"] == attempt["cost_usd"] > 0
    assert "pays with ANTHROPIC_API_KEY (test, metered)" in attempt["notes"]
    assert kept(attempt) == ["ANTHROPIC_AUTH_TOKEN"]


@pytest.mark.real_cli
def test_opencode_never_sees_a_key_of_its_provider_that_nobody_named(opencode: Purse) -> None:
    opencode.more = {**METERED, OWN_KEY: "sk-own-key"}
    both = {"shell": f"git add value.txt {ENV_FILE} && git commit -qm 'set the value to 2'"}
    opencode.world.script(0, [{"shell": f"env > {ENV_FILE}"}, EDIT, both, DONE])
    task = opencode.world.add(opencode.world.brief("free", "Make value.txt hold 2."))
    assert opencode.run().returncode == 0, opencode.world.story(task)

    seen = dumped(opencode, task)
    assert not set(opencode.more) & set(seen)
    assert not set(opencode.more.values()) & set(seen.values())
    [attempt] = opencode.world.attempts(task)
    assert kept(attempt) == [OWN_KEY]
    assert (attempt["credential"], attempt["billing"], attempt["billed_usd"]) == ("test", "free", 0)


# --- refused before any process starts ----------------------------------------------------------------------------


SETTINGS = ".claude/settings.json"


@pytest.mark.real_cli
@pytest.mark.parametrize(
    ("path", "content", "words"),
    [
        (SETTINGS, {"apiKeyHelper": "touch helper-ran; echo sk-helper"}, "apiKeyHelper"),
        (SETTINGS, {"env": {"ANTHROPIC_API_KEY": "sk-other"}}, "ANTHROPIC_API_KEY"),
        (SETTINGS, {"env": {"CLAUDE_CODE_USE_BEDROCK": "1"}}, "CLAUDE_CODE_USE_BEDROCK"),
        (SETTINGS, {"env": {"CLAUDE_CODE_USE_VERTEX": "1"}}, "CLAUDE_CODE_USE_VERTEX"),
        (SETTINGS, {"env": {"CLAUDE_CODE_USE_FOUNDRY": "1"}}, "CLAUDE_CODE_USE_FOUNDRY"),
        (SETTINGS, {"env": {"ANTHROPIC_BASE_URL": "http://127.0.0.1:9/other"}}, "ANTHROPIC_BASE_URL"),
        (".claude.json", {"env": {"ANTHROPIC_AUTH_TOKEN": "other"}}, "ANTHROPIC_AUTH_TOKEN"),
        ("../repo/.env", "ANTHROPIC_AUTH_TOKEN=other\n", ".env of the project"),
    ],
)
def test_claude_is_refused(claude: Purse, path: str, content: str | dict[str, Any], words: str) -> None:
    claude.file(path, content)
    if path.startswith("../repo"):
        claude.world.git("add", "-A")
        claude.world.git("commit", "-qm", "a key in the project")
    task = claude.world.add(claude.world.brief("wrong", "Make value.txt hold 2."))
    assert claude.run().returncode == 1

    row = claude.world.task(task)
    assert row["status"] == "waiting", claude.world.story(task)
    assert words in row["status_reason"]
    assert claude.world.attempts(task) == [], "nothing was started"
    assert claude.world.server is not None
    assert claude.world.server.requests == []
    held = claude.holds
    assert [hold["key"] for hold in held] == ["first", "second", "third"]
    assert all(hold["until"] is None for hold in held)
    assert all(f"dispatcher release {hold['key']}" in hold["reason"] for hold in held)
    assert "sk-" not in json.dumps(held), "names only"


@pytest.mark.real_cli
def test_a_subscription_whose_stored_login_is_a_key_is_refused(claude: Purse) -> None:
    claude.credential(f"{{billing: subscription, base_url: '{url(claude)}'}}")
    claude.file(".claude.json", {"primaryApiKey": "sk-console"})
    task = claude.world.add(claude.world.brief("wrong", "Make value.txt hold 2."))
    assert claude.run().returncode == 1
    assert "primaryApiKey" in claude.world.task(task)["status_reason"]
    assert claude.world.attempts(task) == []


@pytest.mark.real_cli
def test_opencode_at_an_address_that_nobody_declared_is_refused(opencode: Purse) -> None:
    opencode.credential("{billing: free}")
    task = opencode.world.add(opencode.world.brief("wrong", "Make value.txt hold 2."))
    assert opencode.run().returncode == 1
    assert "options.baseURL of scripted" in opencode.world.task(task)["status_reason"]
    assert opencode.world.attempts(task) == []
    assert opencode.world.server is not None
    assert opencode.world.server.requests == []


def test_one_wrong_candidate_does_not_stop_the_others(scripted: Purse) -> None:
    """A problem of one candidate's configuration: it is held, the next one does the work."""
    world = scripted.world
    text = world.config_text().replace(
        "first: {harness: scripted, model: scripted/s1", "first: {harness: claude, model: claude-sonnet-4-5"
    )
    text = text.replace("routes:", "harnesses: {claude: {path: /bin/true, allow_untested: true}}\nroutes:")
    (world.home / "models.yaml").write_text(text)
    scripted.file(SETTINGS, {"apiKeyHelper": "echo sk-helper"})
    task = world.add(
        world.brief("next", script({"steps": [{"write": {"path": "a", "content": "a"}}, {"commit": "a"}]}))
    )
    assert scripted.run().returncode == 0, world.story(task)

    assert [attempt["candidate"] for attempt in world.attempts(task)] == ["second"]
    assert [hold["key"] for hold in scripted.holds] == ["first"]
    world.run("release", "first", check=True)
    assert scripted.holds == []


# --- seen while it runs -------------------------------------------------------------------------------------------


def plan_world(claude: Purse, more: str = "") -> None:
    claude.credential(f"{{billing: subscription, env: [CLAUDE_CODE_OAUTH_TOKEN], base_url: '{url(claude)}'{more}}}")
    claude.more = {"CLAUDE_CODE_OAUTH_TOKEN": PLAN_TOKEN}


@pytest.mark.real_cli
def test_overage_that_the_credential_does_not_allow_ends_the_run(claude: Purse) -> None:
    """The plan is used up in the middle of the work: ended at once, work kept, the credential held until a person."""
    plan_world(claude)
    nap = {"shell": "true && sleep 60", "headers": OVERAGE}
    claude.world.script(0, [EDIT, nap, DONE])
    task = claude.world.add(claude.world.brief("over", "Make value.txt hold 2."))
    assert claude.run().returncode == 1

    [attempt] = claude.world.attempts(task)
    assert (attempt["outcome"], attempt["end_reason"]) == ("billing_mismatch", "mismatch"), claude.world.story(task)
    assert "isUsingOverage" in attempt["outcome_reason"]
    assert attempt["survivors"] == 0
    assert attempt["billed_usd"] is None, "nobody knows what it cost"
    assert attempt["counted"] == 0
    kept = claude.world.git("show", f"{attempt['snapshot_ref']}:value.txt")
    assert kept == "2", "the work is kept"
    [held] = claude.holds
    assert (held["scope"], held["key"], held["until"]) == ("credential", "test", None)
    assert "already charged" in held["reason"]
    assert "dispatcher release test" in held["reason"]
    assert claude.world.task(task)["status"] == "waiting"


@pytest.mark.real_cli
def test_overage_that_the_credential_allows_is_only_noted(claude: Purse) -> None:
    plan_world(claude, ", overage: true")
    claude.world.script(0, [{**EDIT, "headers": OVERAGE}, COMMIT, DONE])
    task = claude.world.add(claude.world.brief("over", "Make value.txt hold 2."))
    assert claude.run().returncode == 0

    [attempt] = claude.world.attempts(task)
    assert attempt["outcome"] == "completed", claude.world.story(task)
    assert "paid beyond the plan" in attempt["notes"]
    assert attempt["billed_usd"] is None
    assert claude.holds == []


@pytest.mark.real_cli
def test_overage_in_the_last_answer_is_seen_after_the_end(claude: Purse) -> None:
    """Nobody could end it any more: the work counts, and the credential is held all the same."""
    plan_world(claude)
    claude.world.script(0, [{"shell": f"{EDIT['shell']} && {COMMIT['shell']}"}, {**DONE, "headers": OVERAGE}])
    task = claude.world.add(claude.world.brief("over", "Make value.txt hold 2."))
    claude.run()

    [attempt] = claude.world.attempts(task)
    assert attempt["outcome"] in ("completed", "billing_mismatch"), claude.world.story(task)
    assert [(hold["key"], hold["until"]) for hold in claude.holds] == [("test", None)]
    assert attempt["billed_usd"] is None


@pytest.mark.real_cli
def test_a_resumed_run_is_priced_for_itself(claude: Purse) -> None:
    """claude's total goes on over a resumed session; the second attempt must not pay for the first again."""
    broken = {"error": {"status": 400, "message": "something broke"}, "repeat": True}
    claude.world.script(0, [{"when": "Prompt: finish", "steps": [COMMIT, DONE]}, EDIT, broken])
    task = claude.world.do(claude.world.brief("late", "Make value.txt hold 2."))

    first, second = claude.world.attempts(task)
    assert first["session_id"] == second["session_id"]
    # One answer, then two: the server reports the same tokens for each.
    assert second["tokens_input"] == 2 * first["tokens_input"]
    assert second["cost_usd"] == pytest.approx(2 * first["cost_usd"])


@pytest.mark.real_cli
def test_a_killed_run_has_no_price(claude: Purse) -> None:
    """Its result was never written: unknown is not 0."""
    claude.world.limits = {"hard_cap": "6s"}
    claude.world.write_config()
    claude.world.script(
        0, [{"when": "Prompt: finish", "steps": [COMMIT, DONE]}, EDIT, {"shell": "true && sleep 60"}, DONE]
    )
    task = claude.world.do(claude.world.brief("slow", "Make value.txt hold 2."))

    first, second = claude.world.attempts(task)
    assert (first["outcome"], first["cost_usd"], first["billed_usd"]) == ("timed_out", None, None)
    assert first["tokens_input"] > 0
    assert second["cost_usd"] == pytest.approx(second["billed_usd"])
    shown = json.loads(claude.world.run("quota", "--json").stdout)
    [line] = [row for row in shown["used"] if row["window"] == "day"]
    assert line["unpriced"] == 1


# --- holds and budgets --------------------------------------------------------------------------------------------


def test_failures_in_a_row_hold_a_candidate_until_a_person(scripted: Purse) -> None:
    world = scripted.world
    world.limits = {"failures_in_a_row": 2}
    world.write_config()
    good = [{"write": {"path": "a", "content": "a"}}, {"commit": "a"}]
    body = script({"model": "scripted/s1", "steps": [{"exit": 3}]}, {"steps": good})
    for name in ("one", "two", "three"):
        world.add(world.brief(name, f"Do {name}.\n\n{body}"))
    assert scripted.run("-j", "1").returncode == 0

    [held] = scripted.holds
    assert (held["scope"], held["key"], held["until"]) == ("candidate", "first", None)
    assert "2 failures in a row" in held["reason"]
    tried = [row["candidate"] for row in world.rows("select candidate from attempt order by id")]
    assert tried == ["first", "second", "first", "second", "second"]

    world.run("release", "first", check=True)  # one more failure is the first one again
    world.add(world.brief("four", f"Do four.\n\n{body}"))
    assert scripted.run().returncode == 0
    assert scripted.holds == []


def test_no_network_at_all_punishes_nobody(scripted: Purse) -> None:
    """Every candidate fails on the network: the host is offline. No hold, no counter, and another task waits too."""
    world = scripted.world
    world.limits = {"backoffs": 0}
    world.write_config()
    dead = {"error": {"name": "UnknownError", "message": "getaddrinfo ENOTFOUND api.example.org"}}
    first = world.add(world.brief("one", script({"steps": [dead]})))
    second = world.add(world.brief("two", script({"steps": []})))
    ran = scripted.run("-j", "1")
    assert ran.returncode == 75, (ran.stderr, world.story(first))

    row, attempts = world.task(first), world.attempts(first)
    assert [attempt["outcome"] for attempt in attempts] == ["network"] * 3
    assert row["status"] == "waiting"
    assert "offline" in row["status_reason"]
    assert row["not_before"] > attempts[-1]["ended_at"]
    assert json.loads(row["counters"])["attempts"] == 0
    assert scripted.holds == []
    assert (world.task(second)["status"], world.attempts(second)) == ("waiting", [])


def test_a_used_up_budget_refuses_at_dispatch_and_quota_tells(scripted: Purse) -> None:
    world = scripted.world
    scripted.credential("{billing: metered, budget: {attempts: {day: 1}, usd: {month: 10}}}")
    body = script({"steps": [{"write": {"path": "a", "content": "a"}}, {"commit": "a"}]})
    world.add(world.brief("one", body))
    second = world.add(world.brief("two", f"Do two.\n\n{body}"))
    assert scripted.run("-j", "1").returncode == 75

    assert world.attempts(second) == []
    assert world.task(second)["status"] == "waiting"
    assert "budget" in world.task(second)["status_reason"]
    shown = json.loads(world.run("quota", "--json", check=True).stdout)
    lines = {(row["measure"], row["window"]): row for row in shown["budgets"]}
    assert lines["attempts", "day"]["used"] == 1
    assert lines["attempts", "day"]["share_used"] == 1
    assert lines["attempts", "day"]["runs_out"] is not None
    assert lines["usd", "month"]["limit"] == 10
    text = world.run("quota", check=True).stdout
    assert "used up" in text


def test_the_budget_of_a_task_ends_in_front_of_a_person(scripted: Purse) -> None:
    world = scripted.world
    body = script({"steps": [{"exit": 3}]})
    task = world.do(world.brief("one", body, budget={"attempts": {"total": 1}}), expect_exit=1)
    assert len(world.attempts(task)) == 1
    assert "budget of the task used up: 1 attempt of 1 attempt" in world.task(task)["status_reason"]


def url(purse: Purse) -> str:
    assert purse.world.server is not None
    return purse.world.server.url


def stored_plan() -> dict[str, Any]:
    login = {
        "accessToken": "stored-oauth",
        "refreshToken": "r",
        "expiresAt": 4102444800000,
        "scopes": ["user:inference"],
    }
    return {"claudeAiOauth": {**login, "subscriptionType": "max"}}


def test_the_same_limit_twice_in_a_day_is_parked_until_the_next(scripted: Purse) -> None:
    """Released too early, it is back at once: no third try today. The clock of the hold is UTC."""
    world = scripted.world
    limited = {"error": {"status": 429, "message": "Subscription quota exceeded."}}
    body = script({"model": "scripted/s[12]", "steps": [limited]}, {"steps": [{"text": "Done."}]})
    text = world.config_text().replace("[first, second, third]", "[first]")
    (world.home / "models.yaml").write_text(text)
    world.add(world.brief("one", body, expect="report"))
    assert scripted.run().returncode == 75
    [first] = scripted.holds
    assert (first["scope"], first["key"]) == ("credential", "test")
    assert first["until"] - first["created_at"] == pytest.approx(3600, abs=5), "a guess"

    released = json.loads(world.run("release", "test", "--json", check=True).stdout)
    assert [hold["id"] for hold in released] == [first["id"]]
    assert scripted.run().returncode == 75
    [second] = scripted.holds
    midnight = (second["created_at"] // 86400 + 1) * 86400
    assert second["until"] == pytest.approx(max(midnight, second["created_at"] + 3600), abs=5)
    assert "until the next day" in second["reason"]
    assert json.loads(world.run("holds", "--json", check=True).stdout)[0]["until"] == second["until"]


def test_a_bill_for_third_party_use_holds_the_credential(scripted: Purse) -> None:
    """The provider says by text alone that the plan does not pay for this."""
    text = "Third-party apps now draw from extra usage, not your plan limits."
    body = script({"steps": [{"error": {"status": 400, "message": text}}]})
    task = scripted.world.do(scripted.world.brief("one", body), expect_exit=1)

    [attempt] = scripted.world.attempts(task)
    assert (attempt["outcome"], attempt["billed_usd"]) == ("billing_mismatch", None)
    [held] = scripted.holds
    assert (held["key"], held["until"]) == ("test", None)
    assert "dispatcher release test" in scripted.world.task(task)["status_reason"]


def test_hold_speaks_json(scripted: Purse) -> None:
    world = scripted.world
    world.add(world.brief("one", script({"steps": []})))
    made = json.loads(world.run("hold", "test/scripted/s1", "--for", "2h", "--json", check=True).stdout)
    assert (made["scope"], made["key"]) == ("model", "test/scripted/s1")
    assert made["until"] - made["created_at"] == pytest.approx(7200)
    assert world.run("hold", "nothing-of-that-name", "--json").returncode == 2
