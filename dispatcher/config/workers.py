"""models.yaml: who pays, and who works. Credentials, candidates, and the routes that name them."""

from __future__ import annotations

from collections.abc import Mapping

from dispatcher import difficulty, environment, harness
from dispatcher.config.model import HarnessConfig, SandboxConfig
from dispatcher.config.read import Reader
from dispatcher.config.starting import sandbox_name
from dispatcher.task import Billing, Budget, Candidate, Credential, Difficulty, Route, Tools

CREDENTIAL_KEYS = ("billing", "env", "base_url", "budget", "overage", "config_dir")
CANDIDATE_KEYS = (
    "harness", "model", "credential", "per_day", "floating", "context_window", "tools", "allow_untested", "sandbox",
)  # fmt: skip
ROUTE_KEYS = ("candidates", "spill", "free_first", "sandbox")
MATCH_KEYS = ("title", "body", "words_over", "words_under", "path")
BUDGET_WINDOWS = ("window", "day", "week", "month")
BUDGET_UNITS = ("usd", "tokens", "attempts", "minutes")

_CLAUDE_ALIASES = frozenset({"default", "best", "opus", "sonnet", "haiku", "opusplan", "fable", "mythos"})
_LATEST = ("latest", "auto", "default", "best")


def read_credentials(section: Reader) -> dict[str, Credential]:
    found = {}
    for name, entry in section.named("credential").items():
        keys = entry.keys(*CREDENTIAL_KEYS)
        if "billing" not in keys:
            entry.fail("says no billing", f"add `billing:` with one of {', '.join(Billing)}")
        found[name] = Credential(
            name=name,
            billing=keys["billing"].choice(Billing),
            env=_variables(keys["env"]) if "env" in keys else (),
            base_url=keys["base_url"].url() if "base_url" in keys else None,
            budget=_budget(keys["budget"]) if "budget" in keys else Budget(),
            overage=keys["overage"].flag() if "overage" in keys else False,
            config_dir=keys["config_dir"].path_text() if "config_dir" in keys else None,
        )
    return found


def _variables(reader: Reader) -> tuple[str, ...]:
    items = [reader] if isinstance(reader.value, str) else list(reader.items())
    for item in items:
        why = environment.why_not_passed(item.variable())
        if why is not None and not environment.is_money(item.variable()):
            item.fail(f"{item.variable()} cannot be given to a worker: {why}")
    return tuple(dict.fromkeys(item.variable() for item in items))


def _budget(reader: Reader) -> Budget:
    return Budget(
        **{
            unit: {window: amount.number() for window, amount in caps.keys(*BUDGET_WINDOWS).items()}
            for unit, caps in reader.keys(*BUDGET_UNITS).items()
        }
    )


def read_candidates(
    section: Reader,
    credentials: Mapping[str, Credential],
    harnesses: Mapping[str, HarnessConfig],
    sandboxes: Mapping[str, SandboxConfig],
    untested: bool,
) -> dict[str, Candidate]:
    found = {}
    for name, entry in section.named("candidate").items():
        keys = entry.keys(*CANDIDATE_KEYS)
        for key, fix in (
            ("harness", f"add `harness:` with one of {', '.join(harness.names())}"),
            ("model", "add `model:` with the full id; a run without one would use whatever the CLI has stored"),
            ("credential", f"add `credential:` with one of {', '.join(credentials)}"),
        ):
            if key not in keys:
                entry.fail(f"names no {key}", fix)
        program = keys["harness"].defined("harness", harness.names())
        of_harness = harnesses.get(program, HarnessConfig()).allow_untested
        found[name] = Candidate(
            name=name,
            harness=program,
            model=_model(keys["model"], program, floating="floating" in keys and keys["floating"].flag()),
            credential=credentials[keys["credential"].defined("credential", credentials)],
            per_day=keys["per_day"].whole() if "per_day" in keys else None,
            floating=keys["floating"].flag() if "floating" in keys else False,
            context_window=keys["context_window"].whole() if "context_window" in keys else None,
            tools=keys["tools"].choice(Tools) if "tools" in keys else None,
            allow_untested=keys["allow_untested"].flag()
            if "allow_untested" in keys
            else untested
            if of_harness is None
            else of_harness,
            sandbox=sandbox_name(keys["sandbox"], sandboxes) if "sandbox" in keys else None,
        )
    return found


def _model(reader: Reader, program: str, *, floating: bool) -> str:
    """A full id. Aliases move to another model over night, so they must say `floating: true`."""
    model = reader.text()
    if any(character.isspace() for character in model):
        reader.fail(f"the id {model!r} has a space in it", "a free model of openrouter is written vendor/model:free")
    if program == "claude":
        base = model.partition("[")[0]  # claude-opus-5-5[1m]: the same model with its long window
        if not floating and (base in _CLAUDE_ALIASES or base.endswith("-latest") or not any(map(str.isdigit, base))):
            reader.fail(
                f"{model!r} is an alias, not a full id",
                "write the full id, such as claude-sonnet-5-5, or add `floating: true` to accept that it moves",
            )
        return model
    provider, _, rest = model.partition("/")
    if not provider or not rest or rest.endswith("/"):
        reader.fail(
            f"{model!r} is not a full id", "write provider/model as `opencode models` prints it: opencode/big-pickle"
        )
    last = rest.rpartition("/")[2]
    if not floating and (last in _LATEST or last.endswith(("-latest", ":latest"))):
        reader.fail(f"{model!r} is an alias, not a full id", "name the model, or add `floating: true`")
    return model


def read_routes(
    section: Reader, candidates: Mapping[str, Candidate], sandboxes: Mapping[str, SandboxConfig]
) -> tuple[dict[Difficulty, Route], list[str]]:
    routes: dict[Difficulty, Route] = {}
    warnings = []
    for name, entry in section.keys(*Difficulty).items():
        keys = entry.keys(*ROUTE_KEYS) if isinstance(entry.value, dict) else {"candidates": entry}
        if "candidates" not in keys or not keys["candidates"].value:
            entry.fail("has no candidates", "list at least one: [name, name]")
        route = Route(
            candidates=_walk(keys["candidates"], candidates),
            spill=keys["spill"].flag() if "spill" in keys else False,
            free_first=keys["free_first"].flag() if "free_first" in keys else False,
            sandbox=sandbox_name(keys["sandbox"], sandboxes) if "sandbox" in keys else None,
        )
        routes[Difficulty(name)] = route
        first = candidates[route.candidates[0]].credential.billing
        others = [n for n in route.candidates if candidates[n].credential.billing is not first]
        if others and not route.spill:
            warnings.append(
                f"routes.{name}: {', '.join(others)} will not be used, since the route starts with {first} billing; "
                f"write {{candidates: [...], spill: true}} to let it spill over"
            )
    missing = [name for name in Difficulty if name not in routes]
    if missing:
        warnings.append(f"routes: there is none for {', '.join(missing)}; such briefs will need a person")
    return routes, warnings


def _walk(reader: Reader, candidates: Mapping[str, Candidate]) -> tuple[str, ...]:
    names: list[str] = []
    for item in reader.items():
        name = item.defined("candidate", candidates)
        if name in names:
            item.fail(f"{name!r} is listed twice", "take one out")
        names.append(name)
    return tuple(names)


def read_difficulty_rules(section: Reader | None) -> tuple[difficulty.Rule, ...]:
    if section is None or section.value is None:
        return ()
    rules = []
    for entry in section.items():
        keys = entry.keys("match", "is")
        if "is" not in keys or "match" not in keys:
            entry.fail("needs `match` and `is`", '{match: {title: "(typo|rename)"}, is: trivial}')
        match = keys["match"].keys(*MATCH_KEYS)
        if not match:
            keys["match"].fail("is empty", f"use {', '.join(MATCH_KEYS)}")
        rule = difficulty.Rule(
            is_=keys["is"].choice(Difficulty),
            title=match["title"].text() if "title" in match else None,
            body=match["body"].text() if "body" in match else None,
            words_over=match["words_over"].whole(least=0) if "words_over" in match else None,
            words_under=match["words_under"].whole() if "words_under" in match else None,
            path=match["path"].text() if "path" in match else None,
            line=entry.node.line,
        )
        wrong = difficulty.problem(rule)
        if wrong is not None:
            match["title" if wrong.startswith("`title`") else "body"].fail(wrong, "a plain word works, too")
        rules.append(rule)
    return tuple(rules)
