-- Bounds on the work of one report, whoever sends how many.
--
-- What credits a user's conversions are the 100 installs that were bound to the user last, of those that a link touched. A conversion, or the binding of
-- an install, is credited to at most 100 links: the first, the last and those that touched most recently. Below these
-- bounds nothing is left out. A conversion is credited when it is stored, and anew when touches come to its user that may
-- lie before it: an install that is bound, or a touch after a clock stepped back. (What is said to happen later counts as
-- having happened when it arrived.)

-- A user's touched installs, by when they were bound; and whether one of a model is among them.
DROP INDEX installs_user;
CREATE INDEX installs_user ON installs (app_user, bound_at, position) WHERE first_link IS NOT NULL;
CREATE INDEX installs_model ON installs (app_user, device_model) WHERE app_user IS NOT NULL;

-- Whether a link may be credited with what the install's user does: the 100 that touched it most recently, by the clock. The
-- install's first and last touch count besides.
ALTER TABLE install_links ADD COLUMN credited BOOLEAN NOT NULL DEFAULT TRUE;
UPDATE install_links SET credited = FALSE WHERE (install, link) IN (
    SELECT install, link FROM (
        SELECT install, link, ROW_NUMBER() OVER (PARTITION BY install
            ORDER BY CASE WHEN last_opened_at > first_at THEN last_opened_at ELSE first_at END DESC, link) AS place
        FROM install_links) AS ranked
    WHERE place > 100);
CREATE INDEX install_links_credited ON install_links (install, credited);

DROP INDEX conversions_user;
CREATE INDEX conversions_user ON conversions (app_user, at, position);

-- Users some of whose conversions are still to be credited anew, and made events where they are none yet: those after this
-- moment and, of the same moment, after this position. One write does at most 500 of them, oldest first, and what it
-- leaves stands here with it. Whoever holds the user's row goes on.
CREATE TABLE credit_work (
    app_user       BIGINT NOT NULL PRIMARY KEY REFERENCES app_users (position),
    since_at       BIGINT NOT NULL,
    since_position BIGINT NOT NULL
);
