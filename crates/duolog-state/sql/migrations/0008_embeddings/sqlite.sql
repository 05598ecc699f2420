-- What messages mean to a model, by itself: a search looks at all of it and at nothing else. Rows stand in the order of
-- `seq`. The column in `messages` is no longer written or read.
CREATE TABLE message_embeddings (
    seq        INTEGER PRIMARY KEY AUTOINCREMENT,
    message_id TEXT NOT NULL UNIQUE REFERENCES messages (id) ON DELETE CASCADE,
    embedding  BLOB NOT NULL CHECK (length(embedding) BETWEEN 4 AND 65536 AND length(embedding) % 4 = 0)
) STRICT;

INSERT INTO message_embeddings (message_id, embedding)
    SELECT id, embedding FROM messages WHERE embedding IS NOT NULL ORDER BY id;
