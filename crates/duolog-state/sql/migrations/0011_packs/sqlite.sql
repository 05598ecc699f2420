-- How far each home has packed the embeddings into a file of its own. The file can be thrown away at any time, and counts
-- only as far as this row says and where its contents come out at `chain`: a row that was restored, or a file that is of
-- another state, do not fit each other.
--
-- On a server an embedding with a lower number can be committed after one with a higher. `horizon_xid` is a transaction
-- before which all those with a number up to `horizon_seq` began: once all before it have ended, none comes any more.
CREATE TABLE embedding_packs (
    home_id     TEXT NOT NULL PRIMARY KEY CHECK (length(home_id) = 36),
    pack_id     TEXT CHECK (length(pack_id) = 36),
    chain       BLOB CHECK (length(chain) = 32),
    bytes       INTEGER NOT NULL CHECK (bytes >= 0),
    records     INTEGER NOT NULL CHECK (records >= 0),
    last_seq    INTEGER NOT NULL CHECK (last_seq >= 0),
    horizon_seq INTEGER CHECK (horizon_seq >= 0),
    horizon_xid INTEGER CHECK (horizon_xid >= 0),
    packed_at   TEXT NOT NULL CHECK (length(packed_at) = 27),
    CHECK ((pack_id IS NULL) = (chain IS NULL)),
    CHECK ((horizon_seq IS NULL) = (horizon_xid IS NULL))
) STRICT, WITHOUT ROWID;
