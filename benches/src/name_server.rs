//! A name server that answers every question for TXT records with one value: enough to prove a domain.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::net::UdpSocket;

/// The value to answer with, once it is known.
pub(crate) type Value = Arc<Mutex<String>>;

/// Starts to answer.
pub(crate) async fn start(value: Value) -> std::io::Result<SocketAddr> {
    let socket = UdpSocket::bind("127.0.0.1:0").await?;
    let address = socket.local_addr()?;
    tokio::spawn(async move {
        let mut query = [0; 512];
        while let Ok((length, from)) = socket.recv_from(&mut query).await {
            let value = value.lock().unwrap_or_else(PoisonError::into_inner).clone();
            if let Some(answer) = answer(&query[..length], value.as_bytes()) {
                drop(socket.send_to(&answer, from).await);
            }
        }
    });
    Ok(address)
}

/// The question as received (RFC 1035, section 4.1), then one TXT record under its name.
fn answer(query: &[u8], value: &[u8]) -> Option<Vec<u8>> {
    let mut end = 12;
    while let length @ 1.. = *query.get(end)? {
        end += usize::from(length) + 1;
    }
    let question = query.get(12..end + 5)?;
    // Response, recursion available, no error; one question, one answer.
    let mut answer = [query.get(..2)?, &[0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0], question].concat();
    // The name is at offset 12; TXT, IN, not to be cached.
    answer.extend([0xc0, 0x0c, 0, 16, 0, 1, 0, 0, 0, 0]);
    let length = u8::try_from(value.len()).ok()?;
    answer.extend((u16::from(length) + 1).to_be_bytes());
    answer.push(length);
    answer.extend(value);
    Some(answer)
}
