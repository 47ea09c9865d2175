-- What all links of an account led to, by hour and by day, so that a report on the account reads sums instead of events.
-- `width` is the length of the interval in milliseconds, `start` its beginning. `effect`: 0 installs that a link opened first,
-- 1 openings of an install after its first, 2 bindings (label: installs.bound_as), 3 conversions (label: their type),
-- 4 revenue (label: the currency; high and low: the halves of the sum).
-- `since`, of openings after the first: the interval of the opening before; -1 if there is none, and in hours if it was over 25 hours
-- earlier. 0 otherwise.
CREATE TABLE account_sums (
    account BIGINT NOT NULL,
    width   BIGINT NOT NULL,
    start   BIGINT NOT NULL,
    effect  BIGINT NOT NULL,
    label   TEXT   NOT NULL,
    since   BIGINT NOT NULL,
    count   BIGINT NOT NULL,
    high    BIGINT NOT NULL,
    low     BIGINT NOT NULL,
    PRIMARY KEY (account, width, effect, start, label, since)
);
CREATE INDEX touches_before ON touches (account, account_before, at) WHERE account_before IS NOT NULL;

INSERT INTO account_sums (account, width, start, effect, label, since, count, high, low)
SELECT account, width, at - at % width, CASE WHEN number = 1 THEN 0 ELSE 1 END, '',
    CASE WHEN number = 1 THEN 0
        WHEN account_before IS NULL
            OR width = 3600000 AND (at - at % width) - (account_before - account_before % width) > 90000000 THEN -1
        ELSE account_before - account_before % width END,
    COUNT(*), 0, 0
FROM touches CROSS JOIN (SELECT CAST(3600000 AS BIGINT) AS width UNION ALL SELECT 86400000) AS widths
WHERE account IS NOT NULL GROUP BY 1, 2, 3, 4, 6;
INSERT INTO account_sums (account, width, start, effect, label, since, count, high, low)
SELECT link, width, at - at % width, 2, CAST(bound_as AS TEXT), 0, COUNT(*), 0, 0
FROM install_credits CROSS JOIN (SELECT CAST(3600000 AS BIGINT) AS width UNION ALL SELECT 86400000) AS widths
WHERE link < 0 GROUP BY 1, 2, 3, 5;
INSERT INTO account_sums (account, width, start, effect, label, since, count, high, low)
SELECT link, width, at - at % width, 3, conversion_type, 0, COUNT(*), 0, 0
FROM conversion_credits CROSS JOIN (SELECT CAST(3600000 AS BIGINT) AS width UNION ALL SELECT 86400000) AS widths
WHERE link < 0 GROUP BY 1, 2, 3, 5;
INSERT INTO account_sums (account, width, start, effect, label, since, count, high, low)
SELECT link, width, at - at % width, 4, currency, 0, COUNT(*), CAST(SUM(amount_cents >> 32) AS BIGINT),
    CAST(SUM(amount_cents & 4294967295) AS BIGINT)
FROM conversion_credits CROSS JOIN (SELECT CAST(3600000 AS BIGINT) AS width UNION ALL SELECT 86400000) AS widths
WHERE link < 0 AND amount_cents IS NOT NULL GROUP BY 1, 2, 3, 5;
