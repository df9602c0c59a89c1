-- Segments say themselves what is in them, and the index says which files it wrote off.

-- One row: which data directory this is, and how often it was opened. A segment of a later state of the directory has a
-- higher generation than its database.
CREATE TABLE directory (
    one        INTEGER PRIMARY KEY CHECK (one = 1),
    id         TEXT    NOT NULL,
    generation INTEGER NOT NULL
) STRICT;

-- Format of the segment's file; 2 stands for formats that do not name their series.
ALTER TABLE segments ADD COLUMN format INTEGER NOT NULL DEFAULT 2;

-- CRC-32 of the entry and its row groups; null: written by an earlier release.
ALTER TABLE segments ADD COLUMN entry_checksum INTEGER;

-- Segments that merges have replaced or retention has removed, until their files are gone.
CREATE TABLE retired (
    id INTEGER PRIMARY KEY
) STRICT;

-- Time range of the samples that are set aside; null: not known, or set aside by an earlier release.
ALTER TABLE quarantine ADD COLUMN first_ms INTEGER;
ALTER TABLE quarantine ADD COLUMN last_ms INTEGER;

-- Acknowledged commits that a start did not find in the database.
CREATE TABLE missing (
    first_seq INTEGER PRIMARY KEY,
    last_seq  INTEGER NOT NULL,
    samples   INTEGER NOT NULL,
    first_ms  INTEGER NOT NULL,
    last_ms   INTEGER NOT NULL,
    found_ms  INTEGER NOT NULL
) STRICT;
