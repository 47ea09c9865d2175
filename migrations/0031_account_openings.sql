-- When any link opened an install again the time before, by the clock; null the first time. The installs that links of an
-- account opened again in a window are those touches whose account_before lies before the window: no distinct count is needed.
ALTER TABLE touches ADD COLUMN account_before BIGINT;
UPDATE touches SET account_before = earlier.at_before
FROM (SELECT install, at, number, LAG(at) OVER (PARTITION BY install ORDER BY at, number) AS at_before
    FROM touches WHERE number > 1) AS earlier
WHERE earlier.install = touches.install AND earlier.at = touches.at AND earlier.number = touches.number
    AND earlier.at_before IS NOT NULL;
DROP INDEX touches_account;
CREATE INDEX touches_account ON touches (account, at, number, account_before);
