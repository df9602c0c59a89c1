-- What ports of a network show; NULL of other advice, and in all rows of earlier releases.
ALTER TABLE advisories ADD COLUMN cause TEXT;
ALTER TABLE advisories ADD COLUMN which TEXT; -- port of node that shows it; NULL: none is named
