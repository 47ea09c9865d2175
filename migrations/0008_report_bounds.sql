-- What keeps reports and their counts small: the first touches of a link without those that open an install again, and the
-- oldest counts first.

CREATE INDEX touches_first ON touches (link) WHERE number = 1;

-- Counts by host are words of visitors, so they do not stay for ever: those of hours for some weeks, those of days as long
-- as the log.
CREATE INDEX click_facets_hour ON click_facets (hour);
CREATE INDEX click_facet_days_day ON click_facet_days (day);
