-- What made a network slow; NULL of classes without causes, and in all rows of earlier releases.
ALTER TABLE intervals ADD COLUMN cause TEXT;
ALTER TABLE intervals ADD COLUMN which TEXT; -- port of charged_node that has it; NULL: none is named
