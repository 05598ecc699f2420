-- `delete --log` raises the epoch in one transaction and unlinks the file after it. Until that is done this column says that
-- the file at the path, if there is one, is of the previous epoch: readers take it for absent, writers unlink it first.
ALTER TABLE sessions ADD COLUMN unlink_due INTEGER NOT NULL DEFAULT 0 CHECK (unlink_due IN (0, 1));
CREATE INDEX sessions_unlink_due ON sessions (home_id, id) WHERE unlink_due = 1;
