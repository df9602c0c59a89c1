-- What the clock was when the store was last open and the clock was believed; one row, none before.
CREATE TABLE clock (
    one     BIGINT PRIMARY KEY CHECK (one = 1),
    last_ms BIGINT NOT NULL
);
