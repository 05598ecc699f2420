-- Nobody lists the sessions without a user, or those without a status, by themselves: such a session is in one list only,
-- and what happens in it moves one entry instead of three.
DROP INDEX sessions_by_status;
DROP INDEX sessions_by_user;
CREATE INDEX sessions_by_status ON sessions (status, updated_at DESC, id DESC)
    WHERE status IS NOT NULL AND deleted_at IS NULL;
CREATE INDEX sessions_by_user ON sessions (user_id, updated_at DESC, id DESC)
    WHERE user_id IS NOT NULL AND deleted_at IS NULL;
