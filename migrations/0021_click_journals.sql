-- How much of each segment of the nodes' journals is in the log and in the counts, in bytes; moves with what it says, so that
-- each click is stored once and counted once whenever the process dies. Kept long after the segment is gone, since a node
-- may come back late. Of files of versions without a journal, `loaded` is a number of clicks.
ALTER TABLE click_spills RENAME TO click_journals;
ALTER TABLE click_journals RENAME COLUMN number TO segment;
ALTER TABLE click_journals RENAME COLUMN stored TO loaded;
ALTER TABLE click_journals ADD COLUMN counted BIGINT NOT NULL DEFAULT 0;
-- Where a count is stored in several parts: up to here clicks of links up to `counted_link` are counted; 0 where none is.
ALTER TABLE click_journals ADD COLUMN counting BIGINT NOT NULL DEFAULT 0;
ALTER TABLE click_journals ADD COLUMN counted_link BIGINT NOT NULL DEFAULT 0;

-- The mark `folded` stays while clicks of such versions wait to be counted: the first start counts them and removes it.
DELETE FROM click_marks WHERE name = 'folded' AND NOT EXISTS (
    SELECT 1 FROM clicks WHERE clicks.position > click_marks.position);
