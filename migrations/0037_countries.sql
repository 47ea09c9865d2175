-- The country of a click, where the service is told it: 0 if not, else 1 for AA to 676 for ZZ.
ALTER TABLE clicks ADD COLUMN country BIGINT NOT NULL DEFAULT 0;

-- Clicks of people and agents by country; those without one are not here.
CREATE TABLE click_countries (
    link           BIGINT NOT NULL,
    hour           BIGINT NOT NULL,
    country        BIGINT NOT NULL,
    clicks         BIGINT NOT NULL,
    first_position BIGINT NOT NULL,
    last_position  BIGINT NOT NULL,
    first_at       BIGINT NOT NULL,
    last_at        BIGINT NOT NULL,
    PRIMARY KEY (link, hour, country)
);
CREATE TABLE click_country_days (
    link    BIGINT NOT NULL,
    day     BIGINT NOT NULL,
    country BIGINT NOT NULL,
    clicks  BIGINT NOT NULL,
    PRIMARY KEY (link, day, country)
);
CREATE INDEX click_countries_hour ON click_countries (hour);
CREATE INDEX click_country_days_day ON click_country_days (day);
