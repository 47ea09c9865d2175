-- What is known of a person's browser and device (UserAgent::code); 0 of an agent, and of clicks from before.
ALTER TABLE clicks ADD COLUMN agent_code BIGINT NOT NULL DEFAULT 0;
-- Counts are by kind and user agent: kind + 8 * agent_code, so what is counted has the user agent 0.
ALTER TABLE click_hours RENAME COLUMN kind TO visitor;
ALTER TABLE click_days RENAME COLUMN kind TO visitor;
