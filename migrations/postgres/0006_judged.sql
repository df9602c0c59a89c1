-- The write-ahead seq up to which verdicts rest on all samples; one row, none before the first round of judging.
CREATE TABLE judged (
    one BIGINT PRIMARY KEY CHECK (one = 1),
    seq BIGINT NOT NULL
);
