-- What jobs said of themselves. Times are milliseconds since the Unix epoch, UTC.
CREATE TABLE events (
    seq          INTEGER PRIMARY KEY AUTOINCREMENT,
    id           TEXT    NOT NULL UNIQUE, -- the sender's
    time_ms      INTEGER NOT NULL,
    cluster      TEXT    NOT NULL,        -- empty: not named
    run          TEXT    NOT NULL,
    attempt      INTEGER NOT NULL,
    rank         INTEGER,
    kind         TEXT    NOT NULL,        -- start, step, checkpoint, restore, end
    step         INTEGER,                 -- of step, checkpoint, restore
    status       TEXT,                    -- of end
    seconds      REAL,                    -- of checkpoint: how long training stood still
    submitted_ms INTEGER,                 -- of start: when the attempt began to wait
    node         TEXT,
    namespace    TEXT,
    pod          TEXT,
    slurm_job    TEXT,
    unjudged_ms  INTEGER                  -- verdicts from there on do not rest on it yet; null: they do
) STRICT;

-- Steps are many, and only the last of each attempt is ever read.
CREATE INDEX events_of_run ON events (cluster, run) WHERE kind <> 'step';
CREATE INDEX events_unjudged ON events (unjudged_ms) WHERE unjudged_ms IS NOT NULL;

-- What is known of every attempt by all of its events.
CREATE TABLE attempts (
    cluster   TEXT    NOT NULL,
    run       TEXT    NOT NULL,
    attempt   INTEGER NOT NULL,
    first_ms  INTEGER NOT NULL,
    last_ms   INTEGER NOT NULL,
    last_step INTEGER,
    PRIMARY KEY (cluster, run, attempt)
) STRICT, WITHOUT ROWID;
