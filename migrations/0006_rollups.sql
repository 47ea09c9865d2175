-- Counts of clicks by day and by what they are broken down by, so that a report costs as much as its window is long.

-- The host of the page that a referer names, in lower case; empty when it names none. Null until the text is stored anew.
ALTER TABLE visitor_texts ADD COLUMN host TEXT;

-- Clicks by link, day (unix milliseconds of its start) and kind: the sums of click_hours, folded with them.
CREATE TABLE click_days (
    link   BIGINT NOT NULL,
    day    BIGINT NOT NULL,
    kind   BIGINT NOT NULL,
    clicks BIGINT NOT NULL,
    PRIMARY KEY (link, day, kind)
);
INSERT INTO click_days (link, day, kind, clicks)
SELECT link, hour - hour % 86400000, kind, CAST(SUM(clicks) AS BIGINT) FROM click_hours
GROUP BY link, hour - hour % 86400000, kind;

-- Clicks of people and agents by platform and referring host, beside the hours rather than in them: a link has few kinds
-- and many hosts, and most reports ask for neither. What was folded before has the platform -1 and no host.
CREATE TABLE click_facets (
    link           BIGINT NOT NULL,
    hour           BIGINT NOT NULL,
    platform       BIGINT NOT NULL,
    host           TEXT   NOT NULL,
    clicks         BIGINT NOT NULL,
    first_position BIGINT NOT NULL,
    last_position  BIGINT NOT NULL,
    first_at       BIGINT NOT NULL,
    last_at        BIGINT NOT NULL,
    PRIMARY KEY (link, hour, platform, host)
);
INSERT INTO click_facets (link, hour, platform, host, clicks, first_position, last_position, first_at, last_at)
SELECT link, hour, -1, '', CAST(SUM(clicks) AS BIGINT), MIN(first_position), MAX(last_position), MIN(first_at), MAX(last_at)
FROM click_hours WHERE kind = 0 OR kind = 3 GROUP BY link, hour;

-- The same by day.
CREATE TABLE click_facet_days (
    link     BIGINT NOT NULL,
    day      BIGINT NOT NULL,
    platform BIGINT NOT NULL,
    host     TEXT   NOT NULL,
    clicks   BIGINT NOT NULL,
    PRIMARY KEY (link, day, platform, host)
);
INSERT INTO click_facet_days (link, day, platform, host, clicks)
SELECT link, hour - hour % 86400000, -1, '', CAST(SUM(clicks) AS BIGINT) FROM click_facets
GROUP BY link, hour - hour % 86400000;

-- Where plans limit, each keeps the log for its own time:
--   removed:<plan>  up to here nothing is left of accounts that had this plan or a smaller one when it was passed.
INSERT INTO click_marks (name, position) VALUES ('removed:free', 0), ('removed:pro', 0), ('removed:business', 0);
