"""A models.yaml that is right: everything in it arrives typed."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from dispatcher.config import build, initial, places
from dispatcher.task import Billing, CopyMode, Deliver, Difficulty, Expect, Limits, Tools
from tests.config.samples import EXAMPLE, LEAST, load_text


def test_the_documented_example_arrives_whole(tmp_path: Path) -> None:
    config = load_text(tmp_path, EXAMPLE)
    assert list(config.roster.candidates) == ["pickle", "nemotron", "sonnet", "opus"]
    assert config.roster.candidates["pickle"].per_day == 30
    assert config.roster.candidates["opus"].credential is config.credentials["max-plan"]
    assert config.credentials["api"].billing is Billing.METERED
    assert config.credentials["api"].env == ("ANTHROPIC_API_KEY",)
    assert config.credentials["api"].budget.usd == {"day": 5.0}
    assert config.credentials["max-plan"].budget.tokens == {"month": 40_000_000}
    assert config.roster.routes[Difficulty.HARD].candidates == ("opus", "sonnet")
    assert [(rule.is_, rule.line) for rule in config.difficulty_rules] == [
        (Difficulty.TRIVIAL, 16),
        (Difficulty.HARD, 17),
    ]
    assert config.limits == Limits()  # the example spells the defaults out
    assert config.environment_pass == ("JAVA_HOME", "SSH_AUTH_SOCK")
    assert config.rules == ("Work only in this folder; never copy the repository elsewhere.",)
    assert config.warnings == ()
    shop = config.repository(tmp_path / "person/src/shop")
    assert (shop.setup, shop.verify, shop.tools) == (("npm ci",), ("npm test",), Tools.EDIT)
    assert shop.credentials == ("max-plan", "api")


def test_every_further_key(tmp_path: Path) -> None:
    config = load_text(
        tmp_path,
        """\
credentials:
  work: {billing: subscription, overage: true, config_dir: ~/.claude-work, base_url: "http://127.0.0.1:9/"}
candidates:
  floating: {harness: claude, model: sonnet, credential: work, floating: true, tools: read, sandbox: box}
  long: {harness: claude, model: "claude-opus-5-5[1m]", credential: work, context_window: 1_000_000}
  tried: {harness: opencode, model: openrouter/cohere/north-mini-code:free, credential: work, allow_untested: false}
routes:
  medium: {candidates: [floating, long], spill: true, free_first: true, sandbox: bwrap}
defaults: {repo: ~/src/shop, expect: changes, tools: full, copy_files: [.env.example], deliver: pr, auto_accept: checks,
           base: main, hidden_checks: checks/run, keep_daemons: [gradle], verify: make test}
harnesses:
  opencode: {path: [/opt/node, /opt/opencode.js], allow_untested: true, env: {OPENCODE_X: a, CLAUDE_CONFIG_DIR: ~/x}}
  claude: {path: ~/bin/claude}
allow_untested: true
sandboxes:
  box: {kind: docker, image: "node:22", network: false, read: [/opt], write: [~/cache]}
  wrap: {command: [firejail, --quiet]}
sandbox: wrap
copies: {root: /var/tmp/copies, mode: worktree}
approvals:
  rules:
    - {tool: bash, command: git push, do: ask}
  park_after: 5m
  expire: 7d
  approvers: {alice: all, bob: [deploy]}
notify: notify-send done
webhook: https://hooks.example/secret
limits: {min_free_memory: 512MiB, min_free_disk: 1.5GB, hard_cap: 1h30m, backoffs: 0}
""",
    )
    home = tmp_path / "person"
    work = config.credentials["work"]
    assert (work.overage, work.config_dir, work.base_url) == (True, f"{home}/.claude-work", "http://127.0.0.1:9/")
    floating, long, tried = config.roster.candidates.values()
    assert (floating.floating, floating.tools, floating.sandbox) == (True, Tools.READ, "box")
    assert (long.model, long.context_window, long.allow_untested) == ("claude-opus-5-5[1m]", 1_000_000, True)
    assert (tried.provider, tried.allow_untested) == ("openrouter", False)
    route = config.roster.routes[Difficulty.MEDIUM]
    assert (route.spill, route.free_first, route.sandbox) == (True, True, "bwrap")
    assert config.default_repository == f"{home}/src/shop"
    defaults = config.repository(None)
    assert (defaults.expect, defaults.tools, defaults.deliver) == (Expect.CHANGES, Tools.FULL, Deliver.PR)
    assert (defaults.base, defaults.sandbox, defaults.auto_accept) == ("main", "wrap", "checks")
    assert (defaults.copy_files, defaults.keep_daemons) == ((".env.example",), ("gradle",))
    assert (defaults.verify, defaults.hidden_checks) == (("make test",), "checks/run")
    assert config.harness("opencode").command == ("/opt/node", "/opt/opencode.js")
    assert config.harness("opencode").env == {"OPENCODE_X": "a", "CLAUDE_CONFIG_DIR": f"{home}/x"}
    assert config.harness("claude").command == (f"{home}/bin/claude",)
    assert config.harness("scripted").command is None
    box = config.sandboxes["box"]
    assert (box.kind, box.image, box.network, box.write) == ("docker", "node:22", False, (f"{home}/cache",))
    assert (config.sandboxes["wrap"].kind, config.sandboxes["wrap"].command) == ("command", ("firejail", "--quiet"))
    assert (config.copies_root, config.copy_mode) == (Path("/var/tmp/copies"), CopyMode.WORKTREE)
    rule = config.approvals.rules[0]
    assert (rule.fields, rule.line) == ({"tool": "bash", "command": "git push", "do": "ask"}, 22)
    assert (config.approvals.park_after, config.approvals.expire) == (300, 7 * 86400)
    assert config.approvals.approvers == {"alice": ("*",), "bob": ("deploy",)}
    assert config.notify == ("/bin/sh", "-c", "notify-send done")
    assert config.webhook == "https://hooks.example/secret"
    assert "secret" not in repr(config)
    assert (config.limits.min_free_memory, config.limits.min_free_disk) == (512 * 1024**2, 1_500_000_000)
    assert (config.limits.hard_cap, config.limits.backoffs) == (5400, 0)


def test_every_limit_can_be_written() -> None:
    assert set(places.LIMITS) == {field.name for field in dataclasses.fields(Limits)}


def test_sections_whose_content_is_commented_out_are_empty(tmp_path: Path) -> None:
    optional = [name for name in build.SECTIONS if name not in ("credentials", "candidates", "routes")]
    empty = load_text(tmp_path, LEAST + "".join(f"{name}:\n  # nothing yet\n" for name in optional))
    assert empty == load_text(tmp_path, LEAST)


@pytest.mark.parametrize(
    ("path", "verify"),
    [
        ("src/shop", "shop"),
        ("src/shop/deep/inside", "shop"),
        ("src/shop/api", "api"),
        ("src/shop/api/x", "api"),
        ("src/shop/apiary", "shop"),
        ("src/shopping", "default"),
        ("link", "shop"),
        ("link/api", "api"),
    ],
)
def test_the_longest_path_that_fits_counts(tmp_path: Path, path: str, verify: str) -> None:
    person = tmp_path / "person"
    (person / "src/shop/api").mkdir(parents=True)
    (person / "link").symlink_to(person / "src/shop")
    config = load_text(
        tmp_path,
        LEAST
        + "defaults: {verify: default, setup: make}\n"
        + "repositories:\n  ~/src/shop: {verify: shop, trust: true}\n"
        + f"  {person}/src/shop/api/: {{verify: [api]}}\n",
    )
    found = config.repository(person / path)
    assert found.verify == (verify,)
    assert found.setup == ("make",)  # what an entry leaves out comes from the defaults
    assert found.trust is (verify == "shop")


def test_a_route_that_cannot_reach_its_end_is_a_warning(tmp_path: Path) -> None:
    mixed = LEAST.replace("zen: {billing: free}", "zen: {billing: free}\n  api: {billing: metered}")
    mixed = mixed.replace("routes:", "  paid: {harness: claude, model: claude-opus-5-5, credential: api}\nroutes:")
    config = load_text(tmp_path, mixed.replace("[pickle]", "[pickle, paid]"))
    assert config.warnings[0].startswith("routes.medium: paid will not be used")
    spilling = load_text(tmp_path, mixed.replace("[pickle]", "{candidates: [pickle, paid], spill: true}"))
    assert [warning for warning in spilling.warnings if "medium" in warning] == []


def test_the_roster_that_is_shipped_loads_and_is_what_init_writes(tmp_path: Path) -> None:
    shipped = (Path(__file__).parents[2] / "models.yaml").read_text(encoding="utf-8")
    assert shipped == initial.compose(initial.Machine())
    config = load_text(tmp_path, shipped)
    assert config.warnings == ()
    assert {c.credential.billing for c in config.roster.candidates.values()} == {Billing.FREE, Billing.SUBSCRIPTION}
