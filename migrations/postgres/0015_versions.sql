-- By which rules an interval was judged. NULL: not told by the release that judged it.
ALTER TABLE intervals ADD COLUMN rule_version BIGINT; -- of the rules of its class
ALTER TABLE intervals ADD COLUMN rules_version BIGINT; -- of all rules together: the sum of their versions
