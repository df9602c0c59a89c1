-- The cluster of the node: names of nodes and of runs are only unique within one. NULL: series name none, or not told by the
-- release that judged it.
ALTER TABLE intervals  ADD COLUMN cluster TEXT;
ALTER TABLE advisories ADD COLUMN cluster TEXT;
ALTER TABLE risks      ADD COLUMN cluster TEXT;
