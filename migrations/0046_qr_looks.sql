-- How links' QR codes look, and the logos that accounts upload for them.

-- JSON with the options of a QR code. Null: the default look.
ALTER TABLE links ADD COLUMN qr TEXT;

-- At most 20 of an account. Links name them, and are drawn without one that is gone.
CREATE TABLE qr_logos (
    tenant_id  TEXT   NOT NULL REFERENCES tenants (id),
    name       TEXT   NOT NULL,
    -- SHA-256 of the PNG in hex.
    digest     TEXT   NOT NULL,
    width      BIGINT NOT NULL,
    height     BIGINT NOT NULL,
    bytes      BIGINT NOT NULL,
    -- When a logo was first uploaded under this name.
    created_at BIGINT NOT NULL,
    -- When the picture was uploaded.
    updated_at BIGINT NOT NULL,
    -- The picture as it was decoded, as a PNG. The last column: SQLite reads all pages of a row up to the column it needs.
    image      BYTEA  NOT NULL,
    PRIMARY KEY (tenant_id, name)
);
