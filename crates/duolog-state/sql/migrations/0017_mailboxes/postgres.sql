-- A mailbox and a session or a branch may have the same name, so each has tables of its own. `inboxes` and `inbox_cursors`
-- keep what was sent to sessions and branches; rows of any other recipient belong to a mailbox, and move.
CREATE TABLE mailboxes (
    recipient      TEXT COLLATE "C" NOT NULL CHECK (octet_length(recipient) BETWEEN 1 AND 1024),
    channel        TEXT COLLATE "C" NOT NULL CHECK (octet_length(channel) <= 1024),
    progression_id TEXT COLLATE "C" NOT NULL UNIQUE REFERENCES progressions (id),
    PRIMARY KEY (recipient, channel)
);

CREATE TABLE mailbox_cursors (
    recipient  TEXT COLLATE "C" NOT NULL CHECK (octet_length(recipient) BETWEEN 1 AND 1024),
    channel    TEXT COLLATE "C" NOT NULL CHECK (octet_length(channel) <= 1024),
    reader     TEXT COLLATE "C" NOT NULL CHECK (octet_length(reader) BETWEEN 1 AND 1024),
    ord        BIGINT NOT NULL CHECK (ord >= 0),
    updated_at TEXT COLLATE "C" NOT NULL CHECK (length(updated_at) = 27),
    PRIMARY KEY (recipient, channel, reader)
);

INSERT INTO mailboxes (recipient, channel, progression_id)
    SELECT recipient, channel, progression_id FROM inboxes
    WHERE recipient NOT IN (SELECT id FROM sessions) AND recipient NOT IN (SELECT id FROM branches);
INSERT INTO mailbox_cursors (recipient, channel, reader, ord, updated_at)
    SELECT recipient, channel, reader, ord, updated_at FROM inbox_cursors
    WHERE recipient NOT IN (SELECT id FROM sessions) AND recipient NOT IN (SELECT id FROM branches);
DELETE FROM inboxes WHERE recipient IN (SELECT recipient FROM mailboxes);
DELETE FROM inbox_cursors WHERE recipient IN (SELECT recipient FROM mailbox_cursors);
