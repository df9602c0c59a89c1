-- What the clock was when the store was last open and the clock was believed; one row, none before.
CREATE TABLE clock (
    one     INTEGER PRIMARY KEY CHECK (one = 1),
    last_ms INTEGER NOT NULL
) STRICT;
