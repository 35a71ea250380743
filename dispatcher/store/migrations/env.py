"""Alembic's entry. It runs inside the transaction that `dispatcher.store.migrate` holds, and only there.

A new migration: change `tables.py`, `schema.py` and `SCHEMA_VERSION`, then write `versions/v000N_what.py` by hand in
the manner of its neighbours. The tests compare all three. Steps must keep what people's SQL reads: add, never rename.
"""

from __future__ import annotations

from alembic import context

context.configure(connection=context.config.attributes["connection"])
with context.begin_transaction():
    context.run_migrations()
