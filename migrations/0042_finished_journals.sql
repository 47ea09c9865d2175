-- Only the state of a fully loaded segment may be deleted; otherwise, its clicks would be stored twice.
ALTER TABLE click_journals ADD COLUMN finished BIGINT NOT NULL DEFAULT 0;
