-- Which run the owner of an interval is, and to whom its time counts. NULL: nobody, not known, or not told by the release
-- that judged it.
ALTER TABLE intervals ADD COLUMN run     TEXT; -- the owner's own name, or that of the job whose ranks are owners
ALTER TABLE intervals ADD COLUMN account TEXT; -- namespace of a pod, account of a Slurm job
ALTER TABLE advisories ADD COLUMN run    TEXT; -- as of intervals
CREATE INDEX intervals_by_run ON intervals (run, start_ms);
