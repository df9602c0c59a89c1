-- The write-ahead seq up to which verdicts rest on all samples; one row, none before the first round of judging.
CREATE TABLE judged (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    seq INTEGER NOT NULL
) STRICT;
