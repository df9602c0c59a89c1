-- What was said about findings: append only. The state of a finding is the fold of its rows.
CREATE TABLE finding_events (
    id       TEXT    NOT NULL, -- of the finding
    seq      INTEGER NOT NULL, -- from 1 for each finding
    time_ms  INTEGER NOT NULL,
    actor    TEXT    NOT NULL, -- who said it
    action   TEXT    NOT NULL, -- acknowledge, claim, snooze, accept, assign, comment, reopen, verified, not_verified
    until_ms INTEGER,          -- of snooze and accept
    assignee TEXT,             -- of assign; NULL: no longer assigned
    comment  TEXT,
    url      TEXT,             -- of a ticket
    checksum INTEGER,
    PRIMARY KEY (id, seq)
) STRICT, WITHOUT ROWID;

-- Findings of weeks that are over, written when all verdicts of the week are final.
CREATE TABLE finding_weeks (
    week       TEXT    NOT NULL, -- ISO week, such as 2026-W47
    id         TEXT    NOT NULL,
    start_ms   INTEGER NOT NULL, -- of the week
    end_ms     INTEGER NOT NULL,
    cluster    TEXT,
    class      TEXT    NOT NULL,
    subject    TEXT    NOT NULL, -- whose it is: the work, or the model of the GPUs
    team       TEXT,             -- NULL: no teams are configured
    lost_ms    INTEGER NOT NULL, -- GPU-milliseconds; 0: the work was there, and the finding was not
    ran_ms     INTEGER NOT NULL, -- GPU-milliseconds with data of the same work or GPUs
    currency   TEXT,             -- NULL: not all of it has a price in one currency
    lost_micro INTEGER,
    is_first   INTEGER NOT NULL, -- 1: large enough to be acted on
    checksum   INTEGER,
    PRIMARY KEY (week, id)
) STRICT, WITHOUT ROWID;
