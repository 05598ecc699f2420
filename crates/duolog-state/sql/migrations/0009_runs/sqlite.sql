-- Runs of workflows: what was done of each, what it waits for, and who runs it. What can grow stands in tables of its own,
-- so that lists never read it and a change of status never writes it.

-- One row per run. Of its indexes, a change of status touches those of the active and of statuses, and no other.
CREATE TABLE workflow_runs (
    id               TEXT NOT NULL PRIMARY KEY CHECK (length(CAST(id AS BLOB)) BETWEEN 1 AND 128),
    home_id          TEXT NOT NULL CHECK (length(home_id) = 36),
    workflow_name    TEXT NOT NULL CHECK (length(CAST(workflow_name AS BLOB)) BETWEEN 1 AND 256),
    trigger_type     TEXT NOT NULL CHECK (trigger_type IN ('webhook', 'cron', 'chat', 'api', 'cli')),
    trigger_id       TEXT NOT NULL CHECK (length(CAST(trigger_id AS BLOB)) BETWEEN 1 AND 1024),
    owner            TEXT CHECK (length(CAST(owner AS BLOB)) BETWEEN 1 AND 1024),
    repo             TEXT CHECK (length(CAST(repo AS BLOB)) BETWEEN 1 AND 1024),
    issue_number     INTEGER CHECK (issue_number >= 0),
    current_phase    TEXT NOT NULL CHECK (length(CAST(current_phase AS BLOB)) <= 128),
    status           TEXT NOT NULL DEFAULT 'running' CHECK (status IN (
        'queued', 'running', 'paused', 'succeeded', 'failed', 'cancelled')),
    active_rank      INTEGER NOT NULL CHECK (
        active_rank = CASE status WHEN 'running' THEN 0 WHEN 'paused' THEN 1 WHEN 'queued' THEN 2 ELSE 3 END),
    queue_ord        INTEGER CHECK (queue_ord >= 0),
    queued_at        TEXT CHECK (length(queued_at) = 27),
    session_id       TEXT CHECK (length(CAST(session_id AS BLOB)) BETWEEN 1 AND 128),
    error            TEXT CHECK (length(CAST(error AS BLOB)) <= 16384),
    lease_owner      TEXT CHECK (length(CAST(lease_owner AS BLOB)) BETWEEN 1 AND 1024),
    lease_expires_at TEXT CHECK (length(lease_expires_at) = 27),
    fence            INTEGER NOT NULL DEFAULT 0 CHECK (fence >= 0),
    restart_count    INTEGER NOT NULL DEFAULT 0 CHECK (restart_count >= 0),
    restart_cap      INTEGER NOT NULL CHECK (restart_cap >= 0),
    retry_count      INTEGER NOT NULL DEFAULT 0 CHECK (retry_count >= 0),
    triggered_by     TEXT CHECK (length(CAST(triggered_by AS BLOB)) BETWEEN 1 AND 1024),
    actor            TEXT CHECK (length(CAST(actor AS BLOB)) BETWEEN 1 AND 1024),
    phases           INTEGER NOT NULL DEFAULT 0 CHECK (phases >= 0),
    phases_bytes     INTEGER NOT NULL DEFAULT 0 CHECK (phases_bytes BETWEEN 0 AND 1048576),
    scratch_bytes    INTEGER NOT NULL DEFAULT 0 CHECK (scratch_bytes BETWEEN 0 AND 1048576),
    nodes_bytes      INTEGER NOT NULL DEFAULT 0 CHECK (nodes_bytes BETWEEN 0 AND 65536),
    cost_picos       INTEGER CHECK (cost_picos >= 0),
    tokens           INTEGER CHECK (tokens >= 0),
    started_at       TEXT NOT NULL CHECK (length(started_at) = 27),
    updated_at       TEXT NOT NULL CHECK (length(updated_at) = 27),
    finished_at      TEXT CHECK (length(finished_at) = 27),
    CHECK (restart_count <= restart_cap),
    CHECK ((queue_ord IS NULL) = (status <> 'queued')),
    CHECK ((queued_at IS NULL) = (queue_ord IS NULL)),
    CHECK ((lease_expires_at IS NULL) = (status <> 'running')),
    CHECK (lease_owner IS NULL OR status = 'running'),
    CHECK ((finished_at IS NULL) = (active_rank < 3))
) STRICT;

-- One active run per workflow and trigger, whoever starts it.
CREATE UNIQUE INDEX workflow_runs_active ON workflow_runs (workflow_name, trigger_id) WHERE active_rank < 3;
-- The lists: filter and order in one index each.
CREATE INDEX workflow_runs_active_first ON workflow_runs (active_rank, started_at DESC, id DESC);
CREATE INDEX workflow_runs_by_status ON workflow_runs (status, started_at DESC, id DESC);
CREATE INDEX workflow_runs_by_name ON workflow_runs (workflow_name, started_at DESC, id DESC);
CREATE INDEX workflow_runs_by_repo ON workflow_runs (COALESCE(owner, ''), repo, started_at DESC, id DESC);
CREATE INDEX workflow_runs_by_trigger ON workflow_runs (trigger_id, started_at DESC, id DESC);
CREATE INDEX workflow_runs_started_at ON workflow_runs (started_at DESC, id DESC);
-- The queue, first come first served.
CREATE INDEX workflow_runs_queue ON workflow_runs (queue_ord) WHERE queue_ord IS NOT NULL;

-- The next place in the queue. Who starts or admits a run writes this row first, so that two who count the running never
-- do so at once.
CREATE TABLE workflow_queue (
    id       INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
    next_ord INTEGER NOT NULL CHECK (next_ord >= 0)
) STRICT;

INSERT INTO workflow_queue (id, next_ord) VALUES (1, 0);

-- What set a run off, as JSON. It never changes.
CREATE TABLE workflow_run_bodies (
    run_id  TEXT NOT NULL PRIMARY KEY REFERENCES workflow_runs (id) ON DELETE CASCADE,
    context TEXT CHECK (length(CAST(context AS BLOB)) <= 1048576)
) STRICT;

-- What one phase leaves to the next, as JSON: a row per key, so that a merge writes what it changes and no more.
CREATE TABLE workflow_run_scratch (
    run_id TEXT NOT NULL REFERENCES workflow_runs (id) ON DELETE CASCADE,
    key    TEXT NOT NULL CHECK (length(CAST(key AS BLOB)) <= 1024),
    value  TEXT NOT NULL CHECK (length(CAST(value AS BLOB)) BETWEEN 1 AND 65536),
    PRIMARY KEY (run_id, key)
) STRICT;

-- The phases that ended, as JSON, in order. A label may come again; its last entry counts.
CREATE TABLE workflow_run_phases (
    run_id TEXT NOT NULL REFERENCES workflow_runs (id) ON DELETE CASCADE,
    ord    INTEGER NOT NULL CHECK (ord >= 0),
    entry  TEXT NOT NULL CHECK (length(CAST(entry AS BLOB)) BETWEEN 2 AND 131072),
    PRIMARY KEY (run_id, ord)
) STRICT;

-- How the nodes of a run stand that is a graph, as JSON.
CREATE TABLE workflow_run_nodes (
    run_id TEXT NOT NULL REFERENCES workflow_runs (id) ON DELETE CASCADE,
    node   TEXT NOT NULL CHECK (length(CAST(node AS BLOB)) BETWEEN 1 AND 1024),
    status TEXT NOT NULL CHECK (length(CAST(status AS BLOB)) BETWEEN 1 AND 65536),
    PRIMARY KEY (run_id, node)
) STRICT;

-- One row per execution of a phase, or turn of a chat: the ledger that says what is done. What is not known is nothing,
-- which is not zero.
CREATE TABLE executions (
    id                          TEXT NOT NULL PRIMARY KEY CHECK (length(CAST(id AS BLOB)) BETWEEN 1 AND 128),
    home_id                     TEXT NOT NULL CHECK (length(home_id) = 36),
    trigger_type                TEXT NOT NULL CHECK (trigger_type IN ('webhook', 'cron', 'chat', 'api', 'cli')),
    trigger_id                  TEXT NOT NULL CHECK (length(CAST(trigger_id AS BLOB)) BETWEEN 1 AND 1024),
    skill                       TEXT NOT NULL CHECK (length(CAST(skill AS BLOB)) BETWEEN 1 AND 385),
    owner                       TEXT CHECK (length(CAST(owner AS BLOB)) BETWEEN 1 AND 1024),
    repo                        TEXT CHECK (length(CAST(repo AS BLOB)) BETWEEN 1 AND 1024),
    issue_number                INTEGER CHECK (issue_number >= 0),
    started_at                  TEXT NOT NULL CHECK (length(started_at) = 27),
    finished_at                 TEXT CHECK (length(finished_at) = 27),
    success                     INTEGER CHECK (success IN (0, 1)),
    error                       TEXT CHECK (length(CAST(error AS BLOB)) <= 16384),
    turns                       INTEGER CHECK (turns >= 0),
    duration_ms                 INTEGER CHECK (duration_ms >= 0),
    session_id                  TEXT CHECK (length(CAST(session_id AS BLOB)) BETWEEN 1 AND 128),
    cost_picos                  INTEGER CHECK (cost_picos >= 0),
    input_tokens                INTEGER CHECK (input_tokens >= 0),
    cache_creation_input_tokens INTEGER CHECK (cache_creation_input_tokens >= 0),
    cache_read_input_tokens     INTEGER CHECK (cache_read_input_tokens >= 0),
    output_tokens               INTEGER CHECK (output_tokens >= 0),
    api_duration_ms             INTEGER CHECK (api_duration_ms >= 0),
    stop_reason                 TEXT CHECK (length(CAST(stop_reason AS BLOB)) BETWEEN 1 AND 128),
    workflow_run_id             TEXT REFERENCES workflow_runs (id),
    triggered_by                TEXT CHECK (length(CAST(triggered_by AS BLOB)) BETWEEN 1 AND 1024),
    CHECK ((finished_at IS NULL) = (success IS NULL))
) STRICT;

-- A phase of a run is in flight once.
CREATE UNIQUE INDEX executions_in_flight ON executions (workflow_run_id, skill)
    WHERE finished_at IS NULL AND workflow_run_id IS NOT NULL;
CREATE INDEX executions_by_trigger ON executions (trigger_type, trigger_id, started_at, id);
CREATE INDEX executions_by_skill ON executions (skill, started_at, id);
CREATE INDEX executions_by_run ON executions (workflow_run_id, skill, started_at, id);
-- What failed, newest first, for whoever looks for an error.
CREATE INDEX executions_with_error ON executions (started_at DESC, id DESC) WHERE error IS NOT NULL;

-- The last text of an execution; of one that is too long the tail, and the whole as a blob of that home.
CREATE TABLE execution_bodies (
    execution_id TEXT NOT NULL PRIMARY KEY REFERENCES executions (id) ON DELETE CASCADE,
    output_text  TEXT NOT NULL CHECK (length(CAST(output_text AS BLOB)) <= 1048576),
    output_bytes INTEGER NOT NULL CHECK (output_bytes >= 0),
    output_blob  TEXT CHECK (length(output_blob) = 64),
    home_id      TEXT CHECK (length(home_id) = 36),
    CHECK ((output_blob IS NULL) = (home_id IS NULL))
) STRICT;

CREATE INDEX execution_bodies_in_blobs ON execution_bodies (output_blob) WHERE output_blob IS NOT NULL;

-- Executions by the quarter of an hour they began in, and by workflow; kept in the transaction of the execution.
CREATE TABLE execution_rollups (
    bucket                      TEXT NOT NULL CHECK (length(bucket) = 27),
    workflow                    TEXT NOT NULL CHECK (length(CAST(workflow AS BLOB)) BETWEEN 1 AND 256),
    started                     INTEGER NOT NULL CHECK (started >= 0),
    succeeded                   INTEGER NOT NULL CHECK (succeeded >= 0),
    failed                      INTEGER NOT NULL CHECK (failed >= 0),
    skipped                     INTEGER NOT NULL CHECK (skipped >= 0),
    deferred                    INTEGER NOT NULL CHECK (deferred >= 0),
    turns                       INTEGER NOT NULL CHECK (turns >= 0),
    duration_ms                 INTEGER NOT NULL CHECK (duration_ms >= 0),
    cost_picos                  INTEGER NOT NULL CHECK (cost_picos >= 0),
    input_tokens                INTEGER NOT NULL CHECK (input_tokens >= 0),
    cache_creation_input_tokens INTEGER NOT NULL CHECK (cache_creation_input_tokens >= 0),
    cache_read_input_tokens     INTEGER NOT NULL CHECK (cache_read_input_tokens >= 0),
    output_tokens               INTEGER NOT NULL CHECK (output_tokens >= 0),
    PRIMARY KEY (bucket, workflow)
) STRICT, WITHOUT ROWID;

-- Gates: what a run waits for a person to say, and what was said.
CREATE TABLE workflow_approvals (
    id                  TEXT NOT NULL PRIMARY KEY CHECK (length(CAST(id AS BLOB)) BETWEEN 1 AND 128),
    workflow_run_id     TEXT NOT NULL REFERENCES workflow_runs (id),
    gate                TEXT NOT NULL CHECK (length(CAST(gate AS BLOB)) BETWEEN 1 AND 128),
    summary             TEXT NOT NULL CHECK (length(CAST(summary AS BLOB)) <= 16384),
    status              TEXT NOT NULL DEFAULT 'pending' CHECK (status IN (
        'pending', 'approved', 'rejected', 'answered', 'expired')),
    kind                TEXT NOT NULL DEFAULT 'approve' CHECK (kind IN ('approve', 'reply')),
    requested_by        TEXT CHECK (length(CAST(requested_by AS BLOB)) BETWEEN 1 AND 1024),
    responded_by        TEXT CHECK (length(CAST(responded_by AS BLOB)) BETWEEN 1 AND 1024),
    response            TEXT CHECK (length(CAST(response AS BLOB)) <= 65536),
    responded_at        TEXT CHECK (length(responded_at) = 27),
    created_at          TEXT NOT NULL CHECK (length(created_at) = 27),
    content_hash        TEXT CHECK (length(CAST(content_hash AS BLOB)) BETWEEN 1 AND 128),
    expires_at          TEXT CHECK (length(expires_at) = 27),
    consumed_at         TEXT CHECK (length(consumed_at) = 27),
    loop_key            TEXT CHECK (length(CAST(loop_key AS BLOB)) BETWEEN 1 AND 128),
    iteration           INTEGER CHECK (iteration >= 0),
    output_execution_id TEXT CHECK (length(CAST(output_execution_id AS BLOB)) BETWEEN 1 AND 128),
    CHECK ((responded_at IS NULL) = (status = 'pending')),
    CHECK (consumed_at IS NULL OR status IN ('approved', 'answered')),
    CHECK ((kind = 'approve' AND status <> 'answered') OR (kind = 'reply' AND status NOT IN ('approved', 'rejected')))
) STRICT;

-- A run waits at one gate at a time.
CREATE UNIQUE INDEX workflow_approvals_pending ON workflow_approvals (workflow_run_id) WHERE status = 'pending';
CREATE INDEX workflow_approvals_by_run ON workflow_approvals (workflow_run_id, created_at, id);
CREATE INDEX workflow_approvals_by_status ON workflow_approvals (status, created_at DESC, id DESC);
CREATE INDEX workflow_approvals_newest ON workflow_approvals (created_at DESC, id DESC);
-- Answers that no resumed run has taken note of.
CREATE INDEX workflow_approvals_unconsumed ON workflow_approvals (workflow_run_id, id)
    WHERE consumed_at IS NULL AND status IN ('approved', 'answered');
CREATE INDEX workflow_approvals_expiring ON workflow_approvals (expires_at, id)
    WHERE responded_at IS NULL AND expires_at IS NOT NULL;

-- Workflows that are switched off, or were. No row: on.
CREATE TABLE workflow_overrides (
    name       TEXT NOT NULL PRIMARY KEY CHECK (length(CAST(name AS BLOB)) BETWEEN 1 AND 256),
    enabled    INTEGER NOT NULL DEFAULT 1 CHECK (enabled IN (0, 1)),
    updated_at TEXT NOT NULL CHECK (length(updated_at) = 27),
    updated_by TEXT CHECK (length(CAST(updated_by AS BLOB)) BETWEEN 1 AND 1024)
) STRICT, WITHOUT ROWID;

-- Runs and executions with all they have in one row each, for who looks with a client of the database. An SQLite that is
-- years old must be able to read them, or it can read nothing here: no ORDER BY inside of an aggregate.
CREATE VIEW workflow_runs_whole AS
SELECT r.id, r.workflow_name, r.trigger_id, r.repo, r.issue_number, r.current_phase,
    '[' || COALESCE((SELECT group_concat(p.entry, ',')
        FROM (SELECT entry FROM workflow_run_phases WHERE run_id = r.id ORDER BY ord) p), '') || ']' AS phase_history,
    r.status,
    (SELECT b.context FROM workflow_run_bodies b WHERE b.run_id = r.id) AS context,
    '{' || COALESCE((SELECT group_concat(json_quote(s.key) || ':' || s.value, ',')
        FROM (SELECT key, value FROM workflow_run_scratch WHERE run_id = r.id ORDER BY key) s), '') || '}' AS scratch,
    '{' || COALESCE((SELECT group_concat(json_quote(n.node) || ':' || n.status, ',')
        FROM (SELECT node, status FROM workflow_run_nodes WHERE run_id = r.id ORDER BY node) n), '') || '}' AS node_statuses,
    r.restart_count, r.started_at, r.updated_at, r.finished_at, r.owner, r.session_id, r.error, r.triggered_by,
    CAST(r.cost_picos AS DOUBLE PRECISION) / 1000000000000 AS cost_usd, r.tokens
FROM workflow_runs r;

CREATE VIEW executions_whole AS
SELECT e.id, e.trigger_type, e.trigger_id, e.skill, e.repo, e.issue_number, e.started_at, e.finished_at, e.success, e.error,
    e.turns, e.duration_ms, e.session_id, CAST(e.cost_picos AS DOUBLE PRECISION) / 1000000000000 AS cost_usd,
    e.input_tokens, e.cache_creation_input_tokens, e.cache_read_input_tokens, e.output_tokens, e.api_duration_ms,
    e.stop_reason, e.workflow_run_id,
    (SELECT b.output_text FROM execution_bodies b WHERE b.execution_id = e.id) AS output_text, e.owner, e.triggered_by
FROM executions e;
