-- Items as Skillet's store had them, for those who look with sqlite3: what stands on each session's default branch. The
-- id is the place in the history, which orders a session's items whatever the clock did; instants are milliseconds. An
-- item in a blob is NULL.
CREATE VIEW session_items AS
WITH RECURSIVE seen (session_id, progression_id, parent_id, base_ord, end_ord) AS (
    SELECT b.session_id, p.id, p.parent_id, p.base_ord, 9223372036854775807
    FROM branches b JOIN progressions p ON p.id = b.progression_id WHERE b.is_default = 1
    UNION ALL
    SELECT s.session_id, p.id, p.parent_id, p.base_ord, s.base_ord
    FROM seen s JOIN progressions p ON p.id = s.parent_id
)
SELECT i.ord AS id, e.user_id AS user_id, e.name AS session_name,
    CAST(extract(epoch FROM CAST(substr(m.created_at, 1, 19) || 'Z' AS TIMESTAMPTZ)) AS BIGINT) * 1000
        + CAST(substr(m.created_at, 21, 3) AS BIGINT) AS created_at,
    m.content AS item_json
FROM seen s JOIN sessions e ON e.id = s.session_id
JOIN progression_items i ON i.progression_id = s.progression_id AND i.ord < s.end_ord
JOIN messages m ON m.id = i.message_id
WHERE e.deleted_at IS NULL;
