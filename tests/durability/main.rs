//! What the service keeps when something breaks: the real program, killed, filled up, locked out, stopped and started
//! twice while it is busy.
//!
//! Each test begins with the number of its row in the fault plan and says in its comment what is promised. The clients
//! write down what they send and what is acknowledged ([`journal`]); after the fault the database itself is read
//! ([`store`]) and held against that ([`oracle`]). With `TEST_DATABASE_URL` the database is PostgreSQL, otherwise a
//! SQLite file; what can only happen to a file is tested on a file either way.
//!
//! The tests take turns, since each wants the machine for itself. Each prints its seed, and `DURABILITY_SEED` runs it
//! with that seed again.

mod home;
mod hooked;
mod journal;
mod load;
mod locker;
mod machine;
mod node;
mod oracle;
mod report;
mod room;
mod store;
mod wire;

mod f00_oracle;
mod f01_killed;
mod f04_disk_full;
mod f06_locked;
mod f11_deliveries_pending;
mod f12_bad_receivers;
mod f15_started_twice;
mod f16_stopped;
