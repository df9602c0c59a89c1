-- Times are milliseconds since the Unix epoch, UTC. Checksums are CRC-32 (IEEE).

-- Catalogue: every series that was ever stored. Ids are never reused.
CREATE TABLE series (
    id     INTEGER PRIMARY KEY AUTOINCREMENT,
    labels TEXT    NOT NULL -- JSON object, __name__ included
) STRICT;

-- Samples acknowledged and not yet in a segment; one row per group commit.
CREATE TABLE write_ahead (
    seq      INTEGER PRIMARY KEY AUTOINCREMENT,
    checksum INTEGER NOT NULL,
    samples  BLOB    NOT NULL
) STRICT;

-- Index of segments/ID.parquet. The id is the last write-ahead seq that the segment holds.
CREATE TABLE segments (
    id       INTEGER PRIMARY KEY,
    rows     INTEGER NOT NULL,
    bytes    INTEGER NOT NULL,
    checksum INTEGER NOT NULL,
    first_ms INTEGER NOT NULL,
    last_ms  INTEGER NOT NULL
) STRICT;

-- Row groups of a segment, in order: what a read can skip.
CREATE TABLE row_groups (
    segment      INTEGER NOT NULL REFERENCES segments (id) ON DELETE CASCADE,
    first_row    INTEGER NOT NULL,
    rows         INTEGER NOT NULL,
    first_series INTEGER NOT NULL,
    last_series  INTEGER NOT NULL,
    first_ms     INTEGER NOT NULL,
    last_ms      INTEGER NOT NULL,
    PRIMARY KEY (segment, first_row)
) STRICT, WITHOUT ROWID;

-- What could not be read and was set aside in quarantine/.
CREATE TABLE quarantine (
    name     TEXT    NOT NULL,
    reason   TEXT    NOT NULL,
    found_ms INTEGER NOT NULL
) STRICT;

-- The ledger's verdicts.
CREATE TABLE intervals (
    node        TEXT    NOT NULL,
    start_ms    INTEGER NOT NULL,
    end_ms      INTEGER NOT NULL,
    gpu         TEXT    NOT NULL,
    model       TEXT,
    owner       TEXT,
    class       TEXT    NOT NULL,
    ms          INTEGER NOT NULL,
    confidence  REAL    NOT NULL,
    busy_signal TEXT,
    evidence    TEXT    NOT NULL, -- JSON array of {signal, value, unit, threshold}
    missing     TEXT    NOT NULL  -- JSON array of signals
) STRICT;

CREATE INDEX intervals_by_node ON intervals (node, start_ms);
CREATE INDEX intervals_by_time ON intervals (start_ms);
