-- What is kept beside the verdicts, without GPU-time. Times are milliseconds since the Unix epoch, UTC.

-- What was advised, though no time could be charged to it.
CREATE TABLE advisories (
    node       TEXT COLLATE "C" NOT NULL,
    start_ms   BIGINT           NOT NULL,
    end_ms     BIGINT           NOT NULL,
    gpu        TEXT COLLATE "C" NOT NULL,
    model      TEXT,
    owner      TEXT COLLATE "C",
    advice     TEXT COLLATE "C" NOT NULL,
    confidence DOUBLE PRECISION NOT NULL,
    evidence   TEXT             NOT NULL -- JSON array of {signal, value, unit, threshold}
);

CREATE INDEX advisories_by_node ON advisories (node, start_ms);
CREATE INDEX advisories_by_time ON advisories (start_ms);

-- Memory that was at risk of running out, by stretch; the forecast is the last one of the stretch.
CREATE TABLE risks (
    node                   TEXT COLLATE "C" NOT NULL,
    start_ms               BIGINT           NOT NULL,
    end_ms                 BIGINT           NOT NULL,
    memory                 TEXT COLLATE "C" NOT NULL, -- gpu, cgroup or host
    entity                 TEXT COLLATE "C" NOT NULL, -- UUID, owner or node
    owners                 TEXT             NOT NULL, -- JSON array: who held the GPU
    earliest_ms            BIGINT           NOT NULL, -- when the limit was expected, at the earliest of all forecasts
    made_ms                BIGINT           NOT NULL,
    shape                  TEXT             NOT NULL,
    used_bytes             DOUBLE PRECISION NOT NULL,
    limit_bytes            DOUBLE PRECISION NOT NULL,
    slope_bytes_per_second DOUBLE PRECISION NOT NULL,
    slope_low              DOUBLE PRECISION NOT NULL, -- ends of the 90 % interval
    slope_high             DOUBLE PRECISION NOT NULL,
    soonest_seconds        DOUBLE PRECISION NOT NULL, -- after made_ms
    likely_seconds         DOUBLE PRECISION NOT NULL,
    latest_seconds         DOUBLE PRECISION           -- none: beyond the horizon
);

CREATE INDEX risks_by_node ON risks (node, start_ms);
CREATE INDEX risks_by_time ON risks (start_ms);
