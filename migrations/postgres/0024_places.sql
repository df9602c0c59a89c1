-- A node's name is unique within its cluster only. Rows are replaced by both.
ALTER TABLE achieved ADD COLUMN cluster TEXT; -- NULL: the series name none, or not told by the release that counted

-- Out of the JSON that the row has: NULL where it names none.
ALTER TABLE standings ADD COLUMN cluster TEXT GENERATED ALWAYS AS (standing::jsonb ->> 'cluster') STORED;
