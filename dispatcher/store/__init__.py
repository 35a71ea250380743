"""The log and the queue in SQLite: `dispatcher.store.open(path)`, then the functions of the modules beside this one.

Opening an up-to-date database and the hot path (add, claim, begin, end, status) use the standard library only.
SQLModel describes the schema (`tables.py`), Alembic changes it (`migrations/`); both are imported only when needed.
"""

from __future__ import annotations

from dispatcher.store.database import Store
from dispatcher.store.opening import can_write, open

__all__ = ["Store", "can_write", "open"]
