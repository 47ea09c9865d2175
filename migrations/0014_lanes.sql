-- Reports count rows that lie together instead of looking at each: credits of one link, side and type by their moment, the
-- first touches of a link, and those that open an install which the link had opened again before.
DROP INDEX install_credits_link;
CREATE INDEX install_credits_link ON install_credits (link, is_last, is_first, bound_as, at, install);
DROP INDEX conversion_credits_link;
CREATE INDEX conversion_credits_link ON conversion_credits (link, is_last, is_first, conversion_type, at, conversion);

DROP INDEX touches_first;
CREATE INDEX touches_first ON touches (link, at) WHERE number = 1;
CREATE INDEX touches_in_between ON touches (link, opened_before, at) WHERE opened_before IS NOT NULL;
