-- What an account sets for itself. `time_zone` is a name of the IANA database; visitors see `icon_url` and `theme_color` of links
-- whose app has none.
ALTER TABLE tenants ADD COLUMN name TEXT;
ALTER TABLE tenants ADD COLUMN time_zone TEXT;
ALTER TABLE tenants ADD COLUMN icon_url TEXT;
ALTER TABLE tenants ADD COLUMN theme_color TEXT;
