-- The MIG instance of the GPU that an interval is about; NULL of the GPU itself, and in all rows of earlier releases.
ALTER TABLE intervals ADD COLUMN gpu_instance         BIGINT; -- NVML's id of the GPU instance
ALTER TABLE intervals ADD COLUMN gpu_instance_profile TEXT;   -- such as 1g.10gb; NULL: not told
