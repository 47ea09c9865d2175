-- Which deliveries were sent again.
CREATE INDEX deliveries_replays ON deliveries (replay_of) WHERE replay_of IS NOT NULL;
