-- What jobs achieved by their own counters, per window; windows are those of the verdicts.
CREATE TABLE achieved (
    start_ms   INTEGER NOT NULL,
    end_ms     INTEGER NOT NULL,
    metric     TEXT    NOT NULL,
    unit       TEXT    NOT NULL,
    owner      TEXT,             -- null: no owner of GPUs could be joined
    subject    TEXT    NOT NULL, -- what the series' owner label said
    amount     REAL    NOT NULL,
    covered_ms INTEGER NOT NULL, -- how much of the window the counter is known for
    ideal      REAL              -- per second and GPU, as configured then
) STRICT;

CREATE INDEX achieved_by_time ON achieved (start_ms);
