-- Pages of chats in the order of creation: a key that no message moves, so a page loses no row while people write.
CREATE INDEX messaging_sessions_by_creation ON messaging_sessions (created_at, id);
CREATE INDEX messaging_sessions_by_platform_creation ON messaging_sessions (platform, created_at, id);
