-- Clicks that a previous service counted, as the link's owner imported them: a starting count, in no sum of clicks. Null: none.
ALTER TABLE links ADD COLUMN imported_clicks BIGINT;
