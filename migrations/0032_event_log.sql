-- Events stay in the log as long as clicks do. What goes by kept_until are copies of clicks, samples (position 0), and what has left
-- the log but is still being delivered (position -1).
DROP INDEX events_kept;
CREATE INDEX events_kept ON events (kept_until) WHERE kind = 0 OR position <= 0;
-- The oldest of the others, in their order.
CREATE INDEX events_log ON events (position, kept_until) WHERE position > 0 AND kind <> 0;

-- Where plans limit, each keeps the log for its own time:
--   events:<plan>  up to here nothing is left of accounts that had this plan or a smaller one when it was passed.
INSERT INTO click_marks (name, position) VALUES ('events:free', 0), ('events:pro', 0), ('events:business', 0);
