-- How each node was set up in a window, beside the other nodes of its pool, and how it kept up with those of its runs.
CREATE TABLE standings (
    node     TEXT   NOT NULL,
    start_ms BIGINT NOT NULL,
    end_ms   BIGINT NOT NULL,
    standing TEXT   NOT NULL -- JSON object; its fields only grow
);

CREATE INDEX standings_by_node ON standings (node, start_ms);
CREATE INDEX standings_by_time ON standings (start_ms);
