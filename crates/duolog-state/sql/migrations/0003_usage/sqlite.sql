-- What the fold knows of a log beyond its size. Rows of fold version 0 do not, and are folded anew by whoever reads them.
ALTER TABLE catalog ADD COLUMN dialect TEXT CHECK (dialect IN ('envelope', 'turns', 'transcript', 'claude', 'codex'));
ALTER TABLE catalog ADD COLUMN model TEXT CHECK (length(CAST(model AS BLOB)) <= 128);
ALTER TABLE catalog ADD COLUMN title TEXT CHECK (length(CAST(title AS BLOB)) <= 480);
ALTER TABLE catalog ADD COLUMN fold_version INTEGER NOT NULL DEFAULT 0 CHECK (fold_version >= 0);
ALTER TABLE catalog ADD COLUMN shared INTEGER NOT NULL DEFAULT 0 CHECK (shared >= 0);

CREATE INDEX catalog_by_fold_version ON catalog (home_id, fold_version, session_id);
CREATE INDEX catalog_sharing ON catalog (session_id) WHERE shared > 0;

-- DERIVED: where the fold goes on from, beside the catalog so that lists never read it.
CREATE TABLE digests (
    session_id TEXT NOT NULL PRIMARY KEY REFERENCES sessions (id) ON DELETE CASCADE,
    epoch      INTEGER NOT NULL CHECK (epoch >= 0),
    position   INTEGER NOT NULL CHECK (position >= 0),
    digest     BLOB NOT NULL CHECK (length(digest) <= 1048576)
) STRICT;

-- DERIVED: tokens of a session by day, model and how they are paid for. A day or a model that no line names is ''.
CREATE TABLE usage_by_day (
    session_id     TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    day            TEXT NOT NULL CHECK (length(day) IN (0, 10)),
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
    PRIMARY KEY (session_id, day, model, charge)
) STRICT, WITHOUT ROWID;

CREATE INDEX usage_by_day_days ON usage_by_day (day, session_id);

-- DERIVED: which session counts a response that several may tell of, by what is the same in all of them. Of several it is
-- the one with the smallest id.
CREATE TABLE responses (
    response   INTEGER NOT NULL PRIMARY KEY,
    session_id TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE
) STRICT;

CREATE INDEX responses_by_session ON responses (session_id);
