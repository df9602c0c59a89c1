-- CRC-32 (IEEE) of the row's id and labels. NULL in rows of earlier releases.
ALTER TABLE series ADD COLUMN checksum INTEGER;
