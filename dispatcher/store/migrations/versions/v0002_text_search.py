"""Text search over title, brief, notes and final message; what is there already is indexed."""

from __future__ import annotations

from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for statement in (*INDEXES, *FILLING, *TRIGGERS):
        op.execute(statement)


INDEXES = (
    """\
CREATE VIRTUAL TABLE task_search USING fts5(
    title, brief_text, notes, final_text,
    content = 'task', content_rowid = 'id', columnsize = 0, tokenize = 'unicode61 remove_diacritics 2'
)""",
    """\
CREATE VIRTUAL TABLE attempt_search USING fts5(
    notes, final_text,
    content = 'attempt', content_rowid = 'id', columnsize = 0, tokenize = 'unicode61 remove_diacritics 2'
)""",
)

FILLING = (
    "INSERT INTO task_search (task_search) VALUES ('rebuild')",
    "INSERT INTO attempt_search (rowid, notes, final_text) "
    "SELECT id, notes, final_text FROM attempt WHERE notes <> '[]' OR final_text <> ''",
)

TRIGGERS = (
    """\
CREATE TRIGGER task_search_insert AFTER INSERT ON task BEGIN
    INSERT INTO task_search (rowid, title, brief_text, notes, final_text)
    VALUES (new.id, new.title, new.brief_text, new.notes, new.final_text);
END""",
    """\
CREATE TRIGGER task_search_delete AFTER DELETE ON task BEGIN
    INSERT INTO task_search (task_search, rowid, title, brief_text, notes, final_text)
    VALUES ('delete', old.id, old.title, old.brief_text, old.notes, old.final_text);
END""",
    """\
CREATE TRIGGER task_search_update AFTER UPDATE OF title, brief_text, notes, final_text ON task BEGIN
    INSERT INTO task_search (task_search, rowid, title, brief_text, notes, final_text)
    VALUES ('delete', old.id, old.title, old.brief_text, old.notes, old.final_text);
    INSERT INTO task_search (rowid, title, brief_text, notes, final_text)
    VALUES (new.id, new.title, new.brief_text, new.notes, new.final_text);
END""",
    """\
CREATE TRIGGER attempt_search_insert AFTER INSERT ON attempt
WHEN new.notes <> '[]' OR new.final_text <> '' BEGIN
    INSERT INTO attempt_search (rowid, notes, final_text) VALUES (new.id, new.notes, new.final_text);
END""",
    """\
CREATE TRIGGER attempt_search_delete AFTER DELETE ON attempt
WHEN old.notes <> '[]' OR old.final_text <> '' BEGIN
    INSERT INTO attempt_search (attempt_search, rowid, notes, final_text)
    VALUES ('delete', old.id, old.notes, old.final_text);
END""",
    """\
CREATE TRIGGER attempt_search_update AFTER UPDATE OF notes, final_text ON attempt BEGIN
    INSERT INTO attempt_search (attempt_search, rowid, notes, final_text)
    SELECT 'delete', old.id, old.notes, old.final_text WHERE old.notes <> '[]' OR old.final_text <> '';
    INSERT INTO attempt_search (rowid, notes, final_text)
    SELECT new.id, new.notes, new.final_text WHERE new.notes <> '[]' OR new.final_text <> '';
END""",
)
