-- Only the state of a segment that is loaded to its end may be forgotten: without it, the rest would be stored twice.
ALTER TABLE click_journals ADD COLUMN finished BIGINT NOT NULL DEFAULT 0;
