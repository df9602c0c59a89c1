-- Segments say themselves what is in them, and the index says which files it wrote off.

-- One row: which data directory this is, and how often it was opened. A segment of a later state of the directory has a
-- higher generation than its database.
CREATE TABLE directory (
    one        BIGINT PRIMARY KEY CHECK (one = 1),
    id         TEXT    NOT NULL,
    generation BIGINT NOT NULL
);

-- Format of the segment's file; 2 stands for formats that do not name their series.
ALTER TABLE segments ADD COLUMN format BIGINT NOT NULL DEFAULT 2;

-- CRC-32 of the entry and its row groups; null: written by an earlier release.
ALTER TABLE segments ADD COLUMN entry_checksum BIGINT;

-- Segments that merges have replaced or retention has removed, until their files are gone.
CREATE TABLE retired (
    id BIGINT PRIMARY KEY
);

-- Time range of the samples that are set aside; null: not known, or set aside by an earlier release.
ALTER TABLE quarantine ADD COLUMN first_ms BIGINT;
ALTER TABLE quarantine ADD COLUMN last_ms BIGINT;

-- Acknowledged commits that a start did not find in the database.
CREATE TABLE missing (
    first_seq BIGINT PRIMARY KEY,
    last_seq  BIGINT NOT NULL,
    samples   BIGINT NOT NULL,
    first_ms  BIGINT NOT NULL,
    last_ms   BIGINT NOT NULL,
    found_ms  BIGINT NOT NULL
);
