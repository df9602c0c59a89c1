-- Messages about weekly reports. A row is committed before its message is sent; a week has one message for each contact.
CREATE TABLE outbox (
    destination TEXT COLLATE "C" NOT NULL, -- its name in the configuration
    contact     TEXT COLLATE "C" NOT NULL, -- who gets it: an address, or a team
    week        TEXT COLLATE "C" NOT NULL, -- ISO week, such as 2026-W47
    version     BIGINT           NOT NULL, -- of the report, as in deliveries
    digest      BIGINT           NOT NULL, -- CRC-32 (IEEE) of the verdicts of that version
    state       TEXT COLLATE "C" NOT NULL, -- pending, sent, refused, held, withheld, unsubscribed
    attempts    BIGINT           NOT NULL,
    next_ms     BIGINT           NOT NULL, -- not before then is the next attempt
    message_id  TEXT COLLATE "C" NOT NULL, -- a function of destination, contact and week
    time_ms     BIGINT           NOT NULL, -- of the last change
    findings    TEXT COLLATE "C" NOT NULL, -- JSON array: ids of the findings that it names
    reason      TEXT COLLATE "C", -- why the last attempt came to nothing
    checksum    BIGINT,
    PRIMARY KEY (destination, contact, week)
);

-- Contacts that want no messages of a destination.
CREATE TABLE unsubscribed (
    destination TEXT COLLATE "C" NOT NULL,
    contact     TEXT COLLATE "C" NOT NULL,
    time_ms     BIGINT           NOT NULL,
    checksum    BIGINT,
    PRIMARY KEY (destination, contact)
);
