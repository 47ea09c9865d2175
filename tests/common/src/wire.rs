//! Requests as raw bytes on a socket, for what no HTTP client would send.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Sends bytes on a new connection and reads until the server closes it or `patience` is over.
pub async fn send(address: SocketAddr, bytes: &[u8]) -> String {
    const PATIENCE: Duration = Duration::from_secs(30);
    let mut socket = TcpStream::connect(address).await.expect("the server accepts");
    socket.write_all(bytes).await.expect("the server reads");
    let mut answer = Vec::new();
    let read = timeout(PATIENCE, socket.read_to_end(&mut answer)).await;
    assert!(read.is_ok(), "the connection stayed open: {}", String::from_utf8_lossy(&answer));
    String::from_utf8_lossy(&answer).into_owned()
}

/// The status of an answer.
pub fn status(answer: &str) -> u16 {
    answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_else(|| panic!("no status: {answer:?}"))
}
