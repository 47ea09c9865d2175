-- Whether an event was sent again: all of an event's deliveries to a webhook but the first are replays.
DROP INDEX deliveries_replays;
CREATE INDEX deliveries_replays ON deliveries (webhook_id, event_id, id, state) WHERE replay_of IS NOT NULL;
