-- A destination that was taken down is refused with further parameters too.

-- SHA-256 of the address without its parameters, hex; null for other schemes and for what was taken down before.
ALTER TABLE blocked_destinations ADD COLUMN page_hash TEXT;
-- The parameters, sorted, each once, joined by &.
ALTER TABLE blocked_destinations ADD COLUMN parameters TEXT;
CREATE INDEX blocked_destinations_page ON blocked_destinations (tenant_id, page_hash);
