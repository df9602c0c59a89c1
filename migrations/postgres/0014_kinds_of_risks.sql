-- Risks of all kinds: disks, evictions and hardware beside memory. What a forecast says depends on its kind, so it is JSON.
-- Times are milliseconds since the Unix epoch, UTC.
CREATE TABLE risks_of_all_kinds (
    node        TEXT COLLATE "C" NOT NULL,
    start_ms    BIGINT NOT NULL,
    end_ms      BIGINT NOT NULL,
    kind        TEXT COLLATE "C" NOT NULL, -- memory, disk, eviction or hardware
    which       TEXT COLLATE "C" NOT NULL, -- of memory gpu, cgroup or host, and so on
    entity      TEXT COLLATE "C" NOT NULL, -- UUID, owner, mount point or node
    owners      TEXT NOT NULL, -- JSON array: whom it hits
    earliest_ms BIGINT, -- when the limit was expected, at the earliest of all forecasts; NULL: there is none
    made_ms     BIGINT NOT NULL,
    forecast    TEXT NOT NULL -- JSON, the last one of the stretch: what runs out, or what is damaged
);

INSERT INTO risks_of_all_kinds
SELECT node, start_ms, end_ms, 'memory', memory, entity, owners, earliest_ms, made_ms,
    json_build_object(
        'shape', shape, 'used', used_bytes, 'limit', limit_bytes,
        'slope', slope_bytes_per_second, 'slope_low', slope_low, 'slope_high', slope_high,
        'at_risk', json_build_object(
            'soonest_seconds', soonest_seconds, 'likely_seconds', likely_seconds, 'latest_seconds', latest_seconds
        )
    )::text
FROM risks;

DROP TABLE risks;
ALTER TABLE risks_of_all_kinds RENAME TO risks;

CREATE INDEX risks_by_node ON risks (node, start_ms);
CREATE INDEX risks_by_time ON risks (start_ms);
