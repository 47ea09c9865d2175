-- The page of a link that was taken down, and its explanation, name the operator's reason.
CREATE INDEX link_status_changes_link ON link_status_changes (tenant_id, link_id);
