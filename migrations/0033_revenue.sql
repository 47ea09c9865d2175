-- The amount of a credited conversion, so that a report sums revenue in an index of its own links and times.
ALTER TABLE conversion_credits ADD COLUMN amount_cents BIGINT;
ALTER TABLE conversion_credits ADD COLUMN currency TEXT;
UPDATE conversion_credits SET amount_cents = c.amount_cents, currency = c.currency
FROM conversions c WHERE c.position = conversion_credits.conversion AND c.amount_cents IS NOT NULL;
CREATE INDEX conversion_credits_revenue
    ON conversion_credits (link, at, is_last, is_first, currency, amount_cents, conversion) WHERE amount_cents IS NOT NULL;
