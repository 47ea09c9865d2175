-- Touches that come to a user while conversions are credited anew do not start that over: what is under way ends, and then
-- the conversions from this moment on are credited once more.
ALTER TABLE credit_work ADD COLUMN again_at BIGINT;
