//! Creates a link, resolves it as a program would, gets its QR code, and lists the links of the account.
//!
//! Run a server first, then: `DL_BASE_URL=http://127.0.0.1:8080 DL_API_KEY=… cargo run --example quickstart`

use deeplink_client::{AgentContext, Client, CreateLink, LinkFilter, QrFormat, QrOptions, Resolution, SecretKey};
use deeplink_core::link::Action;
use futures_util::TryStreamExt;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    #[expect(clippy::disallowed_methods, reason = "an example reads its key from the environment")]
    let setting = |name| std::env::var(name);
    let base = setting("DL_BASE_URL").unwrap_or_else(|_| "http://127.0.0.1:8080".into());
    let key = SecretKey::new(setting("DL_API_KEY")?);
    let dl = Client::builder(&base).secret_key(key).build()?;

    let context =
        AgentContext { action: Some(Action::Purchase), cta: Some("Buy now".into()), ..AgentContext::default() };
    let made = dl.links().create(&CreateLink::new().web_url("https://example.com/p/42").agent_context(context)).await?;
    writeln(&format!("created {}", made.url))?;

    if let Resolution::Json(link) = dl.public().resolve(&made.link_id).await? {
        writeln(&format!("status: {}, web page: {:?}", link.service_meta.status, link.web_url))?;
    }

    let code = dl.links().qr(&made.link_id, QrFormat::Svg, &QrOptions::new()).await?;
    writeln(&format!("QR code: SVG, {} bytes", code.len()))?;

    let links: Vec<_> = dl.links().list(&LinkFilter::new()).items().try_collect().await?;
    writeln(&format!("links in the account: {}", links.len()))?;
    dl.links().delete(&made.link_id).await?;
    Ok(())
}

fn writeln(line: &str) -> std::io::Result<()> {
    use std::io::Write;
    writeln!(std::io::stdout(), "{line}")
}
