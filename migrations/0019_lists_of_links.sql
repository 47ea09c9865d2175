-- Filters of a list of links are judged on the entries of one index, so that rows are read for the page alone. The few links
-- whose status an operator or the threat list set have indexes of their own.
DROP INDEX links_newest;
CREATE INDEX links_newest ON links (tenant_id, position, status, expires_at, link_id, deleted_at);
DROP INDEX links_affiliate;
CREATE INDEX links_affiliate ON links (affiliate_id, position, tenant_id, status, expires_at, link_id, deleted_at)
    WHERE affiliate_id IS NOT NULL;
CREATE INDEX links_status ON links (tenant_id, status, position, link_id, deleted_at) WHERE status IS NOT NULL;
CREATE INDEX links_affiliate_status ON links (affiliate_id, status, position, tenant_id, link_id, deleted_at)
    WHERE affiliate_id IS NOT NULL AND status IS NOT NULL;
