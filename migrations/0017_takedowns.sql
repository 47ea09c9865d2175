-- Takedowns that stay, and accounts that the operator suspended.

-- When its tenant deleted a link that was flagged or disabled. The row keeps the id and shows the notice until an operator
-- enables the link; then it is removed. To its tenant it is gone.
ALTER TABLE links ADD COLUMN deleted_at BIGINT;

-- Where a tenant's links may not lead: the destinations of its links that were flagged or disabled.
CREATE TABLE blocked_destinations (
    tenant_id TEXT   NOT NULL REFERENCES tenants (id),
    -- SHA-256 of the URL in the form of the threat list, without its fragment, hex
    url_hash  TEXT   NOT NULL,
    -- links.position of the link that was taken down
    link      BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, url_hash, link)
);
CREATE INDEX blocked_destinations_link ON blocked_destinations (link);

-- Since when the operator suspends the account; null: not suspended.
ALTER TABLE tenants ADD COLUMN suspended_at BIGINT;

-- Why the operator suspended an account or resumed it.
CREATE TABLE tenant_status_changes (
    tenant_id  TEXT   NOT NULL,
    -- active, suspended
    status     TEXT   NOT NULL,
    reason     TEXT   NOT NULL,
    changed_at BIGINT NOT NULL
);
CREATE INDEX tenant_status_changes_of ON tenant_status_changes (tenant_id, changed_at);
