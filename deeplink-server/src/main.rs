//! The server's process: everything is in the library.

fn main() -> std::process::ExitCode {
    deeplink_server::admin::main()
}
