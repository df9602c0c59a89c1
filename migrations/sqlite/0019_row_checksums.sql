-- A checksum for every row of results and events, and a table for rows that do not match theirs.

-- CRC-32 (IEEE) of the row's values. NULL in rows of earlier releases.
ALTER TABLE intervals  ADD COLUMN checksum INTEGER;
ALTER TABLE advisories ADD COLUMN checksum INTEGER;
ALTER TABLE risks      ADD COLUMN checksum INTEGER;
ALTER TABLE standings  ADD COLUMN checksum INTEGER;
ALTER TABLE achieved   ADD COLUMN checksum INTEGER;
ALTER TABLE deliveries ADD COLUMN checksum INTEGER;
ALTER TABLE events     ADD COLUMN checksum INTEGER;
ALTER TABLE attempts   ADD COLUMN checksum INTEGER;

-- Rows of results and events that could not be read, or whose values do not match their checksum.
CREATE TABLE bad_rows (
    name      TEXT    NOT NULL, -- the table
    place     TEXT    NOT NULL, -- rowid, or the primary key
    reason    TEXT    NOT NULL,
    content   TEXT    NOT NULL, -- JSON object: the values that were read
    found_ms  INTEGER NOT NULL,
    start_ms  INTEGER, -- the window that lost the row; NULL: none, or not known
    end_ms    INTEGER,
    judged_ms INTEGER -- when the window was judged again; NULL: not yet
) STRICT;

-- What an event changes is found by its attempt alone, without the other events of the run.
DROP INDEX events_of_run;
CREATE INDEX events_of_attempt ON events (cluster, run, attempt, kind) WHERE kind <> 'step';
