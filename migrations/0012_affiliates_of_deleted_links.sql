-- Whose link it was: what a link led to before it was deleted is its affiliate's still. Of links deleted before this, nobody
-- knows it any more.
ALTER TABLE deleted_links ADD COLUMN affiliate_id TEXT;
