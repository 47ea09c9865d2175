-- What all links of an account led to together, so that a report on the account costs the same however many links it has.

-- The number of the account in tables of counts and credits, where the position of a link is expected: even and negative, and so
-- never a position. What no link led to is under the odd number below it.
ALTER TABLE tenants ADD COLUMN account BIGINT;
UPDATE tenants SET account = -2 * numbered.nth
FROM (SELECT id, ROW_NUMBER() OVER (ORDER BY created_at, id) AS nth FROM tenants) AS numbered
WHERE numbered.id = tenants.id;
CREATE UNIQUE INDEX tenants_account ON tenants (account);

CREATE TABLE link_accounts (
    link    BIGINT NOT NULL PRIMARY KEY,
    account BIGINT NOT NULL
);
INSERT INTO link_accounts (link, account)
SELECT o.position, t.account
FROM (SELECT position, tenant_id FROM links UNION SELECT position, tenant_id FROM deleted_links) AS o
    JOIN tenants t ON t.id = o.tenant_id;

INSERT INTO click_hours (link, hour, kind, clicks, first_position, last_position, first_at, last_at)
SELECT o.account, h.hour, h.kind, CAST(SUM(h.clicks) AS BIGINT), MIN(h.first_position), MAX(h.last_position),
    MIN(h.first_at), MAX(h.last_at)
FROM click_hours h JOIN link_accounts o ON o.link = h.link GROUP BY o.account, h.hour, h.kind;
INSERT INTO click_days (link, day, kind, clicks)
SELECT o.account, d.day, d.kind, CAST(SUM(d.clicks) AS BIGINT)
FROM click_days d JOIN link_accounts o ON o.link = d.link GROUP BY o.account, d.day, d.kind;

-- The 1,000 hosts with the most clicks of an account's day keep their names.
CREATE TABLE account_hosts (
    account BIGINT NOT NULL,
    day     BIGINT NOT NULL,
    host    TEXT   NOT NULL,
    PRIMARY KEY (account, day, host)
);
INSERT INTO account_hosts (account, day, host)
SELECT account, day, host FROM (
    SELECT o.account, d.day, d.host,
        ROW_NUMBER() OVER (PARTITION BY o.account, d.day ORDER BY SUM(d.clicks) DESC, d.host) AS place
    FROM click_facet_days d JOIN link_accounts o ON o.link = d.link
    WHERE d.host <> '' AND d.host <> 'other' GROUP BY o.account, d.day, d.host) AS ranked
WHERE place <= 1000;
INSERT INTO click_facets (link, hour, platform, host, clicks, first_position, last_position, first_at, last_at)
SELECT account, hour, platform, host, CAST(SUM(clicks) AS BIGINT), MIN(first_position), MAX(last_position),
    MIN(first_at), MAX(last_at)
FROM (
    SELECT o.account, f.hour, f.platform,
        CASE WHEN f.host = '' OR n.host IS NOT NULL THEN f.host ELSE 'other' END AS host,
        f.clicks, f.first_position, f.last_position, f.first_at, f.last_at
    FROM click_facets f JOIN link_accounts o ON o.link = f.link
        LEFT JOIN account_hosts n
        ON n.account = o.account AND n.day = f.hour - f.hour % 86400000 AND n.host = f.host) AS named
GROUP BY account, hour, platform, host;
INSERT INTO click_facet_days (link, day, platform, host, clicks)
SELECT account, day, platform, host, CAST(SUM(clicks) AS BIGINT)
FROM (
    SELECT o.account, d.day, d.platform,
        CASE WHEN d.host = '' OR n.host IS NOT NULL THEN d.host ELSE 'other' END AS host, d.clicks
    FROM click_facet_days d JOIN link_accounts o ON o.link = d.link
        LEFT JOIN account_hosts n ON n.account = o.account AND n.day = d.day AND n.host = d.host) AS named
GROUP BY account, day, platform, host;
DROP TABLE account_hosts;
DROP TABLE link_accounts;

-- Whose install a link opened.
ALTER TABLE touches ADD COLUMN account BIGINT;
UPDATE touches SET account = t.account
FROM installs i JOIN tenants t ON t.id = i.tenant_id WHERE i.position = touches.install;
CREATE INDEX touches_account ON touches (account, at, number, install);

-- A binding or a conversion that a link is credited with is the account's as well.
INSERT INTO install_credits (link, at, bound_as, is_first, is_last, install)
SELECT t.account, c.at, c.bound_as, TRUE, TRUE, c.install
FROM install_credits c JOIN installs i ON i.position = c.install JOIN tenants t ON t.id = i.tenant_id
WHERE c.is_last = TRUE;
INSERT INTO conversion_credits (link, at, conversion_type, is_first, is_last, conversion)
SELECT CASE WHEN c.first_link IS NULL THEN t.account - 1 ELSE t.account END, c.at, c.conversion_type, TRUE, TRUE, c.position
FROM conversions c JOIN tenants t ON t.id = c.tenant_id
WHERE c.first_link IS NOT NULL OR c.emitted_at IS NOT NULL;
