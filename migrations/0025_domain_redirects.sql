-- Where a domain sends people who open no link.

-- Who opens /; null shows a page.
ALTER TABLE domains ADD COLUMN root_url TEXT;
-- Who opens a link that does not exist; null shows a page.
ALTER TABLE domains ADD COLUMN not_found_url TEXT;
