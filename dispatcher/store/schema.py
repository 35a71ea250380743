"""The whole schema as plain text, so that a new database needs neither SQLModel nor Alembic. Imported only to make one.

The tables are those of `tables.py`, the rest (views, text search, triggers) is SQLite's own; the triggers that keep the
sums are in `rollup.py`. A test proves that this text, the SQLModel metadata and the migrations build the same database:
change them together.

People query the views (`v_tasks`, `v_attempts`, ...): times there are UTC epoch seconds and, beside them, ISO text.
"""

from __future__ import annotations

from dispatcher.store.rollup import ROLLUP, reviewed

_TABLES = """\
CREATE TABLE batch (
    name TEXT NOT NULL,
    created_at FLOAT NOT NULL,
    ended_at FLOAT,
    data TEXT,
    PRIMARY KEY (name)
);
CREATE TABLE meta (
    key TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (key)
);
CREATE TABLE task_count (
    status TEXT NOT NULL,
    number INTEGER NOT NULL,
    PRIMARY KEY (status)
);
CREATE TABLE rollup (
    candidate TEXT NOT NULL,
    harness TEXT NOT NULL,
    model TEXT NOT NULL,
    credential TEXT NOT NULL,
    billing TEXT NOT NULL,
    difficulty TEXT NOT NULL,
    outcome TEXT NOT NULL,
    month TEXT NOT NULL,
    attempts INTEGER NOT NULL,
    tasks INTEGER NOT NULL,
    counted INTEGER NOT NULL,
    delivered INTEGER NOT NULL,
    saved INTEGER NOT NULL,
    false_done INTEGER NOT NULL,
    nearly_lost INTEGER NOT NULL,
    accepted INTEGER NOT NULL,
    rejected INTEGER NOT NULL,
    seconds FLOAT NOT NULL,
    cost_usd FLOAT NOT NULL,
    priced INTEGER NOT NULL,
    billed_usd FLOAT NOT NULL,
    billed INTEGER NOT NULL,
    tokens_input INTEGER NOT NULL,
    tokens_output INTEGER NOT NULL,
    tokens_cache_read INTEGER NOT NULL,
    tokens_cache_write INTEGER NOT NULL,
    tokens_reasoning INTEGER NOT NULL,
    PRIMARY KEY (candidate, harness, model, credential, billing, difficulty, outcome, month)
) WITHOUT ROWID;
CREATE TABLE rollup_part (
    part TEXT NOT NULL,
    name TEXT NOT NULL,
    month TEXT NOT NULL,
    candidate TEXT NOT NULL,
    harness TEXT NOT NULL,
    model TEXT NOT NULL,
    credential TEXT NOT NULL,
    billing TEXT NOT NULL,
    difficulty TEXT NOT NULL,
    outcome TEXT NOT NULL,
    attempts INTEGER NOT NULL,
    tasks INTEGER NOT NULL,
    counted INTEGER NOT NULL,
    delivered INTEGER NOT NULL,
    saved INTEGER NOT NULL,
    false_done INTEGER NOT NULL,
    nearly_lost INTEGER NOT NULL,
    accepted INTEGER NOT NULL,
    rejected INTEGER NOT NULL,
    seconds FLOAT NOT NULL,
    cost_usd FLOAT NOT NULL,
    priced INTEGER NOT NULL,
    billed_usd FLOAT NOT NULL,
    billed INTEGER NOT NULL,
    tokens_input INTEGER NOT NULL,
    tokens_output INTEGER NOT NULL,
    tokens_cache_read INTEGER NOT NULL,
    tokens_cache_write INTEGER NOT NULL,
    tokens_reasoning INTEGER NOT NULL,
    PRIMARY KEY (part, name, month, candidate, harness, model, credential, billing, difficulty, outcome)
) WITHOUT ROWID;
CREATE TABLE task_rollup (
    month TEXT NOT NULL,
    difficulty TEXT NOT NULL,
    status TEXT NOT NULL,
    number INTEGER NOT NULL,
    PRIMARY KEY (month, difficulty, status)
);
CREATE TABLE task (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    title TEXT NOT NULL,
    brief_text TEXT NOT NULL,
    brief_path TEXT,
    brief_digest TEXT NOT NULL,
    repository TEXT,
    difficulty TEXT NOT NULL,
    difficulty_reason TEXT NOT NULL,
    expect TEXT NOT NULL,
    priority INTEGER NOT NULL,
    status TEXT NOT NULL,
    status_reason TEXT NOT NULL,
    created_at FLOAT NOT NULL,
    updated_at FLOAT NOT NULL,
    not_before FLOAT,
    batch TEXT,
    source TEXT NOT NULL,
    owner TEXT,
    claimed_at FLOAT,
    copy_path TEXT,
    task_base TEXT,
    branch TEXT,
    result_commit TEXT,
    final_text TEXT,
    flags TEXT NOT NULL,
    next_step TEXT NOT NULL,
    counters TEXT NOT NULL,
    notes TEXT NOT NULL,
    FOREIGN KEY(batch) REFERENCES batch (name)
);
CREATE INDEX task_batch ON task (batch);
CREATE INDEX task_created ON task (created_at);
CREATE INDEX task_digest ON task (brief_digest);
CREATE INDEX task_path ON task (brief_path);
CREATE INDEX task_ready ON task (priority DESC, id, status, not_before) WHERE status IN ('queued', 'waiting');
CREATE INDEX task_repository ON task (repository);
CREATE INDEX task_status ON task (status, id);
CREATE TABLE attempt (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    task_id INTEGER NOT NULL,
    number INTEGER NOT NULL,
    prompt TEXT NOT NULL,
    candidate TEXT NOT NULL,
    harness TEXT NOT NULL,
    model TEXT NOT NULL,
    credential TEXT NOT NULL,
    billing TEXT NOT NULL,
    folder TEXT NOT NULL,
    marker TEXT NOT NULL,
    started_at FLOAT NOT NULL,
    harness_version TEXT,
    session_id TEXT,
    ended_at FLOAT,
    outcome TEXT,
    outcome_reason TEXT NOT NULL,
    proof TEXT NOT NULL,
    verdict TEXT,
    verdict_reason TEXT NOT NULL,
    counted BOOLEAN NOT NULL,
    exit_code INTEGER,
    signal INTEGER,
    timed_out BOOLEAN NOT NULL,
    end_reason TEXT,
    survivors INTEGER,
    tokens_input INTEGER,
    tokens_output INTEGER,
    tokens_cache_read INTEGER,
    tokens_cache_write INTEGER,
    tokens_reasoning INTEGER,
    cost_usd FLOAT,
    observed_model TEXT,
    model_evidence TEXT NOT NULL,
    detection TEXT,
    base_commit TEXT,
    result_commit TEXT,
    evidence TEXT,
    snapshot_ref TEXT,
    final_text TEXT NOT NULL,
    notes TEXT NOT NULL,
    host TEXT NOT NULL,
    source TEXT NOT NULL,
    seconds FLOAT,
    checks TEXT,
    billed_usd FLOAT,
    pid INTEGER,
    pid_start INTEGER,
    boot TEXT,
    CONSTRAINT attempt_number UNIQUE (task_id, number),
    FOREIGN KEY(task_id) REFERENCES task (id)
);
CREATE INDEX attempt_candidate ON attempt (candidate, started_at, outcome);
CREATE INDEX attempt_harness ON attempt (harness, started_at);
CREATE INDEX attempt_model ON attempt (model, started_at);
CREATE INDEX attempt_open ON attempt (task_id) WHERE ended_at IS NULL;
CREATE INDEX attempt_outcome ON attempt (outcome, started_at);
CREATE INDEX attempt_spend ON attempt (
    credential, started_at, cost_usd, tokens_input, tokens_output,
    tokens_cache_read, tokens_cache_write, tokens_reasoning, seconds
);
CREATE INDEX attempt_started ON attempt (started_at);
CREATE INDEX attempt_verdict ON attempt (verdict, started_at);
CREATE TABLE dependency (
    task_id INTEGER NOT NULL,
    needs_task_id INTEGER NOT NULL,
    kind TEXT NOT NULL,
    PRIMARY KEY (task_id, needs_task_id),
    FOREIGN KEY(task_id) REFERENCES task (id),
    FOREIGN KEY(needs_task_id) REFERENCES task (id)
);
CREATE INDEX dependency_needs ON dependency (needs_task_id);
CREATE TABLE approval (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    task_id INTEGER NOT NULL,
    attempt_id INTEGER NOT NULL,
    asked_at FLOAT NOT NULL,
    harness TEXT NOT NULL,
    session_id TEXT,
    call_id TEXT,
    tool TEXT NOT NULL,
    input TEXT NOT NULL,
    folder TEXT NOT NULL,
    digest TEXT NOT NULL,
    rule TEXT NOT NULL,
    status TEXT NOT NULL,
    answered_at FLOAT,
    answered_by TEXT,
    answered_from TEXT,
    answer_reason TEXT,
    remember TEXT,
    expires_at FLOAT,
    consumed_at FLOAT,
    transcript TEXT,
    FOREIGN KEY(task_id) REFERENCES task (id),
    FOREIGN KEY(attempt_id) REFERENCES attempt (id)
);
CREATE INDEX approval_digest ON approval (digest);
CREATE INDEX approval_pending ON approval (asked_at) WHERE status = 'pending';
CREATE INDEX approval_task ON approval (task_id, id);
CREATE TABLE check_result (
    attempt_id INTEGER NOT NULL,
    position INTEGER NOT NULL,
    command TEXT NOT NULL,
    hidden BOOLEAN NOT NULL,
    passed BOOLEAN NOT NULL,
    exit_code INTEGER,
    seconds FLOAT NOT NULL,
    output TEXT NOT NULL,
    red_before BOOLEAN NOT NULL,
    PRIMARY KEY (attempt_id, position),
    FOREIGN KEY(attempt_id) REFERENCES attempt (id)
);
CREATE TABLE event (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    task_id INTEGER,
    attempt_id INTEGER,
    at FLOAT NOT NULL,
    kind TEXT NOT NULL,
    text TEXT NOT NULL,
    actor TEXT NOT NULL,
    data TEXT,
    FOREIGN KEY(task_id) REFERENCES task (id),
    FOREIGN KEY(attempt_id) REFERENCES attempt (id)
);
CREATE INDEX event_task ON event (task_id, id);
CREATE TABLE hold (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    scope TEXT NOT NULL,
    key TEXT NOT NULL,
    until FLOAT,
    reason TEXT NOT NULL,
    created_at FLOAT NOT NULL,
    actor TEXT NOT NULL,
    window_name TEXT,
    attempt_id INTEGER,
    lifted_at FLOAT,
    lifted_by TEXT,
    FOREIGN KEY(attempt_id) REFERENCES attempt (id)
);
CREATE INDEX hold_active ON hold (scope, key) WHERE lifted_at IS NULL;
CREATE INDEX hold_key ON hold (scope, key, created_at);
CREATE TABLE review (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    task_id INTEGER NOT NULL,
    attempt_id INTEGER,
    at FLOAT NOT NULL,
    decision TEXT NOT NULL,
    kind TEXT NOT NULL,
    actor TEXT NOT NULL,
    text TEXT NOT NULL,
    result_commit TEXT,
    data TEXT,
    FOREIGN KEY(task_id) REFERENCES task (id),
    FOREIGN KEY(attempt_id) REFERENCES attempt (id)
);
CREATE INDEX review_task ON review (task_id, id);
CREATE TABLE approval_grant (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    approval_id INTEGER,
    scope TEXT NOT NULL,
    scope_key TEXT NOT NULL,
    tool TEXT NOT NULL,
    digest TEXT NOT NULL,
    created_at FLOAT NOT NULL,
    actor TEXT NOT NULL,
    used_at FLOAT,
    revoked_at FLOAT,
    revoked_by TEXT,
    FOREIGN KEY(approval_id) REFERENCES approval (id)
);
CREATE INDEX grant_active ON approval_grant (scope, scope_key) WHERE revoked_at IS NULL;
"""

_SEARCH = """\
CREATE VIRTUAL TABLE task_search USING fts5(
    title, brief_text, notes, final_text,
    content = 'task', content_rowid = 'id', columnsize = 0, tokenize = 'unicode61 remove_diacritics 2'
);
CREATE VIRTUAL TABLE attempt_search USING fts5(
    notes, final_text,
    content = 'attempt', content_rowid = 'id', columnsize = 0, tokenize = 'unicode61 remove_diacritics 2'
);
"""

# An FTS5 index over another table is kept by hand: the old words are taken out with the old values, the new ones put
# in. Attempts without a text are not indexed at all.
_TRIGGERS = (
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
    f"""\
CREATE TRIGGER task_count_insert AFTER INSERT ON task WHEN NOT {reviewed("new")} BEGIN
    INSERT INTO task_count (status, number) VALUES (new.status, 1)
    ON CONFLICT (status) DO UPDATE SET number = number + 1;
END""",
    f"""\
CREATE TRIGGER task_count_delete AFTER DELETE ON task WHEN NOT {reviewed("old")} BEGIN
    UPDATE task_count SET number = number - 1 WHERE status = old.status;
END""",
    f"""\
CREATE TRIGGER task_count_update AFTER UPDATE OF status ON task WHEN old.status <> new.status BEGIN
    UPDATE task_count SET number = number - 1 WHERE status = old.status AND NOT {reviewed("old")};
    INSERT INTO task_count (status, number) SELECT new.status, 1 WHERE NOT {reviewed("new")}
    ON CONFLICT (status) DO UPDATE SET number = number + 1;
END""",
)

_VIEWS = """\
CREATE VIEW v_tasks AS
SELECT t.id, t.title, t.status, t.status_reason, t.difficulty, t.difficulty_reason, t.expect, t.priority,
    t.repository, t.batch, t.source, t.created_at, t.updated_at, t.not_before,
    strftime('%Y-%m-%dT%H:%M:%SZ', t.created_at, 'unixepoch') AS created,
    strftime('%Y-%m-%dT%H:%M:%SZ', t.updated_at, 'unixepoch') AS updated,
    json_extract(t.counters, '$.starts') AS starts,
    json_extract(t.counters, '$.attempts') AS redispatches,
    json_extract(t.counters, '$.finish_attempts') AS finish_attempts,
    json_extract(t.counters, '$.escalations') AS escalations,
    json_extract(t.counters, '$.check_failures') AS check_failures,
    json_extract(t.next_step, '$.prompt') AS next_prompt,
    json_extract(t.next_step, '$.candidate') AS next_candidate,
    t.flags, t.brief_path, t.brief_text, t.copy_path, t.branch, t.result_commit, t.final_text, t.notes
FROM task t;
CREATE VIEW v_attempts AS
SELECT a.id, a.task_id, a.number, t.title, t.status AS task_status, t.difficulty, t.repository, t.batch,
    a.prompt, a.candidate, a.harness, a.harness_version, a.model, a.observed_model, a.model_evidence,
    a.credential, a.billing, a.outcome, a.outcome_reason, a.proof, a.verdict, a.verdict_reason, a.counted,
    a.exit_code, a.signal, a.timed_out, a.end_reason, a.survivors, a.started_at, a.ended_at,
    strftime('%Y-%m-%dT%H:%M:%SZ', a.started_at, 'unixepoch') AS started,
    strftime('%Y-%m-%dT%H:%M:%SZ', a.ended_at, 'unixepoch') AS ended,
    a.seconds, a.tokens_input, a.tokens_output, a.tokens_cache_read, a.tokens_cache_write, a.tokens_reasoning,
    a.cost_usd, a.billed_usd, a.detection, a.base_commit, a.result_commit, a.snapshot_ref, a.session_id, a.folder,
    a.host, a.source, a.notes, a.final_text
FROM attempt a JOIN task t ON t.id = a.task_id;
CREATE VIEW v_events AS
SELECT e.id, e.task_id, e.attempt_id, e.at, strftime('%Y-%m-%dT%H:%M:%SZ', e.at, 'unixepoch') AS happened,
    e.kind, e.text, e.actor, e.data
FROM event e;
CREATE VIEW v_holds AS
SELECT h.id, h.scope, h.key, h.reason, h.window_name, h.actor, h.created_at, h.until, h.lifted_at, h.lifted_by,
    strftime('%Y-%m-%dT%H:%M:%SZ', h.created_at, 'unixepoch') AS created,
    strftime('%Y-%m-%dT%H:%M:%SZ', h.until, 'unixepoch') AS until_time
FROM hold h;
CREATE VIEW v_checks AS
SELECT c.attempt_id, a.task_id, c.position, c.command, c.hidden, c.passed, c.exit_code, c.seconds, c.red_before,
    c.output
FROM check_result c JOIN attempt a ON a.id = c.attempt_id;
CREATE VIEW v_reviews AS
SELECT r.id, r.task_id, r.attempt_id, t.title, r.at, strftime('%Y-%m-%dT%H:%M:%SZ', r.at, 'unixepoch') AS reviewed,
    r.decision, r.kind, r.actor, r.text, r.result_commit
FROM review r JOIN task t ON t.id = r.task_id;
CREATE VIEW v_approvals AS
SELECT p.id, p.task_id, p.attempt_id, t.title, p.status, p.tool, p.input, p.folder, p.rule, p.asked_at,
    strftime('%Y-%m-%dT%H:%M:%SZ', p.asked_at, 'unixepoch') AS asked,
    p.answered_at, p.answered_by, p.answered_from, p.answer_reason, p.remember, p.expires_at, p.consumed_at
FROM approval p JOIN task t ON t.id = p.task_id;
CREATE VIEW v_measures AS
SELECT a.id, a.task_id, a.started_at,
    coalesce(strftime('%Y-%m', a.started_at, 'unixepoch'), '') AS month,
    a.candidate, a.harness, a.model, a.credential, a.billing, t.difficulty, coalesce(a.outcome, 'unknown') AS outcome,
    a.prompt, a.verdict, a.source, t.repository, t.batch, t.status AS task_status,
    1 AS attempts,
    NOT EXISTS (
        SELECT 1 FROM attempt b WHERE b.task_id = a.task_id AND b.number < a.number AND b.candidate = a.candidate
        AND b.ended_at IS NOT NULL
    ) AS tasks,
    a.counted,
    a.verdict IS 'review' AND NOT EXISTS (
        SELECT 1 FROM attempt b WHERE b.task_id = a.task_id AND b.number < a.number AND b.candidate = a.candidate
        AND b.verdict = 'review'
    ) AS delivered,
    a.verdict IS 'review' AND a.prompt IN ('finish', 'continue', 'confirm') AS saved,
    a.outcome IS 'completed'
        AND coalesce(a.verdict, '') IN ('finish', 'continue', 'confirm', 'redispatch', 'needs_human') AS false_done,
    CASE WHEN a.outcome IN ('completed', 'awaiting_approval') OR NOT json_valid(a.evidence) THEN 0
        ELSE coalesce(json_array_length(a.evidence, '$.commits'), 0)
            + coalesce(json_array_length(a.evidence, '$.dirty'), 0)
            + coalesce(json_array_length(a.evidence, '$.elsewhere'), 0) > 0 END AS nearly_lost,
    CASE WHEN t.status <> 'accepted' OR t.source = 'import' OR t.flags LIKE '%"review of %' THEN 0 ELSE a.id = (
        SELECT b.id FROM attempt b WHERE b.task_id = a.task_id AND b.ended_at IS NOT NULL
        ORDER BY b.verdict IS 'review' DESC, b.number DESC LIMIT 1
    ) END AS accepted,
    CASE WHEN t.status <> 'rejected' OR t.source = 'import' THEN 0 ELSE a.id = (
        SELECT b.id FROM attempt b WHERE b.task_id = a.task_id AND b.ended_at IS NOT NULL
        ORDER BY b.verdict IS 'review' DESC, b.number DESC LIMIT 1
    ) END AS rejected,
    coalesce(a.seconds, 0.0) AS seconds, coalesce(a.cost_usd, 0.0) AS cost_usd, a.cost_usd IS NOT NULL AS priced,
    coalesce(a.billed_usd, 0.0) AS billed_usd, a.billed_usd IS NOT NULL AS billed,
    coalesce(a.tokens_input, 0) AS tokens_input, coalesce(a.tokens_output, 0) AS tokens_output,
    coalesce(a.tokens_cache_read, 0) AS tokens_cache_read, coalesce(a.tokens_cache_write, 0) AS tokens_cache_write,
    coalesce(a.tokens_reasoning, 0) AS tokens_reasoning
FROM attempt a CROSS JOIN task t ON t.id = a.task_id
WHERE a.ended_at IS NOT NULL;
"""

HEAD = "0008"  # the newest migration, as Alembic names it

STATEMENTS: tuple[str, ...] = (
    *(part for text in (_TABLES, _VIEWS, _SEARCH) for part in text.split(";\n") if part.strip()),
    *_TRIGGERS,
    *ROLLUP,
    "CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL, "
    "CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num))",
    f"INSERT INTO alembic_version (version_num) VALUES ('{HEAD}')",
)
