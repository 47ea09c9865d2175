-- What a link's owner decides: its name, whether it works, and when it ends.

-- For the owner's eyes alone.
ALTER TABLE links ADD COLUMN name TEXT;
-- The owner's switch.
ALTER TABLE links ADD COLUMN enabled BOOLEAN NOT NULL DEFAULT TRUE;
-- Whether the operator or the threat list flagged or disabled it. `status` is what both switches make of it.
ALTER TABLE links ADD COLUMN taken_down BOOLEAN NOT NULL DEFAULT FALSE;
UPDATE links SET taken_down = TRUE WHERE status IS NOT NULL;
-- The end that the owner set. `expires_at` is the earlier of this and the end of links without a verified domain, which is kept
-- apart only beside an owner's.
ALTER TABLE links ADD COLUMN owner_expires_at BIGINT;
ALTER TABLE links ADD COLUMN rule_expires_at BIGINT;
-- Where people are sent who open it after it expired.
ALTER TABLE links ADD COLUMN expired_url TEXT;
