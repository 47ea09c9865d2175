//! Payers, the payments that they sign, and the headers that carry them.

use std::sync::{Arc, Mutex};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{NETWORK_V1, authorized, hex};

/// A wallet. Its signatures are random, since only a chain would check them.
#[derive(Debug, Clone)]
pub struct Payer {
    address: String,
    drawn: Arc<Mutex<u64>>,
}

/// A payment as its payer signed it.
#[derive(Debug, Clone)]
pub struct Signed {
    /// The payload of the scheme.
    pub payload: Value,
    /// The requirement of version 2 that it meets.
    pub accepted: Value,
}

impl Payer {
    /// A separate wallet for each name.
    pub fn new(name: &str) -> Self {
        Self { address: format!("0x{}", &hex(&Sha256::digest(name))[..40]), drawn: Arc::default() }
    }

    /// Its address.
    pub fn address(&self) -> &str {
        &self.address
    }

    fn draw(&self, what: &str) -> String {
        let mut drawn = self.drawn.lock().expect("a lock");
        *drawn += 1;
        hex(&Sha256::digest(format!("{} {what} {drawn}", self.address)))
    }

    /// Signs a requirement of version 2, valid from a minute ago for as long as it asks for.
    pub fn sign(&self, accepted: &Value, now_secs: i64) -> Signed {
        let until = now_secs + accepted["maxTimeoutSeconds"].as_i64().expect("seconds");
        let signature = format!("0x{}{}1b", self.draw("r"), self.draw("s"));
        let payload = json!({"signature": signature, "authorization": {
            "from": self.address, "to": accepted["payTo"], "value": accepted["amount"],
            "validAfter": (now_secs - 60).to_string(), "validBefore": until.to_string(),
            "nonce": format!("0x{}", self.draw("nonce")),
        }});
        Signed { payload, accepted: accepted.clone() }
    }
}

impl Signed {
    /// Its nonce.
    pub fn nonce(&self) -> String {
        authorized(&self.payload)["nonce"].as_str().expect("a nonce").to_ascii_lowercase()
    }

    /// What only its payer may know before settlement.
    pub fn signature(&self) -> &str {
        self.payload["signature"].as_str().expect("a signature")
    }

    /// The same with something else in its authorization.
    pub fn with(mut self, field: &str, value: &str) -> Self {
        self.payload["authorization"][field] = json!(value);
        self
    }

    /// The same in a shape that only a facilitator understands.
    pub fn in_another_shape(mut self) -> Self {
        let authorization = self.payload["authorization"].take();
        self.payload = json!({"signature": self.payload["signature"], "permit2Authorization": authorization});
        self
    }

    /// The header of version 1, and its name.
    pub fn v1(&self) -> (&'static str, String) {
        let message = json!({"x402Version": 1, "scheme": "exact", "network": NETWORK_V1, "payload": self.payload});
        ("x-payment", STANDARD.encode(message.to_string()))
    }

    /// The header of version 2, and its name.
    pub fn v2(&self) -> (&'static str, String) {
        let message = json!({"x402Version": 2, "accepted": self.accepted, "payload": self.payload});
        ("payment-signature", STANDARD.encode(message.to_string()))
    }
}

/// The decoded value of a header.
pub fn decoded(header: &str) -> Value {
    let json = STANDARD.decode(header).unwrap_or_else(|error| panic!("{error}: {header}"));
    serde_json::from_slice(&json).expect("JSON")
}
