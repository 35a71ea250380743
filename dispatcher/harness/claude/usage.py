"""What a run of claude used: of its own results, or of claude's own record where it did not live to have one."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from dispatcher.harness import events
from dispatcher.task import Usage

_MODEL_USAGE = {
    "input": "inputTokens",
    "output": "outputTokens",
    "cache_read": "cacheReadInputTokens",
    "cache_write": "cacheCreationInputTokens",
}
PLAIN_USAGE = {
    "input": "input_tokens",
    "output": "output_tokens",
    "cache_read": "cache_read_input_tokens",
    "cache_write": "cache_creation_input_tokens",
}


def recorded(session: Iterable[bytes], wanted: Collection[str]) -> dict[str, events.Object]:
    """Answers that ended -> their usage, as claude's own record has it; of the pieces of one answer the last counts."""
    found: dict[str, events.Object] = {}
    for line in session:
        if b'"assistant"' not in line or (event := events.parse(line)) is None or event.get("type") != "assistant":
            continue
        message = events.obj(event, "message")
        answer = events.string(message.get("id"))
        if answer in wanted and message.get("stop_reason"):
            found[answer] = events.obj(message, "usage")
    return found


def without_output(usage: events.Object) -> events.Object:
    """What an answer began with; its output tokens are a first count, not the number (claude 2.1: always 1)."""
    return {name: amount for name, amount in usage.items() if name != "output_tokens"}


def of_results(results: Sequence[events.Object]) -> Usage:
    """This run's own tokens and cost, of a run that has a result.

    claude 2.1.332: totals go on over a resumed session, `model_usage_since_last_result` is what this run added.
    2.1.197: the totals are this run's own; the last result repeats what earlier ones said.
    """
    added = [result["model_usage_since_last_result"] for result in results if _has_models(result)]
    if added:
        models = [events.obj(model) for usage in added for model in events.obj(usage).values()]
        costs = [cost for model in models if (cost := events.number(model.get("costUSD"))) is not None]
        return total(models, _MODEL_USAGE, sum(costs, 0.0) if costs or not models else None)
    last = results[-1]
    cost = events.number(last.get("total_cost_usd"))
    models = [events.obj(model) for model in events.obj(last.get("modelUsage")).values()]
    return total(models, _MODEL_USAGE, cost) if models else total([events.obj(last.get("usage"))], PLAIN_USAGE, cost)


def _has_models(result: Mapping[str, object]) -> bool:
    return isinstance(result.get("model_usage_since_last_result"), dict)


def total(parts: Iterable[events.Object], names: Mapping[str, str], cost: float | None) -> Usage:
    totals: dict[str, int] = {}
    for part in parts:
        for key, name in names.items():
            if (amount := events.integer(part.get(name))) is not None:
                totals[key] = totals.get(key, 0) + amount
    return Usage(cost_usd=cost, **totals)
