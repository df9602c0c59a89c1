-- Results of a fleet: verdicts, roll-ups, events, and what the workers share. Samples stay in the users' engine.
-- Tables of verdicts have the columns of ../sqlite. Texts are compared byte by byte, as SQLite does: COLLATE "C".
-- Times are milliseconds since the Unix epoch, UTC. Checksums are CRC-32 (IEEE) over a row's values.

-- The ledger's verdicts. Tables of verdicts are partitioned by the week (from Monday, UTC) of start_ms.
CREATE TABLE intervals (
    node                 TEXT COLLATE "C" NOT NULL,
    start_ms             BIGINT           NOT NULL,
    end_ms               BIGINT           NOT NULL,
    gpu                  TEXT COLLATE "C" NOT NULL,
    model                TEXT COLLATE "C",
    owner                TEXT COLLATE "C",
    class                TEXT COLLATE "C" NOT NULL,
    ms                   BIGINT           NOT NULL,
    confidence           DOUBLE PRECISION NOT NULL,
    busy_signal          TEXT COLLATE "C",
    evidence             TEXT COLLATE "C" NOT NULL, -- JSON array of {signal, value, unit, threshold}
    missing              TEXT COLLATE "C" NOT NULL, -- JSON array of signals
    energy_mj            BIGINT, -- millijoules
    energy_ms            BIGINT, -- GPU-milliseconds that these are known for
    energy_counted_ms    BIGINT, -- of these, by the board's energy counter
    charged_node         TEXT COLLATE "C", -- the node of the GPU or the port that caused it
    charged_gpu          TEXT COLLATE "C", -- its UUID; NULL: it is no GPU
    gpu_instance         BIGINT, -- NVML's id of the GPU instance; NULL of the GPU itself
    gpu_instance_profile TEXT COLLATE "C",
    variance_ms2         BIGINT, -- variance of ms, in square milliseconds
    rule_version         BIGINT, -- of the rules of its class
    rules_version        BIGINT, -- of all rules together
    run                  TEXT COLLATE "C",
    account              TEXT COLLATE "C",
    cluster              TEXT COLLATE "C", -- NULL: the node's series name none
    cause                TEXT COLLATE "C", -- NULL: of a class without causes
    which                TEXT COLLATE "C", -- port of charged_node that has it
    checksum             BIGINT
) PARTITION BY RANGE (start_ms);

CREATE INDEX intervals_by_node ON intervals (node, start_ms);
CREATE INDEX intervals_by_time ON intervals (start_ms);
CREATE INDEX intervals_by_gpu ON intervals (gpu, start_ms);
CREATE INDEX intervals_by_owner ON intervals (owner, start_ms);
CREATE INDEX intervals_by_run ON intervals (run, start_ms);
CREATE INDEX intervals_by_culprit ON intervals (charged_gpu, start_ms) WHERE charged_gpu IS NOT NULL;

-- What was advised, though no time could be charged to it.
CREATE TABLE advisories (
    node       TEXT COLLATE "C" NOT NULL,
    start_ms   BIGINT           NOT NULL,
    end_ms     BIGINT           NOT NULL,
    gpu        TEXT COLLATE "C" NOT NULL,
    model      TEXT COLLATE "C",
    owner      TEXT COLLATE "C",
    advice     TEXT COLLATE "C" NOT NULL,
    confidence DOUBLE PRECISION NOT NULL,
    evidence   TEXT COLLATE "C" NOT NULL, -- JSON array of {signal, value, unit, threshold}
    run        TEXT COLLATE "C",
    cluster    TEXT COLLATE "C",
    cause      TEXT COLLATE "C", -- of a network: what its ports show
    which      TEXT COLLATE "C", -- port of node that shows it
    checksum   BIGINT
) PARTITION BY RANGE (start_ms);

CREATE INDEX advisories_by_node ON advisories (node, start_ms);
CREATE INDEX advisories_by_time ON advisories (start_ms);

-- Memory, disks, pods and GPUs that were at risk, by stretch; the forecast is the last one of the stretch.
CREATE TABLE risks (
    node        TEXT COLLATE "C" NOT NULL,
    start_ms    BIGINT           NOT NULL,
    end_ms      BIGINT           NOT NULL,
    kind        TEXT COLLATE "C" NOT NULL, -- memory, disk, eviction or hardware
    which       TEXT COLLATE "C" NOT NULL, -- of memory gpu, cgroup or host, and so on
    entity      TEXT COLLATE "C" NOT NULL, -- UUID, owner, mount point or node
    owners      TEXT COLLATE "C" NOT NULL, -- JSON array: whom it hits
    earliest_ms BIGINT,
    made_ms     BIGINT           NOT NULL,
    forecast    TEXT COLLATE "C" NOT NULL, -- JSON
    cluster     TEXT COLLATE "C",
    checksum    BIGINT
) PARTITION BY RANGE (start_ms);

CREATE INDEX risks_by_node ON risks (node, start_ms);
CREATE INDEX risks_by_time ON risks (start_ms);

-- How each node was set up in a window, compared with the other nodes of its pool.
CREATE TABLE standings (
    node     TEXT COLLATE "C" NOT NULL,
    start_ms BIGINT           NOT NULL,
    end_ms   BIGINT           NOT NULL,
    standing TEXT COLLATE "C" NOT NULL, -- JSON object; its fields only grow
    checksum BIGINT,
    cluster  TEXT COLLATE "C" GENERATED ALWAYS AS (standing::jsonb ->> 'cluster') STORED
) PARTITION BY RANGE (start_ms);

CREATE INDEX standings_by_node ON standings (node, start_ms);
CREATE INDEX standings_by_time ON standings (start_ms);

-- What jobs achieved by their own counters, per window; windows are those of the verdicts.
CREATE TABLE achieved (
    start_ms   BIGINT           NOT NULL,
    end_ms     BIGINT           NOT NULL,
    metric     TEXT COLLATE "C" NOT NULL,
    unit       TEXT COLLATE "C" NOT NULL,
    owner      TEXT COLLATE "C",
    subject    TEXT COLLATE "C" NOT NULL,
    amount     DOUBLE PRECISION NOT NULL,
    covered_ms BIGINT           NOT NULL,
    ideal      DOUBLE PRECISION,
    checksum   BIGINT,
    cluster    TEXT COLLATE "C",
    served     TEXT COLLATE "C", -- JSON object
    model      TEXT COLLATE "C"
) PARTITION BY RANGE (start_ms);

CREATE INDEX achieved_by_time ON achieved (start_ms);

-- Roll-up of intervals: what the GPUs of each node did in each hour, without the evidence. Kept when weeks are dropped.
CREATE TABLE hours (
    node     TEXT COLLATE "C" NOT NULL,
    start_ms BIGINT           NOT NULL,
    end_ms   BIGINT           NOT NULL,
    sums     TEXT COLLATE "C" NOT NULL, -- JSON object; its fields only grow
    cluster  TEXT COLLATE "C",
    checksum BIGINT
);

CREATE INDEX hours_by_node ON hours (node, start_ms);
CREATE INDEX hours_by_time ON hours (start_ms);

-- Roll-up of hours, by days of UTC that are over.
CREATE TABLE days (
    node     TEXT COLLATE "C" NOT NULL,
    start_ms BIGINT           NOT NULL,
    end_ms   BIGINT           NOT NULL,
    sums     TEXT COLLATE "C" NOT NULL, -- JSON object; its fields only grow
    cluster  TEXT COLLATE "C",
    checksum BIGINT
);

CREATE INDEX days_by_time ON days (start_ms);

-- Which days are rolled up. What changes an hour makes its day one that is not, in the same transaction.
CREATE TABLE rolled_days (
    start_ms BIGINT PRIMARY KEY,
    state    BIGINT NOT NULL -- 0: not rolled up; 2: rolled up
);

-- Scheduled reports that a destination has; a row is written after the destination has taken it.
CREATE TABLE deliveries (
    week        TEXT COLLATE "C" NOT NULL, -- ISO week, such as 2026-W47
    version     BIGINT           NOT NULL, -- 1, and one more each time the verdicts have changed since
    destination TEXT COLLATE "C" NOT NULL, -- directory, webhook
    digest      BIGINT           NOT NULL, -- CRC-32 (IEEE) of the verdicts that it shows
    time_ms     BIGINT,                    -- NULL: on purpose not sent again
    checksum    BIGINT,
    PRIMARY KEY (week, version, destination)
);

-- What jobs said of themselves.
CREATE TABLE events (
    seq          BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    id           TEXT COLLATE "C" NOT NULL UNIQUE, -- the sender's
    time_ms      BIGINT           NOT NULL,
    cluster      TEXT COLLATE "C" NOT NULL,        -- empty: not named
    run          TEXT COLLATE "C" NOT NULL,
    attempt      BIGINT           NOT NULL,
    rank         BIGINT,
    kind         TEXT COLLATE "C" NOT NULL,        -- start, step, checkpoint, restore, end
    step         BIGINT,                           -- of step, checkpoint, restore
    status       TEXT COLLATE "C",                 -- of end
    seconds      DOUBLE PRECISION,                 -- of checkpoint: how long training stood still
    submitted_ms BIGINT,                           -- of start: when the attempt began to wait
    node         TEXT COLLATE "C",
    namespace    TEXT COLLATE "C",
    pod          TEXT COLLATE "C",
    slurm_job    TEXT COLLATE "C",
    unjudged_ms  BIGINT,                           -- verdicts from there on do not rest on it yet; NULL: they do
    checksum     BIGINT
);

CREATE INDEX events_of_attempt ON events (cluster, run, attempt, kind) WHERE kind <> 'step';
CREATE INDEX events_unjudged ON events (unjudged_ms) WHERE unjudged_ms IS NOT NULL;

-- What is known of every attempt by all of its events.
CREATE TABLE attempts (
    cluster   TEXT COLLATE "C" NOT NULL,
    run       TEXT COLLATE "C" NOT NULL,
    attempt   BIGINT           NOT NULL,
    first_ms  BIGINT           NOT NULL,
    last_ms   BIGINT           NOT NULL,
    last_step BIGINT,
    checksum  BIGINT,
    PRIMARY KEY (cluster, run, attempt)
);

-- Labels of the series that name GPUs; their samples stay in the engine.
CREATE TABLE series (
    seq    BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    labels TEXT COLLATE "C" NOT NULL -- JSON object, __name__ included
);

CREATE UNIQUE INDEX series_by_labels ON series (md5(labels));

-- One row: what all processes of the fleet agree on.
CREATE TABLE fleet (
    one        BIGINT PRIMARY KEY CHECK (one = 1),
    zone       TEXT   NOT NULL, -- windows are cut at its hours
    min_writer BIGINT NOT NULL  -- earlier releases write nothing
);

-- One row per cluster and hour: what is to be judged, and what the stored verdicts rest on.
CREATE TABLE windows (
    cluster        TEXT COLLATE "C" NOT NULL, -- empty: series name none
    start_ms       BIGINT           NOT NULL,
    end_ms         BIGINT           NOT NULL,
    due_ms         BIGINT           NOT NULL,
    wanted         BIGINT           NOT NULL DEFAULT 1, -- raised whenever verdicts may rest on less than there is
    done           BIGINT           NOT NULL DEFAULT 0, -- the `wanted` that the stored verdicts answer
    fence          BIGINT           NOT NULL DEFAULT 0,
    worker         TEXT,
    lease_until    TIMESTAMPTZ,
    attempts       BIGINT           NOT NULL DEFAULT 0,
    error          TEXT,
    read_until_ms  BIGINT,
    samples        BIGINT,
    verdict_digest BIGINT,
    rules_version  BIGINT,
    config_digest  BIGINT,
    need_bytes     BIGINT,
    recheck_ms     BIGINT,
    present        BYTEA,
    seen           BYTEA,
    PRIMARY KEY (cluster, start_ms)
) WITH (fillfactor = 50);

CREATE INDEX windows_due ON windows (due_ms) WHERE done < wanted;
CREATE INDEX windows_by_time ON windows (start_ms);

-- Who does what only one process may do: live/CLUSTER, capacity/CLUSTER, delivery.
CREATE TABLE leases (
    name        TEXT COLLATE "C" PRIMARY KEY,
    fence       BIGINT NOT NULL DEFAULT 0,
    worker      TEXT,
    lease_until TIMESTAMPTZ
);

-- Verdicts and forecasts of windows that are not final.
CREATE TABLE live (
    cluster   TEXT COLLATE "C" PRIMARY KEY,
    fence     BIGINT NOT NULL,
    until_ms  BIGINT NOT NULL,
    verdicts  BYTEA  NOT NULL,
    prospects BYTEA  NOT NULL
);

-- Makes the partitions for verdicts that start in a range of time. The role of workers may call it, and it
-- runs with the owner's rights. A new partition is attached, which waits for no reader of the others.
CREATE FUNCTION goodput_make_partitions(from_ms BIGINT, until_ms BIGINT) RETURNS VOID
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    week   CONSTANT BIGINT := 604800000;
    monday CONSTANT BIGINT := 345600000; -- 1970-01-05
    start  BIGINT := floor((from_ms - monday)::NUMERIC / week)::BIGINT * week + monday;
    parent TEXT;
    child  TEXT;
BEGIN
    IF until_ms - from_ms > week THEN
        RAISE EXCEPTION 'partitions for more than a week at once: from % to %', from_ms, until_ms;
    END IF;
    WHILE start < until_ms LOOP
        FOREACH parent IN ARRAY ARRAY['intervals', 'advisories', 'risks', 'standings', 'achieved'] LOOP
            child := parent || '_' || to_char(to_timestamp(start / 1000) AT TIME ZONE 'UTC', 'YYYYMMDD');
            IF to_regclass(child) IS NULL THEN
                PERFORM pg_advisory_xact_lock(7449633602170);
                BEGIN
                    EXECUTE format('CREATE TABLE %I (LIKE %I INCLUDING ALL)', child, parent);
                    EXECUTE format('ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (%s) TO (%s)',
                        parent, child, start, start + week);
                EXCEPTION WHEN duplicate_table THEN
                    NULL; -- Another writer made it meanwhile: waiting for the lock does not renew what is cached of the catalogue.
                END;
            END IF;
        END LOOP;
        start := start + week;
    END LOOP;
END $$;

-- Drops the partitions of weeks that ended at or before this, with the owner's rights. Returns how many.
CREATE FUNCTION goodput_drop_partitions(until_ms BIGINT) RETURNS BIGINT
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    child   TEXT;
    dropped BIGINT := 0;
BEGIN
    FOR child IN
        SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
        WHERE i.inhparent IN ('intervals'::regclass, 'advisories'::regclass, 'risks'::regclass, 'standings'::regclass,
                'achieved'::regclass)
            AND substring(pg_get_expr(c.relpartbound, c.oid) FROM 'TO \(''(-?[0-9]+)''\)')::BIGINT <= until_ms
        ORDER BY c.relname
    LOOP
        EXECUTE format('DROP TABLE %I', child);
        dropped := dropped + 1;
    END LOOP;
    RETURN dropped;
END $$;

-- What runs with the owner's rights finds its tables in this schema alone, and waits for locks for seconds, whatever the
-- caller has set.
DO $$
DECLARE
    name TEXT;
BEGIN
    FOREACH name IN ARRAY ARRAY['goodput_make_partitions(BIGINT, BIGINT)', 'goodput_drop_partitions(BIGINT)'] LOOP
        EXECUTE format('ALTER FUNCTION %s SET search_path = %I, pg_temp', name, current_schema());
        EXECUTE format('ALTER FUNCTION %s SET lock_timeout = ''5s''', name);
        EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', name);
    END LOOP;
END $$;
