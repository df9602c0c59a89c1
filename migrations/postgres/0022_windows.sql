-- Which windows were judged, and until when: a window may have no verdicts though it was judged.
CREATE TABLE windows (
    start_ms BIGINT PRIMARY KEY,
    end_ms   BIGINT NOT NULL
);
