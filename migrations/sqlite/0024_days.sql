-- Roll-up of hours: what the GPUs of each node did in each day of UTC. Made in the background once a day is over.
CREATE TABLE days (
    node     TEXT    NOT NULL,
    start_ms INTEGER NOT NULL,
    end_ms   INTEGER NOT NULL,
    sums     TEXT    NOT NULL, -- JSON object; its fields only grow
    cluster  TEXT, -- NULL: the node's series name none
    checksum INTEGER
) STRICT;

CREATE INDEX days_by_time ON days (start_ms);

-- Which days are rolled up. What changes an hour makes its day one that is not, in the same transaction.
CREATE TABLE rolled_days (
    start_ms INTEGER PRIMARY KEY,
    state    INTEGER NOT NULL -- 0: not rolled up; 1: it is being rolled up; 2: rolled up
) STRICT;

INSERT INTO rolled_days (start_ms, state)
SELECT DISTINCT start_ms - start_ms % 86400000, 0 FROM hours;
