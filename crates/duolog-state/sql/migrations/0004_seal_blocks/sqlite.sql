-- Short hashes of the blocks that a seal covers, so that a change is found to the block. Seals that did not grow since have
-- none.
ALTER TABLE seals ADD COLUMN blocks BLOB CHECK (length(blocks) <= 768);
