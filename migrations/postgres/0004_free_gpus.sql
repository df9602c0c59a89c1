-- Of scattered_gpus the GPUs that were free when the run began; NULL of other advice, and in all rows of earlier releases.
ALTER TABLE advisories ADD COLUMN free TEXT;
