-- In which order messages came into a session: stretches of its progressions, one behind the other. The last one may have no
-- end, and then goes on as its progression does: who adds to the same branch again and again writes nothing here. What is
-- on no branch, such as a summary, stands in a progression of the session's own.
CREATE TABLE pool_segments (
    session_id     TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    ord            INTEGER NOT NULL CHECK (ord >= 0),
    progression_id TEXT NOT NULL REFERENCES progressions (id) ON DELETE CASCADE,
    from_ord       INTEGER NOT NULL CHECK (from_ord >= 0),
    to_ord         INTEGER CHECK (to_ord > from_ord),
    PRIMARY KEY (session_id, ord)
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX pool_segments_by_progression ON pool_segments (progression_id, from_ord);

INSERT INTO pool_segments (session_id, ord, progression_id, from_ord, to_ord)
SELECT session_id, MIN(ord), progression_id, MIN(ord), MAX(ord) + 1
FROM (
    SELECT s.id AS session_id, i.progression_id, i.ord,
        i.ord - ROW_NUMBER() OVER (PARTITION BY i.progression_id ORDER BY i.ord) AS stretch
    FROM sessions s JOIN progression_items i ON i.progression_id = s.progression_id
) AS places
GROUP BY session_id, progression_id, stretch;
