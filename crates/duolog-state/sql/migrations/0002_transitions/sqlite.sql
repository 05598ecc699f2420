-- Transitions that carry an operation id: a retry of an unknown outcome gets the first one's answer.
CREATE TABLE transitions (
    operation_id TEXT NOT NULL PRIMARY KEY CHECK (length(CAST(operation_id AS BLOB)) BETWEEN 1 AND 128),
    content_hash BLOB NOT NULL CHECK (length(content_hash) = 32),
    answer       TEXT NOT NULL CHECK (length(CAST(answer AS BLOB)) <= 65536),
    created_at   TEXT NOT NULL CHECK (length(created_at) = 27)
) STRICT, WITHOUT ROWID;
