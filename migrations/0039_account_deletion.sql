-- When an account will be deleted, unless that is canceled.
ALTER TABLE tenants ADD COLUMN deletes_at BIGINT;
-- When its deletion began. When all of its rows are deleted, deletes_at is null again, and only this row is left.
ALTER TABLE tenants ADD COLUMN deleted_at BIGINT;
CREATE INDEX tenants_deletes ON tenants (deletes_at) WHERE deletes_at IS NOT NULL;
INSERT INTO leases (name, holder, expires_at) VALUES ('erasure', '', 0);
CREATE INDEX deleted_links_tenant ON deleted_links (tenant_id, position);
