-- Lines that transitions owe to logs, in one tree: a transition writes one page for its line, where `outbox` with its
-- indexes took five. That table is no longer written or read; on a server its numbers are still drawn.
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

INSERT INTO outbox_lines (home_id, session_id, seq, uuid, epoch, floor, created_at, attempts, last_error, line)
    SELECT home_id, session_id, id, uuid, epoch, floor, created_at, attempts, last_error, line FROM outbox;

-- The index of statuses has the active runs too, in the same order: one page less for a run that changes its status.
DROP INDEX workflow_runs_active_first;
