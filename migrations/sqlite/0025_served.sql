-- Rows of what inference servers count, which is not configured.
ALTER TABLE achieved ADD COLUMN served TEXT; -- JSON object; NULL: a counter that is configured
ALTER TABLE achieved ADD COLUMN model  TEXT; -- NULL: the series do not name it
