-- Lists are read a page at a time, newest first, and ids are in the order of time. Deleted affiliates stay but are not listed.
CREATE INDEX affiliates_list ON affiliates (tenant_id, id) WHERE deleted_at IS NULL;
CREATE INDEX domains_list ON domains (tenant_id, id);
CREATE INDEX users_list ON users (tenant_id, id);
