-- What accounts pay. The state of a subscription is what the processor said when it was last asked, never what a notice
-- said.

-- The plan that the operator grants; null: none.
ALTER TABLE tenants ADD COLUMN comp_tier TEXT;
-- active, past_due, canceled; null: there never was a subscription. plan_tier is the subscription's until it ends.
ALTER TABLE tenants ADD COLUMN subscription_status TEXT;
-- When a failed payment was first seen; the plan stays for seven days from then.
ALTER TABLE tenants ADD COLUMN past_due_since BIGINT;
ALTER TABLE tenants ADD COLUMN current_period_end BIGINT;
ALTER TABLE tenants ADD COLUMN cancel_scheduled BOOLEAN NOT NULL DEFAULT FALSE;
-- The processor's names for the account and its subscription.
ALTER TABLE tenants ADD COLUMN stripe_customer TEXT;
ALTER TABLE tenants ADD COLUMN stripe_subscription TEXT;
-- A second subscription that is paid beside that one, and takes its place when it grants nothing any more.
ALTER TABLE tenants ADD COLUMN stripe_rival TEXT;
-- Grows with each change of the above: what was read before such a change is not stored after it.
ALTER TABLE tenants ADD COLUMN billing_version BIGINT NOT NULL DEFAULT 0;
CREATE UNIQUE INDEX tenants_stripe_customer ON tenants (stripe_customer) WHERE stripe_customer IS NOT NULL;
-- Subscriptions whose period is over are asked about again.
CREATE INDEX tenants_period_end ON tenants (current_period_end) WHERE stripe_subscription IS NOT NULL;
CREATE INDEX tenants_stripe_rival ON tenants (id) WHERE stripe_rival IS NOT NULL;

-- Notices of the processor that took effect; kept for 30 days.
CREATE TABLE stripe_events (
    id         TEXT   NOT NULL PRIMARY KEY,
    created_at BIGINT NOT NULL
);
CREATE INDEX stripe_events_created ON stripe_events (created_at);

-- For the node that asks about subscriptions whose period is over; it expires when that is due again.
INSERT INTO leases (name, holder, expires_at) VALUES ('subscriptions', '', 0);
