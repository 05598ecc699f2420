-- Switches and what stands beside runs: schedules that can be changed without touching a file, the trace that each of
-- their times leaves, and the chats from which work comes.

-- What is said over the schedule of a name in the configuration; what is NULL is as it is there.
CREATE TABLE cron_overrides (
    name       TEXT NOT NULL PRIMARY KEY CHECK (length(CAST(name AS BLOB)) BETWEEN 1 AND 1024),
    enabled    INTEGER CHECK (enabled IN (0, 1)),
    schedule   TEXT CHECK (length(CAST(schedule AS BLOB)) BETWEEN 1 AND 1024),
    zone       TEXT CHECK (length(CAST(zone AS BLOB)) BETWEEN 1 AND 128),
    updated_at TEXT NOT NULL CHECK (length(updated_at) = 27),
    updated_by TEXT CHECK (length(CAST(updated_by AS BLOB)) BETWEEN 1 AND 1024)
) STRICT, WITHOUT ROWID;

-- Until when the times of a schedule were looked at. What came before is not looked for again.
CREATE TABLE cron_ticks (
    name      TEXT NOT NULL PRIMARY KEY CHECK (length(CAST(name AS BLOB)) BETWEEN 1 AND 1024),
    ticked_at TEXT NOT NULL CHECK (length(ticked_at) = 27)
) STRICT, WITHOUT ROWID;

-- What came of each time of a schedule. Whoever adds the row of a time fires it, and nobody else does.
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

-- A chat with a person on a platform. No thread is '', so that it has one active chat too.
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

CREATE INDEX messaging_sessions_lookup ON messaging_sessions (platform, channel_id, thread_id, user_id);
CREATE UNIQUE INDEX messaging_sessions_unique_active
    ON messaging_sessions (platform, channel_id, thread_id, user_id) WHERE active = 1;
CREATE INDEX messaging_sessions_by_activity ON messaging_sessions (last_activity_at, id);
CREATE INDEX messaging_sessions_by_platform ON messaging_sessions (platform, last_activity_at, id);
CREATE INDEX messaging_sessions_active ON messaging_sessions (last_activity_at, id) WHERE active = 1;
CREATE INDEX messaging_sessions_active_by_platform
    ON messaging_sessions (platform, last_activity_at, id) WHERE active = 1;

-- What was said in a chat, in the order of the ids.
CREATE TABLE messaging_messages (
    id                  INTEGER PRIMARY KEY AUTOINCREMENT,
    session_id          TEXT NOT NULL REFERENCES messaging_sessions (id) ON DELETE CASCADE,
    role                TEXT NOT NULL CHECK (role IN ('user', 'assistant')),
    content             TEXT NOT NULL CHECK (length(CAST(content AS BLOB)) <= 1048576),
    timestamp           TEXT NOT NULL CHECK (length(timestamp) = 27),
    platform_message_id TEXT CHECK (length(CAST(platform_message_id AS BLOB)) BETWEEN 1 AND 1024)
) STRICT;

CREATE INDEX messaging_messages_by_session ON messaging_messages (session_id, id);
CREATE INDEX messaging_messages_by_time ON messaging_messages (session_id, timestamp);

-- A message that the platform delivers again is one message.
CREATE UNIQUE INDEX messaging_messages_once
    ON messaging_messages (session_id, platform_message_id) WHERE platform_message_id IS NOT NULL;
