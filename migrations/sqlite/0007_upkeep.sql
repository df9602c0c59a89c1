-- Segments that compaction has made, and what retention has removed.

-- The last write-ahead seq that the segment holds. The id was that too; it is only a name now, and never given twice.
ALTER TABLE segments ADD COLUMN seq INTEGER NOT NULL DEFAULT 0;
UPDATE segments SET seq = id;

-- One row.
CREATE TABLE upkeep (
    one          INTEGER PRIMARY KEY CHECK (one = 1),
    last_segment INTEGER NOT NULL, -- the highest id that a segment ever had
    raw_from_ms  INTEGER           -- samples before it have been removed; null: none ever were
) STRICT;

INSERT INTO upkeep (one, last_segment)
SELECT 1, max(coalesce((SELECT max(id) FROM segments), 0),
              coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'write_ahead'), 0));
