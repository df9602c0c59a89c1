-- Verdicts of one GPU or one owner are found without reading the fleet's.
CREATE INDEX intervals_by_gpu ON intervals (gpu, start_ms);
CREATE INDEX intervals_by_owner ON intervals (owner, start_ms);
