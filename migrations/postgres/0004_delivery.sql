-- Scheduled reports that a destination has; a row is written after the destination has taken it.
CREATE TABLE deliveries (
    week        TEXT COLLATE "C" NOT NULL, -- ISO week, such as 2026-W47
    version     BIGINT           NOT NULL, -- 1, and one more each time the verdicts have changed since
    destination TEXT COLLATE "C" NOT NULL, -- directory, webhook
    digest      BIGINT           NOT NULL, -- CRC-32 (IEEE) of the verdicts that it shows
    time_ms     BIGINT,                    -- null: on purpose not sent again
    PRIMARY KEY (week, version, destination)
);
