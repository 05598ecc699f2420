-- A mailbox and a session or a branch may have the same name, so each has tables of its own. `inboxes` and `inbox_cursors`
-- keep what was sent to sessions and branches; rows of any other recipient belong to a mailbox, and move.
CREATE TABLE mailboxes (
    recipient      TEXT NOT NULL CHECK (length(CAST(recipient AS BLOB)) BETWEEN 1 AND 1024),
    channel        TEXT NOT NULL CHECK (length(CAST(channel AS BLOB)) <= 1024),
    progression_id TEXT NOT NULL UNIQUE REFERENCES progressions (id),
    PRIMARY KEY (recipient, channel)
) STRICT, WITHOUT ROWID;

CREATE TABLE mailbox_cursors (
    recipient  TEXT NOT NULL CHECK (length(CAST(recipient AS BLOB)) BETWEEN 1 AND 1024),
    channel    TEXT NOT NULL CHECK (length(CAST(channel AS BLOB)) <= 1024),
    reader     TEXT NOT NULL CHECK (length(CAST(reader AS BLOB)) BETWEEN 1 AND 1024),
    ord        INTEGER NOT NULL CHECK (ord >= 0),
    updated_at TEXT NOT NULL CHECK (length(updated_at) = 27),
    PRIMARY KEY (recipient, channel, reader)
) STRICT, WITHOUT ROWID;

INSERT INTO mailboxes (recipient, channel, progression_id)
    SELECT recipient, channel, progression_id FROM inboxes
    WHERE recipient NOT IN (SELECT id FROM sessions) AND recipient NOT IN (SELECT id FROM branches);
INSERT INTO mailbox_cursors (recipient, channel, reader, ord, updated_at)
    SELECT recipient, channel, reader, ord, updated_at FROM inbox_cursors
    WHERE recipient NOT IN (SELECT id FROM sessions) AND recipient NOT IN (SELECT id FROM branches);
DELETE FROM inboxes WHERE recipient IN (SELECT recipient FROM mailboxes);
DELETE FROM inbox_cursors WHERE recipient IN (SELECT recipient FROM mailbox_cursors);
