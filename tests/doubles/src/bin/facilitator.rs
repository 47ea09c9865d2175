//! The double of an x402 facilitator as a program, to try payments locally: it prints its address and settles
//! everything it is sent until it is stopped. No money moves.

use std::io::Write;

use deeplink_doubles::facilitator::Facilitator;

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let facilitator = Facilitator::start().await;
    writeln!(std::io::stdout(), "listening on {}", facilitator.base())?;
    std::future::pending().await
}
