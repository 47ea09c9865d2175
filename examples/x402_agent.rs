//! A program without an account that pays for a link, using only HTTP: it sends the request, gets the price, signs a payment,
//! and sends the request again. `ClientBuilder::payer` does the same for every call of the Rust client.
//!
//! It needs a server that accepts payments. `tests/try-payments` starts one, with a facilitator that settles everything:
//! the signature here is made up, whereas a real agent's wallet signs the token's `TransferWithAuthorization` (EIP-3009).

use std::io::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use deeplink_core::secret::Random;
use reqwest::{RequestBuilder, StatusCode};
use serde_json::{Value, json};

type Failure = Box<dyn std::error::Error>;

/// The chain to pay on: Base Sepolia, a test network.
const NETWORK: &str = "eip155:84532";

/// The token to pay with: the USDC contract on that chain.
const ASSET: &str = "0x036CbD53842c5426634e7929541eC2318f3dCF7e";

/// The maximum price of a link: 0.02 USDC, which has 6 decimals.
const MAX_PRICE: u64 = 20_000;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    #[expect(clippy::disallowed_methods, reason = "an example reads its settings from the environment")]
    let base = std::env::var("DL_BASE_URL").unwrap_or_else(|_| "http://127.0.0.1:8080".into());
    let http = reqwest::Client::builder().build()?;
    let link = json!({"web_url": "https://example.com/p/42", "agent_context": {"action": "purchase"}});
    let ask = || http.post(format!("{base}/v1/links")).json(&link);

    // Without a key or a payment, the response contains the price.
    let asked = ask().send().await?;
    if asked.status() != StatusCode::PAYMENT_REQUIRED {
        return Err(format!("no payment is required: {}", asked.status()).into());
    }
    let challenge = decoded(asked.headers().get("payment-required"))?;
    let requirement = &challenge["accepts"][0];
    let price: u64 = requirement["amount"].as_str().unwrap_or_default().parse()?;
    say(&format!("a link costs {price} of {} on {}", requirement["asset"], requirement["network"]))?;
    // The server chooses the token, and an amount means nothing until the token is known.
    let is_usdc = requirement["asset"].as_str().is_some_and(|asset| asset.eq_ignore_ascii_case(ASSET));
    if requirement["network"] != NETWORK || !is_usdc {
        return Err("that is not the token that this program pays with".into());
    }
    if price > MAX_PRICE {
        return Err("the price is too high".into());
    }

    // The key proves that a repeated request is ours: settled payments are public, so the key must be impossible to guess. A
    // real agent stores both before it sends them.
    let key = hex(&Random::system().bytes::<16>());
    let payment = STANDARD.encode(payment(requirement)?.to_string());
    let paid = |request: RequestBuilder| request.header("PAYMENT-SIGNATURE", &payment).header("Idempotency-Key", &key);
    let made = paid(ask()).send().await?;
    // Also successful if the response repeats an earlier one.
    if !made.status().is_success() {
        return Err(format!("the link was not created: {}", made.text().await?).into());
    }
    let receipt = decoded(made.headers().get("payment-response"))?;
    let made: Value = made.json().await?;
    say(&format!("created {}, paid in transaction {}", made["url"], receipt["transaction"]))?;

    // If the response had been lost, the same request with the same payment would return it again, at no additional cost.
    let again = paid(ask()).send().await?;
    if !again.status().is_success() {
        return Err(format!("the repeated request failed: {}", again.text().await?).into());
    }
    let again: Value = again.json().await?;
    if again != made {
        return Err(format!("the repeated request returned something else: {again}").into());
    }
    say(&format!("the same link again: {}", again["link_id"]))?;
    Ok(())
}

/// The payment of a requirement, from a minute ago for as long as it may take to be settled.
fn payment(requirement: &Value) -> Result<Value, Failure> {
    let mut random = Random::system();
    #[expect(clippy::disallowed_methods, reason = "an example has no other clock")]
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?.as_secs();
    let seconds = requirement["maxTimeoutSeconds"].as_u64().ok_or("the requirement has no maxTimeoutSeconds")?;
    let authorization = json!({
        "from": "0x857b06519E91e3A54538791bDbb0E22373e36b66",
        "to": requirement["payTo"],
        "value": requirement["amount"],
        "validAfter": (now - 60).to_string(),
        "validBefore": (now + seconds).to_string(),
        "nonce": hex(&random.bytes::<32>()),
    });
    let signature = hex(&random.bytes::<65>());
    let payload = json!({"signature": signature, "authorization": authorization});
    Ok(json!({"x402Version": 2, "accepted": requirement, "payload": payload}))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold("0x".to_owned(), |text, byte| format!("{text}{byte:02x}"))
}

fn decoded(header: Option<&reqwest::header::HeaderValue>) -> Result<Value, Failure> {
    let header = header.ok_or("the response lacks a payment header")?;
    Ok(serde_json::from_slice(&STANDARD.decode(header.as_bytes())?)?)
}

fn say(line: &str) -> std::io::Result<()> {
    writeln!(std::io::stdout(), "{line}")
}
