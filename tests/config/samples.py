"""Texts of models.yaml that the tests of the configuration share."""

from __future__ import annotations

from pathlib import Path

from dispatcher.config import Config, load

# The example of the documentation, whole.
EXAMPLE = """\
credentials:
  zen:        {billing: free}
  max-plan:   {billing: subscription, budget: {tokens: {month: 40_000_000}}}
  api:        {billing: metered, env: [ANTHROPIC_API_KEY], budget: {usd: {day: 5}}}
candidates:
  pickle:     {harness: opencode, model: opencode/big-pickle, credential: zen, per_day: 30}
  nemotron:   {harness: opencode, model: opencode/nemotron-3-ultra-free, credential: zen}
  sonnet:     {harness: claude, model: claude-sonnet-5-5, credential: max-plan}
  opus:       {harness: claude, model: claude-opus-5-5, credential: max-plan}
routes:
  trivial:    [pickle, nemotron]
  easy:       [nemotron, pickle]
  medium:     [sonnet]
  hard:       [opus, sonnet]
difficulty:
  - {match: {title: "(typo|rename|bump|release notes)"}, is: trivial}
  - {match: {words_over: 800}, is: hard}
repositories:
  ~/src/shop: {setup: [npm ci], verify: [npm test], trust: false, credentials: [max-plan, api], tools: edit}
limits: {hard_cap: 45m, stall: 10m, start: 2m, attempts: 4, finish_attempts: 2, jobs: 2, switch_after: 5s,
  max_load_per_core: 4}
environment: {pass: [JAVA_HOME, SSH_AUTH_SOCK]}
rules:
  - Work only in this folder; never copy the repository elsewhere.
"""

# The least that loads; tests append sections to it. It has 6 lines.
LEAST = """\
credentials:
  zen: {billing: free}
candidates:
  pickle: {harness: opencode, model: opencode/big-pickle, credential: zen}
routes:
  medium: [pickle]
"""


def environ_of(folder: Path) -> dict[str, str]:
    """A person of their own, with a HOME below `folder`."""
    return {"HOME": str(folder / "person"), "PATH": "/usr/bin:/bin"}


def load_text(folder: Path, text: str) -> Config:
    home = folder / "home"
    home.mkdir(exist_ok=True)
    (home / "models.yaml").write_text(text, encoding="utf-8")
    return load(home, environ_of(folder))
