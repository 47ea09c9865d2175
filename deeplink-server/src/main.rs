//! The server's process: everything is in the library.

/// In place of musl's, which has one lock for all threads. SQLite and AWS-LC, in C, keep musl's.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    deeplink_server::admin::main()
}
