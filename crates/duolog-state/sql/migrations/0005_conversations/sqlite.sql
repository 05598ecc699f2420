-- Conversations: what the model sees, kept so that it can be resumed, forked, summarised and sent to others.

-- What a message was in the program that made it. A message that does not say is 0.
CREATE TABLE message_types (
    type_id    INTEGER PRIMARY KEY AUTOINCREMENT,
    lion_class TEXT NOT NULL UNIQUE CHECK (length(CAST(lion_class AS BLOB)) BETWEEN 1 AND 1024)
) STRICT;

INSERT INTO message_types (type_id, lion_class) VALUES (0, '__unknown__');
-- Without their numbers, so that the next class gets the number after them.
INSERT INTO message_types (lion_class) VALUES
    ('lionagi.protocols.messages.system.System'),
    ('lionagi.protocols.messages.instruction.Instruction'),
    ('lionagi.protocols.messages.assistant_response.AssistantResponse'),
    ('lionagi.protocols.messages.action_request.ActionRequest'),
    ('lionagi.protocols.messages.action_response.ActionResponse');

-- Messages stand for themselves; progressions name them. Content is JSON as it was given, or a blob of that home.
CREATE TABLE messages (
    id            TEXT NOT NULL PRIMARY KEY CHECK (length(CAST(id AS BLOB)) BETWEEN 1 AND 128),
    created_at    TEXT NOT NULL CHECK (length(created_at) = 27),
    node_metadata TEXT CHECK (length(CAST(node_metadata AS BLOB)) <= 65536),
    content       TEXT CHECK (length(CAST(content AS BLOB)) BETWEEN 1 AND 262144),
    content_blob  TEXT CHECK (length(content_blob) = 64),
    home_id       TEXT CHECK (length(home_id) = 36),
    embedding     BLOB CHECK (length(embedding) BETWEEN 4 AND 65536 AND length(embedding) % 4 = 0),
    sender        TEXT CHECK (length(CAST(sender AS BLOB)) BETWEEN 1 AND 1024),
    recipient     TEXT CHECK (length(CAST(recipient AS BLOB)) BETWEEN 1 AND 1024),
    channel       TEXT CHECK (length(CAST(channel AS BLOB)) BETWEEN 1 AND 1024),
    role          TEXT NOT NULL CHECK (length(CAST(role AS BLOB)) <= 128 AND trim(role) <> ''),
    lion_class    INTEGER NOT NULL DEFAULT 0 REFERENCES message_types (type_id),
    compactable   INTEGER NOT NULL CHECK (compactable IN (0, 1)),
    CHECK ((content IS NULL) <> (content_blob IS NULL)),
    CHECK ((content_blob IS NULL) = (home_id IS NULL))
) STRICT;

-- Which blobs are named, and which messages can be compared.
CREATE INDEX messages_in_blobs ON messages (content_blob) WHERE content_blob IS NOT NULL;
CREATE INDEX messages_embedded ON messages (id) WHERE embedding IS NOT NULL;

-- A sequence of messages: what its parent has below base_ord, then its own items from there on. Forks copy nothing.
CREATE TABLE progressions (
    id         TEXT NOT NULL PRIMARY KEY CHECK (length(CAST(id AS BLOB)) BETWEEN 1 AND 128),
    created_at TEXT NOT NULL CHECK (length(created_at) = 27),
    session_id TEXT REFERENCES sessions (id) ON DELETE CASCADE,
    parent_id  TEXT REFERENCES progressions (id),
    base_ord   INTEGER NOT NULL CHECK (base_ord >= 0),
    CHECK ((parent_id IS NULL) = (base_ord = 0))
) STRICT, WITHOUT ROWID;

-- Who sees what of it, and what goes with a session.
CREATE INDEX progressions_by_parent ON progressions (parent_id, base_ord);
CREATE INDEX progressions_by_session ON progressions (session_id);

CREATE TABLE progression_items (
    progression_id TEXT NOT NULL REFERENCES progressions (id) ON DELETE CASCADE,
    ord            INTEGER NOT NULL CHECK (ord >= 0),
    message_id     TEXT NOT NULL REFERENCES messages (id),
    PRIMARY KEY (progression_id, ord)
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX progression_items_by_message ON progression_items (message_id, progression_id);

-- A way that a session's conversation took. The pair forked_at tells how much of its parent's history and of its
-- parent's compactions it began with.
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

-- The branch that is meant where only the session is named.
CREATE UNIQUE INDEX branches_default ON branches (session_id) WHERE is_default = 1;
CREATE INDEX branches_by_session ON branches (session_id, id);
CREATE INDEX branches_by_name ON branches (session_id, name, id);
CREATE INDEX branches_by_parent ON branches (parent_branch_id, id);
CREATE INDEX branches_by_system_message ON branches (system_msg_id) WHERE system_msg_id IS NOT NULL;

-- What was said of a branch's ranges, in order: a summary, or that an earlier one no longer holds. Nothing is taken away.
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

-- How a session came to stand as it does.
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

-- The process that runs a session, by what tells it from another with its number.
CREATE TABLE session_owners (
    session_id      TEXT NOT NULL PRIMARY KEY REFERENCES sessions (id) ON DELETE CASCADE,
    pid             INTEGER NOT NULL CHECK (pid >= 0),
    process_started TEXT CHECK (length(CAST(process_started AS BLOB)) BETWEEN 1 AND 128),
    host            TEXT CHECK (length(CAST(host AS BLOB)) BETWEEN 1 AND 1024),
    boot_id         TEXT CHECK (length(CAST(boot_id AS BLOB)) BETWEEN 1 AND 128),
    since           TEXT NOT NULL CHECK (length(since) = 27)
) STRICT, WITHOUT ROWID;

-- What was sent to a recipient on a channel, in the order of the commits; no channel is ''.
CREATE TABLE inboxes (
    recipient      TEXT NOT NULL CHECK (length(CAST(recipient AS BLOB)) BETWEEN 1 AND 1024),
    channel        TEXT NOT NULL CHECK (length(CAST(channel AS BLOB)) <= 1024),
    progression_id TEXT NOT NULL UNIQUE REFERENCES progressions (id),
    PRIMARY KEY (recipient, channel)
) STRICT, WITHOUT ROWID;

-- How far a reader has taken note of an inbox: the next item that it has not.
CREATE TABLE inbox_cursors (
    recipient  TEXT NOT NULL CHECK (length(CAST(recipient AS BLOB)) BETWEEN 1 AND 1024),
    channel    TEXT NOT NULL CHECK (length(CAST(channel AS BLOB)) <= 1024),
    reader     TEXT NOT NULL CHECK (length(CAST(reader AS BLOB)) BETWEEN 1 AND 1024),
    ord        INTEGER NOT NULL CHECK (ord >= 0),
    updated_at TEXT NOT NULL CHECK (length(updated_at) = 27),
    PRIMARY KEY (recipient, channel, reader)
) STRICT, WITHOUT ROWID;
