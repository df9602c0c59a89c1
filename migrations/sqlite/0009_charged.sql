-- Who caused an interval where that is another GPU; NULL elsewhere, and in all rows of earlier releases.
ALTER TABLE intervals ADD COLUMN charged_node TEXT; -- the node of that GPU
ALTER TABLE intervals ADD COLUMN charged_gpu  TEXT; -- its UUID

-- What a GPU caused is found without reading the fleet's.
CREATE INDEX intervals_by_culprit ON intervals (charged_gpu, start_ms) WHERE charged_gpu IS NOT NULL;
