-- The links of an account that may be those with the most clicks of a day: its first 200, and beyond that a sample in which a link
-- is the more likely the more clicks it has. `clicks` counts people and agents since the link is there.
CREATE TABLE account_links (
    account BIGINT NOT NULL,
    day     BIGINT NOT NULL,
    link    BIGINT NOT NULL,
    clicks  BIGINT NOT NULL,
    PRIMARY KEY (account, day, link)
);
INSERT INTO account_links (account, day, link, clicks)
SELECT account, day, link, clicks FROM (
    SELECT t.account, d.day, d.link, CAST(SUM(d.clicks) AS BIGINT) AS clicks,
        ROW_NUMBER() OVER (PARTITION BY t.account, d.day ORDER BY SUM(d.clicks) DESC, d.link) AS place
    FROM click_days d
        JOIN (SELECT position, tenant_id FROM links UNION SELECT position, tenant_id FROM deleted_links) AS o
            ON o.position = d.link
        JOIN tenants t ON t.id = o.tenant_id
    WHERE d.visitor % 8 IN (0, 3) AND t.account IS NOT NULL
    GROUP BY t.account, d.day, d.link) AS ranked
WHERE place <= 500;
