-- Events stay in the log as long as clicks do, so those that go by kept_until are copies of clicks and samples alone.
DROP INDEX events_kept;
CREATE INDEX events_kept ON events (kept_until) WHERE kind = 0 OR position = 0;

-- Where plans limit, each keeps the log for its own time:
--   events:<plan>  before this time (unix milliseconds) nothing is left of accounts that had this plan or a smaller one then.
INSERT INTO click_marks (name, position) VALUES ('events:free', 0), ('events:pro', 0), ('events:business', 0);
