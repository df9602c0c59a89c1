-- What sampling leaves unknown of the milliseconds of an interval. NULL: not told by the release that judged it.
ALTER TABLE intervals ADD COLUMN variance_ms2 INTEGER; -- variance of ms, in square milliseconds
