-- Messages about weekly reports. A row is committed before its message is sent; a week has one message for each contact.
CREATE TABLE outbox (
    destination TEXT    NOT NULL, -- its name in the configuration
    contact     TEXT    NOT NULL, -- who gets it: an address, or a team
    week        TEXT    NOT NULL, -- ISO week, such as 2026-W47
    version     INTEGER NOT NULL, -- of the report, as in deliveries
    digest      INTEGER NOT NULL, -- CRC-32 (IEEE) of the verdicts of that version
    state       TEXT    NOT NULL, -- pending, sent, refused, held, withheld, unsubscribed
    attempts    INTEGER NOT NULL,
    next_ms     INTEGER NOT NULL, -- not before then is the next attempt
    message_id  TEXT    NOT NULL, -- a function of destination, contact and week
    time_ms     INTEGER NOT NULL, -- of the last change
    findings    TEXT    NOT NULL, -- JSON array: ids of the findings that it names
    reason      TEXT,             -- why the last attempt came to nothing
    checksum    INTEGER,
    PRIMARY KEY (destination, contact, week)
) STRICT, WITHOUT ROWID;

-- Contacts that want no messages of a destination.
CREATE TABLE unsubscribed (
    destination TEXT    NOT NULL,
    contact     TEXT    NOT NULL,
    time_ms     INTEGER NOT NULL,
    checksum    INTEGER,
    PRIMARY KEY (destination, contact)
) STRICT, WITHOUT ROWID;
