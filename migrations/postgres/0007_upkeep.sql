-- Segments that compaction has made, and what retention has removed.

-- The last write-ahead seq that the segment holds. The id was that too; it is only a name now, and never given twice.
ALTER TABLE segments ADD COLUMN seq BIGINT NOT NULL DEFAULT 0;
UPDATE segments SET seq = id;

-- One row.
CREATE TABLE upkeep (
    one          BIGINT PRIMARY KEY CHECK (one = 1),
    last_segment BIGINT NOT NULL, -- the highest id that a segment ever had
    raw_from_ms  BIGINT           -- samples before it have been removed; null: none ever were
);

INSERT INTO upkeep (one, last_segment)
SELECT 1, greatest(coalesce((SELECT max(id) FROM segments), 0),
                   (SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM write_ahead_seq_seq));
