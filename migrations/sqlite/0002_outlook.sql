-- What is kept beside the verdicts, without GPU-time. Times are milliseconds since the Unix epoch, UTC.

-- What was advised, though no time could be charged to it.
CREATE TABLE advisories (
    node       TEXT    NOT NULL,
    start_ms   INTEGER NOT NULL,
    end_ms     INTEGER NOT NULL,
    gpu        TEXT    NOT NULL,
    model      TEXT,
    owner      TEXT,
    advice     TEXT    NOT NULL,
    confidence REAL    NOT NULL,
    evidence   TEXT    NOT NULL -- JSON array of {signal, value, unit, threshold}
) STRICT;

CREATE INDEX advisories_by_node ON advisories (node, start_ms);
CREATE INDEX advisories_by_time ON advisories (start_ms);

-- Memory that was at risk of running out, by stretch; the forecast is the last one of the stretch.
CREATE TABLE risks (
    node                   TEXT    NOT NULL,
    start_ms               INTEGER NOT NULL,
    end_ms                 INTEGER NOT NULL,
    memory                 TEXT    NOT NULL, -- gpu, cgroup or host
    entity                 TEXT    NOT NULL, -- UUID, owner or node
    owners                 TEXT    NOT NULL, -- JSON array: who held the GPU
    earliest_ms            INTEGER NOT NULL, -- when the limit was expected, at the earliest of all forecasts
    made_ms                INTEGER NOT NULL,
    shape                  TEXT    NOT NULL,
    used_bytes             REAL    NOT NULL,
    limit_bytes            REAL    NOT NULL,
    slope_bytes_per_second REAL    NOT NULL,
    slope_low              REAL    NOT NULL, -- ends of the 90 % interval
    slope_high             REAL    NOT NULL,
    soonest_seconds        REAL    NOT NULL, -- after made_ms
    likely_seconds         REAL    NOT NULL,
    latest_seconds         REAL              -- none: beyond the horizon
) STRICT;

CREATE INDEX risks_by_node ON risks (node, start_ms);
CREATE INDEX risks_by_time ON risks (start_ms);
