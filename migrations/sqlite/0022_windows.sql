-- Which windows were judged, and until when: a window may have no verdicts though it was judged.
CREATE TABLE windows (
    start_ms INTEGER PRIMARY KEY,
    end_ms   INTEGER NOT NULL
) STRICT;
