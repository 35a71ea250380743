"""Numbers as people read them; every form of a report uses the same words."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from dispatcher.report.values import Column


def shown(value: Any, column: Column) -> str:
    """One cell. Unknown is empty."""
    if value is None:
        return ""
    if column.kind == "usd" or (column.key == "number" and isinstance(value, float)):
        return money(value) if column.kind == "usd" else f"{value:,.2f}"
    if column.kind == "minutes":
        return f"{value:,.0f}" if value >= 100 else f"{value:,.1f}"
    if column.kind == "tokens":
        return tokens(value)
    return f"{value:,}" if isinstance(value, int) else str(value)


def money(usd: float) -> str:
    return f"${usd:,.2f}" if usd >= 0.01 or usd == 0 else f"${usd:.4f}"


def tokens(count: int) -> str:
    for limit, unit in ((10**9, "G"), (10**6, "M"), (10**4, "k")):
        if count >= limit:
            return f"{count / (1000 if unit == 'k' else limit):.1f}{unit}"
    return str(count)


def is_number(column: Column) -> bool:
    return column.kind != "text"
