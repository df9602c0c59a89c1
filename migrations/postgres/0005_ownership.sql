-- What was said about findings: append only. The state of a finding is the fold of its rows.
CREATE TABLE finding_events (
    id       TEXT COLLATE "C" NOT NULL, -- of the finding
    seq      BIGINT           NOT NULL, -- from 1 for each finding
    time_ms  BIGINT           NOT NULL,
    actor    TEXT COLLATE "C" NOT NULL, -- who said it
    action   TEXT COLLATE "C" NOT NULL, -- acknowledge, claim, snooze, accept, assign, comment, reopen, verified, not_verified
    until_ms BIGINT,          -- of snooze and accept
    assignee TEXT COLLATE "C", -- of assign; NULL: no longer assigned
    comment  TEXT COLLATE "C",
    url      TEXT COLLATE "C", -- of a ticket
    checksum BIGINT,
    PRIMARY KEY (id, seq)
);

-- Findings of weeks that are over, written when all verdicts of the week are final.
CREATE TABLE finding_weeks (
    week       TEXT COLLATE "C" NOT NULL, -- ISO week, such as 2026-W47
    id         TEXT COLLATE "C" NOT NULL,
    start_ms   BIGINT           NOT NULL, -- of the week
    end_ms     BIGINT           NOT NULL,
    cluster    TEXT COLLATE "C",
    class      TEXT COLLATE "C" NOT NULL,
    subject    TEXT COLLATE "C" NOT NULL, -- whose it is: the work, or the model of the GPUs
    team       TEXT COLLATE "C", -- NULL: no teams are configured
    lost_ms    BIGINT           NOT NULL, -- GPU-milliseconds; 0: the work was there, and the finding was not
    ran_ms     BIGINT           NOT NULL, -- GPU-milliseconds with data of the same work or GPUs
    currency   TEXT COLLATE "C", -- NULL: not all of it has a price in one currency
    lost_micro BIGINT,
    is_first   BIGINT           NOT NULL, -- 1: large enough to be acted on
    checksum   BIGINT,
    PRIMARY KEY (week, id)
);
