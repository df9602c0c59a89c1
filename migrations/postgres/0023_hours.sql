-- Roll-up of intervals: what the GPUs of each node did in each hour, without the evidence. Written with the intervals.
CREATE TABLE hours (
    node     TEXT COLLATE "C" NOT NULL,
    start_ms BIGINT           NOT NULL,
    end_ms   BIGINT           NOT NULL,
    sums     TEXT             NOT NULL, -- JSON object; its fields only grow
    cluster  TEXT, -- NULL: the node's series name none
    checksum BIGINT
);

CREATE INDEX hours_by_node ON hours (node, start_ms);
CREATE INDEX hours_by_time ON hours (start_ms);

-- Since when intervals are rolled up, while those of an earlier release are not; no row when all are.
CREATE TABLE rolled_up (
    one     BIGINT PRIMARY KEY CHECK (one = 1),
    from_ms BIGINT NOT NULL
);

INSERT INTO rolled_up (one, from_ms)
SELECT 1, (max(start_ms) / 3600000 + 1) * 3600000 FROM intervals HAVING max(start_ms) IS NOT NULL;

-- A node's name is unique within its cluster only. Rows are replaced by both.
ALTER TABLE achieved ADD COLUMN cluster TEXT; -- NULL: the series name none, or not told by the release that counted

-- Out of the JSON that the row has: NULL where it names none.
ALTER TABLE standings ADD COLUMN cluster TEXT GENERATED ALWAYS AS (standing::jsonb ->> 'cluster') STORED;
