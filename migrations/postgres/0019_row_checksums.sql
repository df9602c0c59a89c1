-- A checksum for every row of results and events, and a table for rows that do not match theirs.

-- CRC-32 (IEEE) of the row's values. NULL in rows of earlier releases.
ALTER TABLE intervals  ADD COLUMN checksum BIGINT;
ALTER TABLE advisories ADD COLUMN checksum BIGINT;
ALTER TABLE risks      ADD COLUMN checksum BIGINT;
ALTER TABLE standings  ADD COLUMN checksum BIGINT;
ALTER TABLE achieved   ADD COLUMN checksum BIGINT;
ALTER TABLE deliveries ADD COLUMN checksum BIGINT;
ALTER TABLE events     ADD COLUMN checksum BIGINT;
ALTER TABLE attempts   ADD COLUMN checksum BIGINT;

-- Rows of results and events that could not be read, or whose values do not match their checksum.
CREATE TABLE bad_rows (
    name      TEXT COLLATE "C" NOT NULL, -- the table
    place     TEXT             NOT NULL, -- rowid, or the primary key
    reason    TEXT             NOT NULL,
    content   TEXT             NOT NULL, -- JSON object: the values that were read
    found_ms  BIGINT           NOT NULL,
    start_ms  BIGINT, -- the window that lost the row; NULL: none, or not known
    end_ms    BIGINT,
    judged_ms BIGINT -- when the window was judged again; NULL: not yet
);

-- What an event changes is found by its attempt alone, without the other events of the run.
DROP INDEX events_of_run;
CREATE INDEX events_of_attempt ON events (cluster, run, attempt, kind) WHERE kind <> 'step';
