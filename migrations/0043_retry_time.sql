-- How long failed deliveries of a webhook are retried, in seconds.
ALTER TABLE webhooks ADD COLUMN retry_for BIGINT NOT NULL DEFAULT 31;
