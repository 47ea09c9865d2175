-- What waits when a webhook is switched off stays given up when it is switched on again. That is counted, since the clocks of
-- two nodes do not say which of two moments came first: a delivery is of the webhook's turn in which it was made, and one of
-- an earlier turn is not sent.
ALTER TABLE webhooks ADD COLUMN turn BIGINT NOT NULL DEFAULT 0;
ALTER TABLE deliveries ADD COLUMN turn BIGINT NOT NULL DEFAULT 0;
ALTER TABLE webhooks DROP COLUMN waits_after;

-- From where on anybody wants clicks is asked with every look at the log.
CREATE INDEX webhooks_clicks_after ON webhooks (clicks_after) WHERE active = TRUE AND kinds % 2 = 1;
