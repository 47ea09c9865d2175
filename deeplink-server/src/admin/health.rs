//! `health`: whether the server with these settings responds, for health checks of containers without another program. It
//! reads no other setting than the address, because it runs every few seconds.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::Failure;

/// How long the server may take.
const TIMEOUT: Duration = Duration::from_secs(2);
/// More than its response has, so that another program's cannot go on forever.
const MAX_BYTES: u64 = 16 << 10;

pub(super) fn run(listen: SocketAddr) -> Result<(), Failure> {
    if listen.port() == 0 {
        let why = "--listen (DEEPLINK_LISTEN) has port 0, so the server's port is not known";
        return Err(Failure::Refused(why.into()));
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::Refused(format!("cannot start the async runtime: {error}")))?;
    let address = reachable(listen);
    let problem = match runtime.block_on(ask(address)) {
        Ok(line) if line.starts_with("HTTP/1.1 200 ") => return Ok(()),
        Ok(line) => format!("returned {line:?}"),
        Err(problem) => problem,
    };
    Err(Failure::Refused(format!("GET http://{address}/health {problem}")))
}

/// Where this machine reaches a server that listens there.
fn reachable(listen: SocketAddr) -> SocketAddr {
    let ip = match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, listen.port())
}

/// The first line of the response, or why there is none in time.
async fn ask(address: SocketAddr) -> Result<String, String> {
    match timeout(TIMEOUT, status_line(address)).await {
        Ok(line) => line.map_err(|error| format!("failed: {error}")),
        Err(_) => Err(format!("got no response within {} seconds", TIMEOUT.as_secs())),
    }
}

async fn status_line(address: SocketAddr) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    let request = format!("GET /health HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut response = Vec::new();
    stream.take(MAX_BYTES).read_to_end(&mut response).await?;
    let response = String::from_utf8_lossy(&response);
    Ok(response.lines().next().unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_on_all_addresses_is_asked_on_this_machine() {
        for (listen, asked) in [
            ("0.0.0.0:8080", "127.0.0.1:8080"),
            ("[::]:80", "[::1]:80"),
            ("192.0.2.1:8080", "192.0.2.1:8080"),
            ("[::1]:8080", "[::1]:8080"),
        ] {
            let listen = listen.parse().expect("an address");
            assert_eq!(reachable(listen).to_string(), asked);
        }
    }
}
