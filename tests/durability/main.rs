//! What the service keeps when something breaks: the real binary, killed, out of disk space, locked out, stopped and
//! started twice while it is busy.
//!
//! Each test begins with the number of its row in the fault plan and states the promise in its comment. The clients
//! record what they send and what is acknowledged ([`journal`]); after the fault the database itself is read
//! ([`store`]) and compared with that ([`oracle`]). With `TEST_DATABASE_URL` the database is PostgreSQL, otherwise a
//! SQLite file; faults that only happen to a file are tested on a file either way.
//!
//! The tests run one at a time, since each needs the whole machine. Each prints its seed, and `DURABILITY_SEED` repeats
//! it with that seed.

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
