-- Whose an address, a domain of addresses and the key of a conversion are.

-- A domain of mail addresses is somebody's once an account has proved an address in it. What stands before the domain ends
-- with the only @ of an address: that is left when every other character is taken off the end.
CREATE INDEX users_verified_domain
    ON users (substr(email, length(rtrim(email, replace(email, '@', ''))) + 1)) WHERE verified;

-- purpose: domain as well, for all mails to a domain of addresses, and kept, for the link to sign in with that is kept for
-- whoever has the address. But for kept an address stands here without its tag: a+b@c is a@c.
-- For signin: from which networks the mails of this hour were asked for, each as a MAC of 16 hex digits behind a space.
ALTER TABLE mail_allowances ADD COLUMN networks TEXT NOT NULL DEFAULT '';

-- Publishable keys are public, so the keys of their conversions are apart from those of the account's own servers.
DROP INDEX conversion_keys_expiry;
ALTER TABLE conversion_keys RENAME TO conversion_keys_of_all;
CREATE TABLE conversion_keys (
    tenant_id  TEXT    NOT NULL,
    -- whether a publishable key reported the conversion; else a secret key or a source did
    is_public  BOOLEAN NOT NULL,
    key        TEXT    NOT NULL,
    -- conversions.id
    conversion TEXT    NOT NULL,
    expires_at BIGINT  NOT NULL,
    PRIMARY KEY (tenant_id, is_public, key)
);
INSERT INTO conversion_keys (tenant_id, is_public, key, conversion, expires_at)
    SELECT tenant_id, FALSE, key, conversion, expires_at FROM conversion_keys_of_all;
-- What no source reported came with a publishable or a secret key, and nothing says which. Its key stays taken for both
-- until it expires, so that no repeat is counted as a second conversion.
INSERT INTO conversion_keys (tenant_id, is_public, key, conversion, expires_at)
    SELECT tenant_id, TRUE, key, conversion, expires_at FROM conversion_keys_of_all
    WHERE NOT EXISTS (SELECT 1 FROM conversions
        WHERE conversions.id = conversion_keys_of_all.conversion AND conversions.source_id IS NOT NULL);
DROP TABLE conversion_keys_of_all;
CREATE INDEX conversion_keys_expiry ON conversion_keys (expires_at);

-- Few replies are sealed. They are counted by server key at each start, which reads no others.
CREATE INDEX replies_sealed ON replies (id) WHERE substr(body, 1, 7) = 'sealed ';
