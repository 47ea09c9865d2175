-- Custom domains that are proved over DNS, and the apps that open a tenant's links.

-- How many domains a tenant claims or owns now; moves with the rows of domains.
ALTER TABLE tenants ADD COLUMN domain_count BIGINT NOT NULL DEFAULT 0;
-- While the expiry of its links is lifted: since when, and the position up to which it is done.
ALTER TABLE tenants ADD COLUMN lifting_since BIGINT;
ALTER TABLE tenants ADD COLUMN lifted_to BIGINT;
CREATE INDEX tenants_lifting ON tenants (id) WHERE lifting_since IS NOT NULL;

-- What the TXT record must say: 64 hex digits, new with each claim.
ALTER TABLE domains ADD COLUMN verification_token TEXT NOT NULL DEFAULT '';
-- Since when it is a claim without proof: an old one lapses.
ALTER TABLE domains ADD COLUMN claimed_at BIGINT NOT NULL DEFAULT 0;
-- When DNS is asked again, for a verified one.
ALTER TABLE domains ADD COLUMN check_at BIGINT;
-- Definite failures in a row since the token was last seen, and when the first of them was.
ALTER TABLE domains ADD COLUMN failures BIGINT NOT NULL DEFAULT 0;
ALTER TABLE domains ADD COLUMN failing_since BIGINT;
CREATE INDEX domains_check ON domains (check_at) WHERE check_at IS NOT NULL;
CREATE INDEX domains_claims ON domains (claimed_at) WHERE verified_at IS NULL;
CREATE INDEX domains_name ON domains (domain);
-- One verified alternate for each tenant.
CREATE UNIQUE INDEX domains_alternate ON domains (tenant_id) WHERE role = 'alternate' AND verified_at IS NOT NULL;

-- An app that opens a tenant's links.
CREATE TABLE apps (
    id           TEXT   NOT NULL PRIMARY KEY,
    tenant_id    TEXT   NOT NULL REFERENCES tenants (id),
    -- ios, android
    platform     TEXT   NOT NULL,
    -- bundle id or package name
    identifier   TEXT   NOT NULL,
    -- ios only
    team_id      TEXT,
    -- android only: a JSON array
    fingerprints TEXT,
    app_name     TEXT,
    icon_url     TEXT,
    theme_color  TEXT,
    created_at   BIGINT NOT NULL,
    UNIQUE (tenant_id, platform, identifier)
);
