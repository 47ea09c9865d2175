//! Measures the service against a bare server that answers a constant 302, both in the same run.
//!
//! The server runs on one core, the load on the other. The measure is requests per CPU-second of the server process
//! (user and system time from `/proc`), because wall-clock figures of a shared machine say little. Each scenario runs
//! several rounds, alternating with the yardstick's, and the median of the ratios is printed.

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

mod access;
mod billing;
mod clicks;
mod faults;
mod funnel;
mod generate;
mod hosted;
mod lifecycle;
mod load;
mod name_server;
mod process;
mod qr;
mod receiver;
mod scenario;
mod service;
mod shares;
mod unread;
mod webhooks;

use std::path::PathBuf;

use clap::{Parser, Subcommand};

/// Benchmarks of the deeplink service.
#[derive(Debug, Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serves a constant 302 on a port, as little as an axum server can do.
    Yardstick {
        /// Port on 127.0.0.1.
        port: u16,
    },
    /// Fills a database that the service created; the service must not be running.
    Generate(generate::Amounts),
    /// Runs scenarios and prints their figures.
    Run {
        /// The server to measure.
        #[arg(long, default_value = "target/release/deeplink-server")]
        server: PathBuf,
        /// The command line to measure.
        #[arg(long, default_value = "target/release/dl")]
        dl: PathBuf,
        /// Rounds of each scenario; the median counts.
        #[arg(long, default_value_t = 5)]
        rounds: usize,
        /// Seconds of load in a round.
        #[arg(long, default_value_t = 4)]
        seconds: u64,
        /// A database on a PostgreSQL server, for `clicks`, `shares`, `nodes` and `outage`; a new one is created beside it.
        #[arg(long, env = "TEST_DATABASE_URL", hide_env_values = true, value_name = "URL")]
        postgres: Option<String>,
        /// Scenarios: redirect, clicks, hosted, json, landing, pace, qr, funnel, key, signin-refused, create, lifecycle, bulk, quotas, payments, import, webhooks, shares, nodes, outage, start, memory, version.
        #[arg(default_values_t = ["redirect", "hosted", "json", "landing", "pace", "qr", "key", "signin-refused", "create", "lifecycle", "bulk", "quotas", "payments", "import", "webhooks", "start", "memory", "version"].map(String::from))]
        scenarios: Vec<String>,
    },
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    match Arguments::parse().command {
        Command::Yardstick { port } => {
            let many = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
            many.block_on(yardstick(port))
        }
        Command::Generate(amounts) => runtime.block_on(generate::run(&amounts)),
        Command::Run { server, dl, rounds, seconds, postgres, scenarios } => {
            runtime.block_on(scenario::run(&scenario::Plan { server, dl, rounds, seconds, postgres }, &scenarios))
        }
    }
}

async fn yardstick(port: u16) -> Result<(), Box<dyn std::error::Error>> {
    use axum::http::{StatusCode, header};
    let app = axum::Router::new().route(
        "/r/{id}",
        axum::routing::get(|| async { (StatusCode::FOUND, [(header::LOCATION, "https://example.com/landing/page")]) }),
    );
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await?;
    println!("listening on http://{}", listener.local_addr()?);
    Ok(axum::serve(listener, app).await?)
}
