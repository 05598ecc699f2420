-- Transitions that carry an operation id: a retry of an unknown outcome gets the first one's answer.
CREATE TABLE transitions (
    operation_id TEXT COLLATE "C" NOT NULL PRIMARY KEY CHECK (octet_length(operation_id) BETWEEN 1 AND 128),
    content_hash BYTEA NOT NULL CHECK (length(content_hash) = 32),
    answer       TEXT COLLATE "C" NOT NULL CHECK (octet_length(answer) <= 65536),
    created_at   TEXT COLLATE "C" NOT NULL CHECK (length(created_at) = 27)
);
