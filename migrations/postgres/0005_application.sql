-- What jobs achieved by their own counters, per window; windows are those of the verdicts.
CREATE TABLE achieved (
    start_ms   BIGINT           NOT NULL,
    end_ms     BIGINT           NOT NULL,
    metric     TEXT COLLATE "C" NOT NULL,
    unit       TEXT             NOT NULL,
    owner      TEXT COLLATE "C",          -- null: no owner of GPUs could be joined
    subject    TEXT COLLATE "C" NOT NULL, -- what the series' owner label said
    amount     DOUBLE PRECISION NOT NULL,
    covered_ms BIGINT           NOT NULL, -- how much of the window the counter is known for
    ideal      DOUBLE PRECISION           -- per second and GPU, as configured then
);

CREATE INDEX achieved_by_time ON achieved (start_ms);
