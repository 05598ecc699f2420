-- The whole current schema, for readers. A test compares it with the migrations; change both.

CREATE TABLE schema_meta (
    key   TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Sessions and their logs. unlink_due: the epoch was raised by a deletion of the log; a file at the path is of the previous
-- epoch.
CREATE TABLE sessions (
    id              TEXT NOT NULL PRIMARY KEY CHECK (length(CAST(id AS BLOB)) BETWEEN 1 AND 128),
    home_id         TEXT NOT NULL CHECK (length(home_id) = 36),
    created_at      TEXT NOT NULL CHECK (length(created_at) = 27),
    user_id         TEXT CHECK (length(CAST(user_id AS BLOB)) BETWEEN 1 AND 1024),
    name            TEXT CHECK (length(CAST(name AS BLOB)) BETWEEN 1 AND 1024),
    addressed       INTEGER NOT NULL CHECK (addressed IN (0, 1)),
    scope           TEXT NOT NULL CHECK (length(CAST(scope AS BLOB)) <= 1024),
    log_path        TEXT NOT NULL CHECK (length(CAST(log_path AS BLOB)) BETWEEN 1 AND 4096),
    log_key         TEXT NOT NULL CHECK (length(CAST(log_key AS BLOB)) BETWEEN 1 AND 4096),
    log_base        INTEGER NOT NULL DEFAULT 0 CHECK (log_base >= 0),
    log_epoch       INTEGER NOT NULL DEFAULT 0 CHECK (log_epoch >= 0),
    cwd             TEXT CHECK (length(CAST(cwd AS BLOB)) <= 4096),
    agent_name      TEXT CHECK (length(CAST(agent_name AS BLOB)) <= 1024),
    invocation_kind TEXT CHECK (invocation_kind IN ('agent', 'play', 'flow', 'fanout', 'show-play', 'engine')),
    playbook_name   TEXT CHECK (length(CAST(playbook_name AS BLOB)) <= 1024),
    show_topic      TEXT CHECK (length(CAST(show_topic AS BLOB)) <= 1024),
    show_play_name  TEXT CHECK (length(CAST(show_play_name AS BLOB)) <= 1024),
    artifacts_path  TEXT CHECK (length(CAST(artifacts_path AS BLOB)) <= 4096),
    source_kind     TEXT NOT NULL DEFAULT 'live' CHECK (source_kind IN (
        'live', 'imported_fs', 'imported_codex', 'imported_claude', 'imported_lastlight', 'imported_skillet',
        'imported_lionagi', 'imported_agentrylab', 'imported_nanoclaw')),
    status          TEXT CHECK (status IN (
        'running', 'completed', 'completed_empty', 'failed', 'timed_out', 'aborted', 'cancelled')),
    started_at      TEXT CHECK (length(started_at) = 27),
    updated_at      TEXT NOT NULL CHECK (length(updated_at) = 27),
    ended_at        TEXT CHECK (length(ended_at) = 27),
    first_msg_id    TEXT CHECK (length(CAST(first_msg_id AS BLOB)) <= 128),
    last_msg_id     TEXT CHECK (length(CAST(last_msg_id AS BLOB)) <= 128),
    progression_id  TEXT CHECK (length(CAST(progression_id AS BLOB)) <= 128),
    node_metadata   TEXT CHECK (length(CAST(node_metadata AS BLOB)) <= 65536),
    deleted_at      TEXT CHECK (length(deleted_at) = 27),
    unlink_due      INTEGER NOT NULL DEFAULT 0 CHECK (unlink_due IN (0, 1)),
    CHECK (addressed = 0 OR name IS NOT NULL),
    UNIQUE (home_id, log_key)
) STRICT;

-- One session per user and name among the addressed ones; an absent user counts as one user. A deleted session frees its
-- name.
CREATE UNIQUE INDEX sessions_addressed ON sessions (COALESCE(user_id, ''), name)
    WHERE addressed = 1 AND deleted_at IS NULL;
-- Session lists, newest first: filter and order in one index each.
CREATE INDEX sessions_newest ON sessions (updated_at DESC, id DESC) WHERE deleted_at IS NULL;
CREATE INDEX sessions_by_creation ON sessions (created_at DESC, id DESC) WHERE deleted_at IS NULL;
CREATE INDEX sessions_by_status ON sessions (status, updated_at DESC, id DESC)
    WHERE status IS NOT NULL AND deleted_at IS NULL;
CREATE INDEX sessions_by_user ON sessions (user_id, updated_at DESC, id DESC)
    WHERE user_id IS NOT NULL AND deleted_at IS NULL;
-- Lists by filter, newest first. Each index holds only rows with a value, so a session without an agent does not write
-- the index of agents.
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
CREATE INDEX sessions_deleted ON sessions (home_id, id, deleted_at) WHERE deleted_at IS NOT NULL;
CREATE INDEX sessions_unlink_due ON sessions (home_id, id) WHERE unlink_due = 1;
-- The logs of a home, in pages.
CREATE INDEX sessions_by_home ON sessions (home_id, id);

-- Lines of committed transitions that are not yet in their logs (R2). Few rows: deleting a session scans them. On a
-- server `seq` is drawn from a sequence.
CREATE TABLE outbox_lines (
    home_id    TEXT NOT NULL CHECK (length(home_id) = 36),
    session_id TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    seq        INTEGER NOT NULL CHECK (seq >= 0),
    uuid       TEXT NOT NULL CHECK (length(uuid) = 36),
    epoch      INTEGER NOT NULL CHECK (epoch >= 0),
    floor      INTEGER NOT NULL CHECK (floor >= 0),
    created_at TEXT NOT NULL CHECK (length(created_at) = 27),
    attempts   INTEGER NOT NULL DEFAULT 0 CHECK (attempts >= 0),
    last_error TEXT CHECK (length(CAST(last_error AS BLOB)) <= 16384),
    line       TEXT NOT NULL CHECK (length(CAST(line AS BLOB)) <= 65536),
    PRIMARY KEY (home_id, session_id, seq)
) STRICT, WITHOUT ROWID;

-- Marks: sessions whose derived rows may lag behind their logs, by the appending process (R6).
CREATE TABLE behind (
    session_id TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    process_id TEXT NOT NULL CHECK (length(process_id) = 36),
    home_id    TEXT NOT NULL CHECK (length(home_id) = 36),
    generation INTEGER NOT NULL CHECK (generation >= 0),
    pid        INTEGER NOT NULL CHECK (pid >= 0),
    marked_at  TEXT NOT NULL CHECK (length(marked_at) = 27),
    PRIMARY KEY (session_id, process_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX behind_by_home ON behind (home_id, session_id, process_id);

-- Repairs of damaged or torn logs. No foreign key: the record outlives its session.
CREATE TABLE repairs (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    session_id  TEXT NOT NULL CHECK (length(CAST(session_id AS BLOB)) BETWEEN 1 AND 128),
    home_id     TEXT NOT NULL CHECK (length(home_id) = 36),
    epoch       INTEGER NOT NULL CHECK (epoch >= 0),
    action      TEXT NOT NULL CHECK (action IN (
        'completed', 'quarantined', 'terminated', 'shorter', 'replaced', 'missing', 'rewritten', 'unsealed',
        'deleted')),
    position    INTEGER NOT NULL CHECK (position >= 0),
    bytes       INTEGER NOT NULL CHECK (bytes >= 0),
    hash        BLOB CHECK (length(hash) = 32),
    detail      TEXT CHECK (length(CAST(detail AS BLOB)) <= 16384),
    repaired_at TEXT NOT NULL CHECK (length(repaired_at) = 27),
    UNIQUE (session_id, epoch, action, position, bytes)
) STRICT;

CREATE INDEX repairs_by_session ON repairs (session_id, id);

-- Seals: hashes of synced ranges of a log. Nothing below the last seal may change (R7).
CREATE TABLE seals (
    session_id    TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    epoch         INTEGER NOT NULL CHECK (epoch >= 0),
    ord           INTEGER NOT NULL CHECK (ord >= 0),
    home_id       TEXT NOT NULL CHECK (length(home_id) = 36),
    from_position INTEGER NOT NULL CHECK (from_position >= 0),
    to_position   INTEGER NOT NULL CHECK (to_position > from_position),
    hash          BLOB NOT NULL CHECK (length(hash) = 32),
    sealed_at     TEXT NOT NULL CHECK (length(sealed_at) = 27),
    blocks        BLOB CHECK (length(blocks) <= 768),
    PRIMARY KEY (session_id, epoch, ord)
) STRICT, WITHOUT ROWID;

-- Operation ids of appends and changes of rows. An append owns the position of its lines: no other operation can claim
-- it. Rows expire.
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
    CHECK ((epoch IS NULL) = (from_position IS NULL) AND (epoch IS NULL) = (to_position IS NULL)),
    CHECK (epoch IS NULL OR session_id IS NOT NULL)
) STRICT, WITHOUT ROWID;

-- One operation per place. The deletion of a session finds its rows here too.
CREATE UNIQUE INDEX idempotency_places ON idempotency (session_id, epoch, from_position) WHERE session_id IS NOT NULL;
CREATE INDEX idempotency_by_age ON idempotency (created_at);

-- Every path that a log of a home ever had, case folded. A path is never given to a second session.
CREATE TABLE log_paths (
    home_id    TEXT NOT NULL CHECK (length(home_id) = 36),
    log_key    TEXT NOT NULL CHECK (length(CAST(log_key AS BLOB)) BETWEEN 1 AND 4096),
    session_id TEXT NOT NULL CHECK (length(CAST(session_id AS BLOB)) BETWEEN 1 AND 128),
    PRIMARY KEY (home_id, log_key)
) STRICT, WITHOUT ROWID;

-- The epoch of the next new log: above those of all deleted logs, so that no cursor of a deleted session is valid in
-- another. The migration inserts the row.
CREATE TABLE log_epochs (
    id         INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
    next_epoch INTEGER NOT NULL CHECK (next_epoch >= 0)
) STRICT;

-- Conversations: what the model sees. The migration inserts the message types 0 to 5.

-- Class of a message in the program that made it; 0 is unknown.
CREATE TABLE message_types (
    type_id    INTEGER PRIMARY KEY AUTOINCREMENT,
    lion_class TEXT NOT NULL UNIQUE CHECK (length(CAST(lion_class AS BLOB)) BETWEEN 1 AND 1024)
) STRICT;

-- Messages are independent of sessions; progressions refer to them. The content is JSON as given, or a blob of that home.
CREATE TABLE messages (
    id            TEXT NOT NULL PRIMARY KEY CHECK (length(CAST(id AS BLOB)) BETWEEN 1 AND 128),
    created_at    TEXT NOT NULL CHECK (length(created_at) = 27),
    node_metadata TEXT CHECK (length(CAST(node_metadata AS BLOB)) <= 65536),
    content       TEXT CHECK (length(CAST(content AS BLOB)) BETWEEN 1 AND 262144),
    content_blob  TEXT CHECK (length(content_blob) = 64),
    home_id       TEXT CHECK (length(home_id) = 36),
    sender        TEXT CHECK (length(CAST(sender AS BLOB)) BETWEEN 1 AND 1024),
    recipient     TEXT CHECK (length(CAST(recipient AS BLOB)) BETWEEN 1 AND 1024),
    channel       TEXT CHECK (length(CAST(channel AS BLOB)) BETWEEN 1 AND 1024),
    role          TEXT NOT NULL CHECK (length(CAST(role AS BLOB)) <= 128 AND trim(role) <> ''),
    lion_class    INTEGER NOT NULL DEFAULT 0 REFERENCES message_types (type_id),
    compactable   INTEGER NOT NULL CHECK (compactable IN (0, 1)),
    CHECK ((content IS NULL) <> (content_blob IS NULL)),
    CHECK ((content_blob IS NULL) = (home_id IS NULL))
) STRICT;

-- Blobs in use.
CREATE INDEX messages_in_blobs ON messages (content_blob) WHERE content_blob IS NOT NULL;

-- Embeddings, apart from their messages: a search scans them without reading message content. Rows are in the order of
-- `seq`.
CREATE TABLE message_embeddings (
    seq        INTEGER PRIMARY KEY AUTOINCREMENT,
    message_id TEXT NOT NULL UNIQUE REFERENCES messages (id) ON DELETE CASCADE,
    embedding  BLOB NOT NULL CHECK (length(embedding) BETWEEN 4 AND 65536 AND length(embedding) % 4 = 0)
) STRICT;

-- A sequence of messages: the parent's items below base_ord, then its own. Forks copy nothing.
CREATE TABLE progressions (
    id         TEXT NOT NULL PRIMARY KEY CHECK (length(CAST(id AS BLOB)) BETWEEN 1 AND 128),
    created_at TEXT NOT NULL CHECK (length(created_at) = 27),
    session_id TEXT REFERENCES sessions (id) ON DELETE CASCADE,
    parent_id  TEXT REFERENCES progressions (id),
    base_ord   INTEGER NOT NULL CHECK (base_ord >= 0),
    CHECK ((parent_id IS NULL) = (base_ord = 0))
) STRICT, WITHOUT ROWID;

-- Children of a progression, and the progressions of a session.
CREATE INDEX progressions_by_parent ON progressions (parent_id, base_ord);
CREATE INDEX progressions_by_session ON progressions (session_id);

CREATE TABLE progression_items (
    progression_id TEXT NOT NULL REFERENCES progressions (id) ON DELETE CASCADE,
    ord            INTEGER NOT NULL CHECK (ord >= 0),
    message_id     TEXT NOT NULL REFERENCES messages (id),
    PRIMARY KEY (progression_id, ord)
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX progression_items_by_message ON progression_items (message_id, progression_id);

-- The order in which messages came into a session, as ranges of its progressions. The last range may be open: appending
-- to the same branch again writes nothing here. Messages on no branch, such as summaries, are in a progression of the
-- session.
CREATE TABLE pool_segments (
    session_id     TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    ord            INTEGER NOT NULL CHECK (ord >= 0),
    progression_id TEXT NOT NULL REFERENCES progressions (id) ON DELETE CASCADE,
    from_ord       INTEGER NOT NULL CHECK (from_ord >= 0),
    to_ord         INTEGER CHECK (to_ord > from_ord),
    PRIMARY KEY (session_id, ord)
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX pool_segments_by_progression ON pool_segments (progression_id, from_ord);

-- Branches of a session's conversation. forked_at_ord and forked_at_seq say how much of the parent's history and of the
-- parent's compactions a branch starts with.
CREATE TABLE branches (
    id               TEXT NOT NULL PRIMARY KEY CHECK (length(CAST(id AS BLOB)) BETWEEN 1 AND 128),
    created_at       TEXT NOT NULL CHECK (length(created_at) = 27),
    node_metadata    TEXT CHECK (length(CAST(node_metadata AS BLOB)) <= 65536),
    user_id          TEXT CHECK (length(CAST(user_id AS BLOB)) BETWEEN 1 AND 1024),
    name             TEXT CHECK (length(CAST(name AS BLOB)) BETWEEN 1 AND 1024),
    session_id       TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    progression_id   TEXT NOT NULL UNIQUE REFERENCES progressions (id),
    system_msg_id    TEXT REFERENCES messages (id),
    parent_branch_id TEXT REFERENCES branches (id),
    forked_at_ord    INTEGER CHECK (forked_at_ord >= 0),
    forked_at_seq    INTEGER CHECK (forked_at_seq >= 0),
    is_default       INTEGER NOT NULL CHECK (is_default IN (0, 1)),
    CHECK ((parent_branch_id IS NULL) = (forked_at_ord IS NULL)),
    CHECK ((parent_branch_id IS NULL) = (forked_at_seq IS NULL))
) STRICT;

-- The default branch of a session.
CREATE UNIQUE INDEX branches_default ON branches (session_id) WHERE is_default = 1;
CREATE INDEX branches_by_session ON branches (session_id, id);
CREATE INDEX branches_by_name ON branches (session_id, name, id);
CREATE INDEX branches_by_parent ON branches (parent_branch_id, id);
CREATE INDEX branches_by_system_message ON branches (system_msg_id) WHERE system_msg_id IS NOT NULL;

-- Summaries of ranges of a branch and undone summaries, in order. Rows are only added.
CREATE TABLE compactions (
    branch_id        TEXT NOT NULL REFERENCES branches (id) ON DELETE CASCADE,
    seq              INTEGER NOT NULL CHECK (seq >= 1),
    from_ord         INTEGER NOT NULL CHECK (from_ord >= 0),
    to_ord           INTEGER NOT NULL CHECK (to_ord > from_ord),
    summary_msg_id   TEXT REFERENCES messages (id),
    undoes_branch_id TEXT CHECK (length(CAST(undoes_branch_id AS BLOB)) BETWEEN 1 AND 128),
    undoes_seq       INTEGER CHECK (undoes_seq >= 1),
    covers_all       INTEGER NOT NULL CHECK (covers_all IN (0, 1)),
    created_at       TEXT NOT NULL CHECK (length(created_at) = 27),
    PRIMARY KEY (branch_id, seq),
    CHECK ((summary_msg_id IS NULL) = (undoes_seq IS NOT NULL)),
    CHECK ((undoes_branch_id IS NULL) = (undoes_seq IS NULL))
) STRICT, WITHOUT ROWID;

CREATE INDEX compactions_by_summary ON compactions (summary_msg_id) WHERE summary_msg_id IS NOT NULL;

-- History of a session's status.
CREATE TABLE status_transitions (
    id              INTEGER PRIMARY KEY AUTOINCREMENT,
    session_id      TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    previous_status TEXT CHECK (previous_status IN (
        'running', 'completed', 'completed_empty', 'failed', 'timed_out', 'aborted', 'cancelled')),
    status          TEXT NOT NULL CHECK (status IN (
        'running', 'completed', 'completed_empty', 'failed', 'timed_out', 'aborted', 'cancelled')),
    reason_code     TEXT CHECK (length(CAST(reason_code AS BLOB)) BETWEEN 1 AND 128),
    reason          TEXT CHECK (length(CAST(reason AS BLOB)) BETWEEN 1 AND 16384),
    actor           TEXT CHECK (length(CAST(actor AS BLOB)) BETWEEN 1 AND 1024),
    evidence        TEXT CHECK (length(CAST(evidence AS BLOB)) BETWEEN 1 AND 65536),
    created_at      TEXT NOT NULL CHECK (length(created_at) = 27)
) STRICT;

CREATE INDEX status_transitions_by_session ON status_transitions (session_id, id);

-- The process that runs a session. Start time, host and boot id tell it from another process with the same pid.
CREATE TABLE session_owners (
    session_id      TEXT NOT NULL PRIMARY KEY REFERENCES sessions (id) ON DELETE CASCADE,
    pid             INTEGER NOT NULL CHECK (pid >= 0),
    process_started TEXT CHECK (length(CAST(process_started AS BLOB)) BETWEEN 1 AND 128),
    host            TEXT CHECK (length(CAST(host AS BLOB)) BETWEEN 1 AND 1024),
    boot_id         TEXT CHECK (length(CAST(boot_id AS BLOB)) BETWEEN 1 AND 128),
    since           TEXT NOT NULL CHECK (length(since) = 27)
) STRICT, WITHOUT ROWID;

-- Inboxes: messages sent to a recipient on a channel, in commit order. kind 'id' is a session or branch by its id,
-- 'topic' a topic by its name: a named place that belongs to no session. No channel is ''.
CREATE TABLE inboxes (
    kind           TEXT NOT NULL CHECK (kind IN ('id', 'topic')),
    recipient      TEXT NOT NULL CHECK (length(CAST(recipient AS BLOB)) BETWEEN 1 AND 1024),
    channel        TEXT NOT NULL CHECK (length(CAST(channel AS BLOB)) <= 1024),
    progression_id TEXT NOT NULL UNIQUE REFERENCES progressions (id),
    PRIMARY KEY (kind, recipient, channel)
) STRICT, WITHOUT ROWID;

-- Cursors of readers: the first item of an inbox that a reader has not acknowledged.
CREATE TABLE inbox_cursors (
    kind       TEXT NOT NULL CHECK (kind IN ('id', 'topic')),
    recipient  TEXT NOT NULL CHECK (length(CAST(recipient AS BLOB)) BETWEEN 1 AND 1024),
    channel    TEXT NOT NULL CHECK (length(CAST(channel AS BLOB)) <= 1024),
    reader     TEXT NOT NULL CHECK (length(CAST(reader AS BLOB)) BETWEEN 1 AND 1024),
    ord        INTEGER NOT NULL CHECK (ord >= 0),
    updated_at TEXT NOT NULL CHECK (length(updated_at) = 27),
    PRIMARY KEY (kind, recipient, channel, reader)
) STRICT, WITHOUT ROWID;

-- Overrides of configured schedules. NULL: the configured value.
CREATE TABLE cron_overrides (
    name       TEXT NOT NULL PRIMARY KEY CHECK (length(CAST(name AS BLOB)) BETWEEN 1 AND 1024),
    enabled    INTEGER CHECK (enabled IN (0, 1)),
    schedule   TEXT CHECK (length(CAST(schedule AS BLOB)) BETWEEN 1 AND 1024),
    zone       TEXT CHECK (length(CAST(zone AS BLOB)) BETWEEN 1 AND 128),
    updated_at TEXT NOT NULL CHECK (length(updated_at) = 27),
    updated_by TEXT CHECK (length(CAST(updated_by AS BLOB)) BETWEEN 1 AND 1024)
) STRICT, WITHOUT ROWID;

-- How far the due times of a schedule were handled, and the time from which they count.
CREATE TABLE cron_ticks (
    name      TEXT NOT NULL PRIMARY KEY CHECK (length(CAST(name AS BLOB)) BETWEEN 1 AND 1024),
    ticked_at TEXT NOT NULL CHECK (length(ticked_at) = 27),
    from_at   TEXT CHECK (length(from_at) = 27)
) STRICT, WITHOUT ROWID;

-- One row per due time of a schedule. The process that inserts the row fires it; no other does.
CREATE TABLE cron_runs (
    id              TEXT NOT NULL PRIMARY KEY CHECK (length(id) = 36),
    name            TEXT NOT NULL CHECK (length(CAST(name AS BLOB)) BETWEEN 1 AND 1024),
    workflow        TEXT CHECK (length(CAST(workflow AS BLOB)) BETWEEN 1 AND 1024),
    due_at          TEXT NOT NULL CHECK (length(due_at) = 27),
    started_at      TEXT NOT NULL CHECK (length(started_at) = 27),
    finished_at     TEXT CHECK (length(finished_at) = 27),
    outcome         TEXT CHECK (outcome IN ('ok', 'nothing', 'failed', 'skipped')),
    error           TEXT CHECK (length(CAST(error AS BLOB)) BETWEEN 1 AND 16384),
    detail          TEXT CHECK (length(CAST(detail AS BLOB)) BETWEEN 1 AND 16384),
    workflow_run_id TEXT CHECK (length(CAST(workflow_run_id AS BLOB)) BETWEEN 1 AND 128),
    home_id         TEXT NOT NULL CHECK (length(home_id) = 36),
    process_id      TEXT NOT NULL CHECK (length(process_id) = 36),
    actor           TEXT CHECK (length(CAST(actor AS BLOB)) BETWEEN 1 AND 1024),
    CHECK ((finished_at IS NULL) = (outcome IS NULL)),
    UNIQUE (name, due_at)
) STRICT, WITHOUT ROWID;

CREATE INDEX cron_runs_by_due ON cron_runs (due_at, name);

-- Chats with a person on a platform. No thread is '', so that it too has at most one active chat.
CREATE TABLE messaging_sessions (
    id               TEXT NOT NULL PRIMARY KEY CHECK (length(CAST(id AS BLOB)) BETWEEN 1 AND 128),
    platform         TEXT NOT NULL CHECK (length(CAST(platform AS BLOB)) BETWEEN 1 AND 128),
    channel_id       TEXT NOT NULL CHECK (length(CAST(channel_id AS BLOB)) BETWEEN 1 AND 1024),
    thread_id        TEXT NOT NULL CHECK (length(CAST(thread_id AS BLOB)) <= 1024),
    user_id          TEXT NOT NULL CHECK (length(CAST(user_id AS BLOB)) BETWEEN 1 AND 1024),
    agent_session_id TEXT CHECK (length(CAST(agent_session_id AS BLOB)) BETWEEN 1 AND 128),
    created_at       TEXT NOT NULL CHECK (length(created_at) = 27),
    last_activity_at TEXT NOT NULL CHECK (length(last_activity_at) = 27),
    message_count    INTEGER NOT NULL DEFAULT 0 CHECK (message_count >= 0),
    active           INTEGER NOT NULL DEFAULT 1 CHECK (active IN (0, 1))
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX messaging_sessions_unique_active
    ON messaging_sessions (platform, channel_id, thread_id, user_id) WHERE active = 1;
CREATE INDEX messaging_sessions_by_activity ON messaging_sessions (last_activity_at, id);
CREATE INDEX messaging_sessions_by_platform ON messaging_sessions (platform, last_activity_at, id);
CREATE INDEX messaging_sessions_active ON messaging_sessions (last_activity_at, id) WHERE active = 1;
CREATE INDEX messaging_sessions_active_by_platform
    ON messaging_sessions (platform, last_activity_at, id) WHERE active = 1;
CREATE INDEX messaging_sessions_by_creation ON messaging_sessions (created_at, id);
CREATE INDEX messaging_sessions_by_platform_creation ON messaging_sessions (platform, created_at, id);

-- Messages of a chat, in the order of their ids.
CREATE TABLE messaging_messages (
    id                  INTEGER PRIMARY KEY AUTOINCREMENT,
    session_id          TEXT NOT NULL REFERENCES messaging_sessions (id) ON DELETE CASCADE,
    role                TEXT NOT NULL CHECK (role IN ('user', 'assistant')),
    content             TEXT NOT NULL CHECK (length(CAST(content AS BLOB)) <= 1048576),
    timestamp           TEXT NOT NULL CHECK (length(timestamp) = 27),
    platform_message_id TEXT CHECK (length(CAST(platform_message_id AS BLOB)) BETWEEN 1 AND 1024)
) STRICT;

CREATE INDEX messaging_messages_by_session ON messaging_messages (session_id, id);

-- A message that the platform delivers twice is stored once.
CREATE UNIQUE INDEX messaging_messages_once
    ON messaging_messages (session_id, platform_message_id) WHERE platform_message_id IS NOT NULL;

-- Deliveries: one message per platform message id and conversation (platform, channel, thread, user), in whichever chat
-- it is. A delivery repeated after a reset or an idle timeout is recognised. Keys over 2048 bytes in total are not
-- recorded: they do not fit an index of PostgreSQL.
CREATE TABLE messaging_deliveries (
    platform            TEXT NOT NULL CHECK (length(CAST(platform AS BLOB)) BETWEEN 1 AND 128),
    channel_id          TEXT NOT NULL CHECK (length(CAST(channel_id AS BLOB)) BETWEEN 1 AND 1024),
    thread_id           TEXT NOT NULL CHECK (length(CAST(thread_id AS BLOB)) <= 1024),
    user_id             TEXT NOT NULL CHECK (length(CAST(user_id AS BLOB)) BETWEEN 1 AND 1024),
    platform_message_id TEXT NOT NULL CHECK (length(CAST(platform_message_id AS BLOB)) BETWEEN 1 AND 1024),
    message_id          INTEGER NOT NULL REFERENCES messaging_messages (id) ON DELETE CASCADE,
    PRIMARY KEY (platform, channel_id, thread_id, user_id, platform_message_id)
) STRICT, WITHOUT ROWID;

-- Runs of workflows. Text that can grow is in tables of its own: lists never read it, a change of status never writes it.

-- One row per run. A change of status writes the indexes of active runs and of statuses, and no other.
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
    queue_rank       INTEGER NOT NULL DEFAULT 1 CHECK (queue_rank IN (0, 1)),
    queue_ord        INTEGER CHECK (queue_ord >= 0),
    queued_at        TEXT CHECK (length(queued_at) = 27),
    session_id       TEXT CHECK (length(CAST(session_id AS BLOB)) BETWEEN 1 AND 128),
    error            TEXT CHECK (length(CAST(error AS BLOB)) <= 16384),
    lease_owner      TEXT CHECK (length(CAST(lease_owner AS BLOB)) BETWEEN 1 AND 1024),
    lease_expires_at TEXT CHECK (length(lease_expires_at) = 27),
    fence            INTEGER NOT NULL DEFAULT 0 CHECK (fence >= 0),
    restart_count    INTEGER NOT NULL DEFAULT 0 CHECK (restart_count >= 0),
    restart_cap      INTEGER NOT NULL,
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

-- One active run per workflow and trigger.
CREATE UNIQUE INDEX workflow_runs_active ON workflow_runs (workflow_name, trigger_id) WHERE active_rank < 3;
-- Run lists: filter and order in one index each.
CREATE INDEX workflow_runs_by_status ON workflow_runs (status, started_at DESC, id DESC);
CREATE INDEX workflow_runs_by_name ON workflow_runs (workflow_name, started_at DESC, id DESC);
CREATE INDEX workflow_runs_by_repo ON workflow_runs (COALESCE(owner, ''), repo, started_at DESC, id DESC);
CREATE INDEX workflow_runs_by_trigger ON workflow_runs (trigger_id, started_at DESC, id DESC);
CREATE INDEX workflow_runs_started_at ON workflow_runs (started_at DESC, id DESC);
CREATE INDEX workflow_runs_by_bare_repo ON workflow_runs ((repo || ''), started_at DESC, id DESC);
-- The queue: resumed runs (rank 0) before new ones (rank 1), first come first served.
CREATE INDEX workflow_runs_queue ON workflow_runs (queue_rank, queue_ord) WHERE queue_ord IS NOT NULL;

-- The next place in the queue. Starting or admitting a run writes this row first: two transactions never count the
-- running runs at once. The migration inserts the row.
CREATE TABLE workflow_queue (
    id       INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
    next_ord INTEGER NOT NULL CHECK (next_ord >= 0)
) STRICT;

-- Context of a run, as JSON. It never changes.
CREATE TABLE workflow_run_bodies (
    run_id  TEXT NOT NULL PRIMARY KEY REFERENCES workflow_runs (id) ON DELETE CASCADE,
    context TEXT CHECK (length(CAST(context AS BLOB)) <= 1048576)
) STRICT;

-- Scratch of a run, as JSON: one row per key, so that a merge writes only what it changes.
CREATE TABLE workflow_run_scratch (
    run_id TEXT NOT NULL REFERENCES workflow_runs (id) ON DELETE CASCADE,
    key    TEXT NOT NULL CHECK (length(CAST(key AS BLOB)) <= 1024),
    value  TEXT NOT NULL CHECK (length(CAST(value AS BLOB)) BETWEEN 1 AND 65536),
    PRIMARY KEY (run_id, key)
) STRICT;

-- Finished phases, as JSON, in order. A label may repeat; its last entry counts.
CREATE TABLE workflow_run_phases (
    run_id TEXT NOT NULL REFERENCES workflow_runs (id) ON DELETE CASCADE,
    ord    INTEGER NOT NULL CHECK (ord >= 0),
    entry  TEXT NOT NULL CHECK (length(CAST(entry AS BLOB)) BETWEEN 2 AND 131072),
    PRIMARY KEY (run_id, ord)
) STRICT;

-- Node statuses of a run that is a graph, as JSON.
CREATE TABLE workflow_run_nodes (
    run_id TEXT NOT NULL REFERENCES workflow_runs (id) ON DELETE CASCADE,
    node   TEXT NOT NULL CHECK (length(CAST(node AS BLOB)) BETWEEN 1 AND 1024),
    status TEXT NOT NULL CHECK (length(CAST(status AS BLOB)) BETWEEN 1 AND 65536),
    PRIMARY KEY (run_id, node)
) STRICT;

-- One row per execution of a phase or turn of a chat: the ledger that resuming reads. Unknown values are NULL, not zero.
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
    fence                       INTEGER NOT NULL DEFAULT 0 CHECK (fence >= 0),
    CHECK ((finished_at IS NULL) = (success IS NULL))
) STRICT;

-- A phase of a run is in flight at most once.
CREATE UNIQUE INDEX executions_in_flight ON executions (workflow_run_id, skill)
    WHERE finished_at IS NULL AND workflow_run_id IS NOT NULL;
CREATE INDEX executions_by_trigger ON executions (trigger_type, trigger_id, started_at, id);
CREATE INDEX executions_by_run ON executions (workflow_run_id, skill, started_at, id);
CREATE INDEX executions_by_session ON executions (session_id) WHERE session_id IS NOT NULL;
-- Failed executions, newest first.
CREATE INDEX executions_with_error ON executions (started_at DESC, id DESC) WHERE error IS NOT NULL;

-- Output of an execution: the text, or its tail and the whole as a blob of that home.
CREATE TABLE execution_bodies (
    execution_id TEXT NOT NULL PRIMARY KEY REFERENCES executions (id) ON DELETE CASCADE,
    output_text  TEXT NOT NULL CHECK (length(CAST(output_text AS BLOB)) <= 1048576),
    output_bytes INTEGER NOT NULL CHECK (output_bytes >= 0),
    output_blob  TEXT CHECK (length(output_blob) = 64),
    home_id      TEXT CHECK (length(home_id) = 36),
    CHECK ((output_blob IS NULL) = (home_id IS NULL))
) STRICT;

CREATE INDEX execution_bodies_in_blobs ON execution_bodies (output_blob) WHERE output_blob IS NOT NULL;

-- Executions by quarter of an hour and workflow, written in the transaction of the execution. On a server they are spread
-- over slots: transactions that add to one row would wait for each other and run again.
CREATE TABLE execution_rollups (
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

-- Gates: what a run waits for a person to answer, and the answer.
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
CREATE INDEX workflow_approvals_expiring ON workflow_approvals (expires_at, id)
    WHERE responded_at IS NULL AND expires_at IS NOT NULL;

-- Workflow switches. No row: enabled.
CREATE TABLE workflow_overrides (
    name       TEXT NOT NULL PRIMARY KEY CHECK (length(CAST(name AS BLOB)) BETWEEN 1 AND 256),
    enabled    INTEGER NOT NULL DEFAULT 1 CHECK (enabled IN (0, 1)),
    updated_at TEXT NOT NULL CHECK (length(updated_at) = 27),
    updated_by TEXT CHECK (length(CAST(updated_by AS BLOB)) BETWEEN 1 AND 1024)
) STRICT, WITHOUT ROWID;

-- Runs and executions as one row each, for database clients. SQLite 3.40 must be able to read the schema: no ORDER BY
-- inside an aggregate.
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

-- DERIVED: folded from the log alone, and rebuilt by `state rebuild` (I3, I4).
CREATE TABLE catalog (
    session_id   TEXT NOT NULL PRIMARY KEY REFERENCES sessions (id) ON DELETE CASCADE,
    home_id      TEXT NOT NULL CHECK (length(home_id) = 36),
    epoch        INTEGER NOT NULL CHECK (epoch >= 0),
    position     INTEGER NOT NULL CHECK (position >= 0),
    line_hash    BLOB CHECK (length(line_hash) = 32),
    events       INTEGER NOT NULL CHECK (events >= 0),
    bytes        INTEGER NOT NULL CHECK (bytes >= 0),
    damaged      INTEGER NOT NULL CHECK (damaged >= 0),
    first_at     TEXT CHECK (length(first_at) = 27),
    last_at      TEXT CHECK (length(last_at) = 27),
    dialect      TEXT CHECK (dialect IN ('envelope', 'turns', 'transcript', 'claude', 'codex')),
    model        TEXT CHECK (length(CAST(model AS BLOB)) <= 128),
    title        TEXT CHECK (length(CAST(title AS BLOB)) <= 480),
    fold_version INTEGER NOT NULL DEFAULT 0 CHECK (fold_version >= 0),
    shared       INTEGER NOT NULL DEFAULT 0 CHECK (shared >= 0)
) STRICT, WITHOUT ROWID;

-- Rows written by an older or incomplete fold.
CREATE INDEX catalog_by_fold_version ON catalog (home_id, fold_version, session_id);

-- Sessions with responses that another session counts.
CREATE INDEX catalog_sharing ON catalog (session_id) WHERE shared > 0;

-- DERIVED: where the fold continues; apart from the catalog, so that lists never read it.
CREATE TABLE digests (
    session_id TEXT NOT NULL PRIMARY KEY REFERENCES sessions (id) ON DELETE CASCADE,
    epoch      INTEGER NOT NULL CHECK (epoch >= 0),
    position   INTEGER NOT NULL CHECK (position >= 0),
    digest     BLOB NOT NULL CHECK (length(digest) <= 1048576)
) STRICT;

-- DERIVED: tokens of a session by quarter hour (UTC), model and price class. An unknown quarter or model is ''.
CREATE TABLE usage_by_quarter (
    session_id     TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    quarter        TEXT NOT NULL CHECK (length(quarter) IN (0, 27)),
    model          TEXT NOT NULL CHECK (length(CAST(model AS BLOB)) <= 128),
    charge         TEXT NOT NULL CHECK (charge IN ('bare', 'stated', 'beyond_200k', 'over_272k')),
    responses      INTEGER NOT NULL CHECK (responses >= 0),
    input          INTEGER NOT NULL CHECK (input >= 0),
    output         INTEGER NOT NULL CHECK (output >= 0),
    cache_read     INTEGER NOT NULL CHECK (cache_read >= 0),
    cache_write_5m INTEGER NOT NULL CHECK (cache_write_5m >= 0),
    cache_write_1h INTEGER NOT NULL CHECK (cache_write_1h >= 0),
    reasoning      INTEGER NOT NULL CHECK (reasoning >= 0),
    cost_micros    INTEGER NOT NULL CHECK (cost_micros >= 0),
    cost_picos     INTEGER NOT NULL CHECK (cost_picos BETWEEN 0 AND 999999),
    PRIMARY KEY (session_id, quarter, model, charge)
) STRICT, WITHOUT ROWID;

CREATE INDEX usage_by_quarter_quarters ON usage_by_quarter (quarter, session_id);

-- DERIVED: the session that counts a response which several logs contain: the one with the largest weight, then the smallest
-- id.
CREATE TABLE responses (
    response   INTEGER NOT NULL PRIMARY KEY,
    session_id TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    weight     INTEGER NOT NULL DEFAULT 0 CHECK (weight >= 0)
) STRICT;

CREATE INDEX responses_by_session ON responses (session_id);

-- Items of each session's default branch in the columns of Skillet's store, for database clients. The id is the item's
-- place in the history; times are milliseconds. The item of a blob is NULL.
CREATE VIEW session_items AS
WITH RECURSIVE seen (session_id, progression_id, parent_id, base_ord, end_ord) AS (
    SELECT b.session_id, p.id, p.parent_id, p.base_ord, 9223372036854775807
    FROM branches b JOIN progressions p ON p.id = b.progression_id WHERE b.is_default = 1
    UNION ALL
    SELECT s.session_id, p.id, p.parent_id, p.base_ord, s.base_ord
    FROM seen s JOIN progressions p ON p.id = s.parent_id
)
SELECT i.ord AS id, e.user_id AS user_id, e.name AS session_name,
    CAST(strftime('%s', substr(m.created_at, 1, 19)) AS INTEGER) * 1000
        + CAST(substr(m.created_at, 21, 3) AS INTEGER) AS created_at,
    m.content AS item_json
FROM seen s JOIN sessions e ON e.id = s.session_id
JOIN progression_items i ON i.progression_id = s.progression_id AND i.ord < s.end_ord
JOIN messages m ON m.id = i.message_id
WHERE e.deleted_at IS NULL;

-- Messages and progressions in the columns of lionagi's tables, for database clients. Times are seconds. A collection is
-- the ids of all messages of a history; that of a session's own progression is its pool. The content of a blob is NULL.
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
