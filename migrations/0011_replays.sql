-- The delivery that this one sends once more, because somebody asked for it.
ALTER TABLE deliveries ADD COLUMN replay_of TEXT;
