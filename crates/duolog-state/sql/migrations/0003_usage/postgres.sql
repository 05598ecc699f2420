-- What the fold knows of a log beyond its size. Rows of fold version 0 do not, and are folded anew by whoever reads them.
ALTER TABLE catalog ADD COLUMN dialect TEXT COLLATE "C" CHECK (dialect IN ('envelope', 'turns', 'transcript', 'claude', 'codex'));
ALTER TABLE catalog ADD COLUMN model TEXT COLLATE "C" CHECK (octet_length(model) <= 128);
ALTER TABLE catalog ADD COLUMN title TEXT COLLATE "C" CHECK (octet_length(title) <= 480);
ALTER TABLE catalog ADD COLUMN fold_version BIGINT NOT NULL DEFAULT 0 CHECK (fold_version >= 0);
ALTER TABLE catalog ADD COLUMN shared BIGINT NOT NULL DEFAULT 0 CHECK (shared >= 0);

CREATE INDEX catalog_by_fold_version ON catalog (home_id, fold_version, session_id);
CREATE INDEX catalog_sharing ON catalog (session_id) WHERE shared > 0;

-- DERIVED: where the fold goes on from, beside the catalog so that lists never read it.
CREATE TABLE digests (
    session_id TEXT COLLATE "C" NOT NULL PRIMARY KEY REFERENCES sessions (id) ON DELETE CASCADE,
    epoch      BIGINT NOT NULL CHECK (epoch >= 0),
    position   BIGINT NOT NULL CHECK (position >= 0),
    digest     BYTEA NOT NULL CHECK (length(digest) <= 1048576)
);

-- DERIVED: tokens of a session by day, model and how they are paid for. A day or a model that no line names is ''.
CREATE TABLE usage_by_day (
    session_id     TEXT COLLATE "C" NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    day            TEXT COLLATE "C" NOT NULL CHECK (length(day) IN (0, 10)),
    model          TEXT COLLATE "C" NOT NULL CHECK (octet_length(model) <= 128),
    charge         TEXT COLLATE "C" NOT NULL CHECK (charge IN ('bare', 'stated', 'beyond_200k', 'over_272k')),
    responses      BIGINT NOT NULL CHECK (responses >= 0),
    input          BIGINT NOT NULL CHECK (input >= 0),
    output         BIGINT NOT NULL CHECK (output >= 0),
    cache_read     BIGINT NOT NULL CHECK (cache_read >= 0),
    cache_write_5m BIGINT NOT NULL CHECK (cache_write_5m >= 0),
    cache_write_1h BIGINT NOT NULL CHECK (cache_write_1h >= 0),
    reasoning      BIGINT NOT NULL CHECK (reasoning >= 0),
    cost_micros    BIGINT NOT NULL CHECK (cost_micros >= 0),
    cost_picos     BIGINT NOT NULL CHECK (cost_picos BETWEEN 0 AND 999999),
    PRIMARY KEY (session_id, day, model, charge)
);

CREATE INDEX usage_by_day_days ON usage_by_day (day, session_id);

-- DERIVED: which session counts a response that several may tell of, by what is the same in all of them. Of several it is
-- the one with the smallest id.
CREATE TABLE responses (
    response   BIGINT NOT NULL PRIMARY KEY,
    session_id TEXT COLLATE "C" NOT NULL REFERENCES sessions (id) ON DELETE CASCADE
);

CREATE INDEX responses_by_session ON responses (session_id);
