-- One table for everything that can be asked again under an operation id, appends and changes of rows alike. An append owns
-- the place of its lines: no other operation can claim it. The tables operations and transitions are no longer written or
-- read.
CREATE TABLE idempotency (
    scope         TEXT NOT NULL CHECK (length(CAST(scope AS BLOB)) BETWEEN 1 AND 256),
    operation_id  TEXT NOT NULL CHECK (length(CAST(operation_id AS BLOB)) BETWEEN 1 AND 128),
    request_hash  BLOB NOT NULL CHECK (length(request_hash) = 32),
    answer        TEXT CHECK (length(CAST(answer AS BLOB)) <= 65536),
    created_at    TEXT NOT NULL CHECK (length(created_at) = 27),
    session_id    TEXT REFERENCES sessions (id) ON DELETE CASCADE,
    lines_done    INTEGER NOT NULL DEFAULT 0 CHECK (lines_done >= 0),
    epoch         INTEGER CHECK (epoch >= 0),
    from_position INTEGER CHECK (from_position >= 0),
    to_position   INTEGER CHECK (to_position > from_position),
    PRIMARY KEY (scope, operation_id),
    CHECK ((epoch IS NULL) = (from_position IS NULL) AND (to_position IS NULL OR epoch IS NOT NULL)),
    CHECK (epoch IS NULL OR session_id IS NOT NULL)
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX idempotency_places ON idempotency (session_id, epoch, from_position) WHERE to_position IS NOT NULL;
-- What goes with a session, and what expires.
CREATE INDEX idempotency_by_session ON idempotency (session_id) WHERE session_id IS NOT NULL;
CREATE INDEX idempotency_by_age ON idempotency (created_at);

-- A retry of what an older version did is still known. It did not say where the lines of an append end: a retry looks for
-- them at their position. Its ids of changes were unique among all commands.
INSERT INTO idempotency (scope, operation_id, request_hash, created_at, session_id, lines_done, epoch, from_position)
    SELECT 'log/' || session_id, operation_id, content_hash, created_at, session_id, done_lines, epoch, position
    FROM operations;
INSERT INTO idempotency (scope, operation_id, request_hash, answer, created_at)
    SELECT 'any', operation_id, content_hash, answer, created_at FROM transitions;

-- Every path that a log of a home ever had, its case folded. A path is never given to a second session.
CREATE TABLE log_paths (
    home_id    TEXT NOT NULL CHECK (length(home_id) = 36),
    log_key    TEXT NOT NULL CHECK (length(CAST(log_key AS BLOB)) BETWEEN 1 AND 4096),
    session_id TEXT NOT NULL CHECK (length(CAST(session_id AS BLOB)) BETWEEN 1 AND 128),
    PRIMARY KEY (home_id, log_key)
) STRICT, WITHOUT ROWID;

INSERT INTO log_paths (home_id, log_key, session_id) SELECT home_id, log_key, id FROM sessions;

-- The epoch that the next new log begins with: above those of all logs that were deleted, so that no cursor of a deleted
-- session means a place in another.
CREATE TABLE log_epochs (
    id         INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
    next_epoch INTEGER NOT NULL CHECK (next_epoch >= 0)
) STRICT;

INSERT INTO log_epochs (id, next_epoch) SELECT 1, COALESCE(MAX(epoch) + 1, 0) FROM repairs WHERE action = 'deleted';

-- Executions by the quarter of an hour they began in, by workflow, and on a server by a slot: a row of one workflow that all
-- write would make them wait for each other and run again. The table execution_rollups is no longer written or read.
CREATE TABLE execution_rollup_slots (
    bucket                      TEXT NOT NULL CHECK (length(bucket) = 27),
    workflow                    TEXT NOT NULL CHECK (length(CAST(workflow AS BLOB)) BETWEEN 1 AND 256),
    slot                        INTEGER NOT NULL CHECK (slot >= 0),
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
    PRIMARY KEY (bucket, workflow, slot)
) STRICT, WITHOUT ROWID;

INSERT INTO execution_rollup_slots (bucket, workflow, slot, started, succeeded, failed, skipped, deferred, turns, duration_ms, cost_picos,
    input_tokens, cache_creation_input_tokens, cache_read_input_tokens, output_tokens)
    SELECT bucket, workflow, 0, started, succeeded, failed, skipped, deferred, turns, duration_ms, cost_picos,
    input_tokens, cache_creation_input_tokens, cache_read_input_tokens, output_tokens
    FROM execution_rollups;

-- A resumed run that finds no free slot waits before every run that has not begun: rank 0 comes before rank 1.
ALTER TABLE workflow_runs ADD COLUMN queue_rank INTEGER NOT NULL DEFAULT 1 CHECK (queue_rank IN (0, 1));
DROP INDEX workflow_runs_queue;
CREATE INDEX workflow_runs_queue ON workflow_runs (queue_rank, queue_ord) WHERE queue_ord IS NOT NULL;

-- A repository is looked for by its name alone, too, whoever owns it.
CREATE INDEX workflow_runs_by_bare_repo ON workflow_runs ((repo || ''), started_at DESC, id DESC);

-- The claim that an execution was begun under: a claim of the same run closes what an earlier one left in flight, and
-- nothing else.
ALTER TABLE executions ADD COLUMN fence INTEGER NOT NULL DEFAULT 0 CHECK (fence >= 0);

-- The list of sessions in the order they were made: a key that never changes, so that a walk over its pages misses none.
CREATE INDEX sessions_by_creation ON sessions (created_at DESC, id DESC) WHERE deleted_at IS NULL;

-- A platform's message id stands for one message of a conversation (platform, channel, thread and user), in whichever of its
-- chats that is: what is delivered again after a reset, or after a chat became idle, is known. Messages that were stored twice
-- before stay; their id stands for the first. Sums over 2048 bytes would not fit an index of PostgreSQL.
CREATE TABLE messaging_deliveries (
    platform            TEXT NOT NULL CHECK (length(CAST(platform AS BLOB)) BETWEEN 1 AND 128),
    channel_id          TEXT NOT NULL CHECK (length(CAST(channel_id AS BLOB)) BETWEEN 1 AND 1024),
    thread_id           TEXT NOT NULL CHECK (length(CAST(thread_id AS BLOB)) <= 1024),
    user_id             TEXT NOT NULL CHECK (length(CAST(user_id AS BLOB)) BETWEEN 1 AND 1024),
    platform_message_id TEXT NOT NULL CHECK (length(CAST(platform_message_id AS BLOB)) BETWEEN 1 AND 1024),
    message_id          INTEGER NOT NULL REFERENCES messaging_messages (id) ON DELETE CASCADE,
    PRIMARY KEY (platform, channel_id, thread_id, user_id, platform_message_id)
) STRICT, WITHOUT ROWID;

INSERT INTO messaging_deliveries (platform, channel_id, thread_id, user_id, platform_message_id, message_id)
SELECT s.platform, s.channel_id, s.thread_id, s.user_id, m.platform_message_id, MIN(m.id)
FROM messaging_messages m JOIN messaging_sessions s ON s.id = m.session_id
WHERE m.platform_message_id IS NOT NULL AND length(CAST(s.platform || s.channel_id || s.thread_id || s.user_id
    || m.platform_message_id AS BLOB)) <= 2048
GROUP BY s.platform, s.channel_id, s.thread_id, s.user_id, m.platform_message_id;

-- From when on the times of a schedule count, so that a clock that was ahead and is corrected loses none of them.
ALTER TABLE cron_ticks ADD COLUMN from_at TEXT CHECK (length(from_at) = 27);

-- Lists by what they show, newest first. Each holds only sessions that say so: adding items writes the index of a session
-- that has an agent, and none of one that has not.
CREATE INDEX sessions_by_agent ON sessions (agent_name, updated_at DESC, id DESC)
    WHERE agent_name IS NOT NULL AND deleted_at IS NULL;
CREATE INDEX sessions_by_playbook ON sessions (playbook_name, updated_at DESC, id DESC)
    WHERE playbook_name IS NOT NULL AND deleted_at IS NULL;
CREATE INDEX sessions_by_kind ON sessions (invocation_kind, updated_at DESC, id DESC)
    WHERE invocation_kind IS NOT NULL AND deleted_at IS NULL;
CREATE INDEX sessions_by_cwd ON sessions (cwd, updated_at DESC, id DESC)
    WHERE cwd IS NOT NULL AND deleted_at IS NULL;
CREATE INDEX sessions_by_source ON sessions (source_kind, updated_at DESC, id DESC)
    WHERE source_kind <> 'live' AND deleted_at IS NULL;

-- Messages and progressions as lionagi's tables have them, for those who look with a client of the database: times are
-- seconds, the embedding stands with its message, and a collection is the ids of all messages that a history has. The
-- collection of a session's own progression is its pool. A message in a blob has no content here.
CREATE VIEW messages_whole AS
SELECT m.id,
    CAST(strftime('%s', substr(m.created_at, 1, 19)) AS INTEGER)
        + CAST(substr(m.created_at, 21, 6) AS REAL) / 1000000 AS created_at,
    m.node_metadata, m.content, e.embedding, m.sender, m.recipient, m.channel, m.role, m.lion_class
FROM messages m LEFT JOIN message_embeddings e ON e.message_id = m.id;

CREATE VIEW progressions_whole AS
SELECT p.id,
    CAST(strftime('%s', substr(p.created_at, 1, 19)) AS INTEGER)
        + CAST(substr(p.created_at, 21, 6) AS REAL) / 1000000 AS created_at,
    '[' || COALESCE(CASE
        WHEN EXISTS (SELECT 1 FROM sessions e WHERE e.id = p.session_id AND e.progression_id = p.id) THEN
            (SELECT group_concat(json_quote(o.message_id), ',') FROM (
                SELECT i.message_id FROM pool_segments g JOIN progression_items i
                    ON i.progression_id = g.progression_id AND i.ord >= g.from_ord
                    AND (g.to_ord IS NULL OR i.ord < g.to_ord)
                WHERE g.session_id = p.session_id ORDER BY g.ord, i.ord) o)
        ELSE (WITH RECURSIVE seen (progression_id, parent_id, base_ord, end_ord) AS (
                SELECT p.id, p.parent_id, p.base_ord, 9223372036854775807
                UNION ALL
                SELECT q.id, q.parent_id, q.base_ord, s.base_ord FROM seen s JOIN progressions q ON q.id = s.parent_id
            )
            SELECT group_concat(json_quote(o.message_id), ',') FROM (
                SELECT i.message_id FROM seen s JOIN progression_items i
                    ON i.progression_id = s.progression_id AND i.ord < s.end_ord ORDER BY i.ord) o)
        END, '') || ']' AS collection
FROM progressions p;
