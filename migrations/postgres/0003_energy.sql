-- What the GPU drew in an interval; NULL where that is not known, as in all rows of earlier releases.
ALTER TABLE intervals ADD COLUMN energy_mj         BIGINT; -- millijoules
ALTER TABLE intervals ADD COLUMN energy_ms         BIGINT; -- GPU-milliseconds that these are known for
ALTER TABLE intervals ADD COLUMN energy_counted_ms BIGINT; -- of these, by the board's energy counter
