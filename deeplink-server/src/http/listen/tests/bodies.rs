//! What requests over HTTP/1 hold while they wait for their bodies.

use super::super::SHARES;
use super::*;

/// R5: a request with a body counts until the body is read or dropped, so that clients who never send theirs hold no more than
/// their address's share.
#[tokio::test]
async fn r5_requests_that_wait_for_their_bodies_are_counted() {
    let heads = SHARES * (2 * (17 << 10));
    let server =
        Server::start(Limits { heads, trusted: Vec::new(), body_idle: MOMENT, body_total: MOMENT, ..limits() });
    let half = b"POST /read HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nx";
    let mut waiting = Vec::new();
    for _ in 0..2 {
        waiting.push(server.send(half).await);
    }
    server.until_asked(2).await;
    let mut third = server.send(half).await;
    let (head, body) = read_answer(&mut third).await;
    assert!(head.starts_with("http/1.1 503") && head.contains("\r\nretry-after: 1\r\n"), "{head}");
    assert!(head.contains("\r\nconnection: close\r\n") && body.contains("from your IP address"), "{head}{body}");
    let mut other = server.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
    assert!(read_answer(&mut other).await.0.starts_with("http/1.1 302"), "a request without a body is not counted");
    waiting[0].write_all(b"yz!").await.unwrap();
    assert_eq!(read_answer(&mut waiting[0]).await.1, "read 4");
    let mut next = server.send(half).await;
    next.write_all(b"yz!").await.unwrap();
    assert_eq!(read_answer(&mut next).await.1, "read 4", "what has ended counts no more");
}

/// R5: a body that has been read counts no more, however long its request takes, so that many clients behind one address do
/// not refuse each other.
#[tokio::test]
async fn r5_requests_whose_bodies_were_read_are_not_counted() {
    let heads = SHARES * (2 * (17 << 10));
    let server = Server::start(Limits { heads, trusted: Vec::new(), ..limits() });
    let mut busy = Vec::new();
    for nth in 1..=5 {
        let whole = "POST /read-and-hang HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nxyz!";
        busy.push(server.send(whole).await);
        server
            .until(&format!("{nth} were read"), || server.paths().iter().filter(|path| *path == "read").count() == nth)
            .await;
    }
}

/// Over HTTP/1 the limits of strangers can be lifted by a request that may be authenticated, with a body or not; a visit
/// carries none.
#[tokio::test]
async fn requests_that_may_be_authenticated_carry_limits_to_lift() {
    let ask = |head: &str| format!("{head} /known HTTP/1.1\r\nHost: a\r\n");
    let (get, post) = (format!("{}\r\n", ask("GET")), format!("{}Content-Length: 1\r\n\r\nx", ask("POST")));
    let with_key = format!("{}Authorization: Bearer k\r\n\r\n", ask("GET"));
    let server = Server::start(Limits { trusted: Vec::new(), ..limits() });
    let mut stream = server.send("").await;
    for (request, expected) in [(&get, "no limits"), (&with_key, "lifted"), (&post, "lifted"), (&get, "no limits")] {
        stream.write_all(request.as_bytes()).await.unwrap();
        assert_eq!(read_answer(&mut stream).await.1, expected, "{request}");
    }
}

/// R5: a request counts for its account as soon as that is known, and no longer for strangers of its address.
#[tokio::test]
async fn r5_requests_of_known_callers_count_for_their_accounts() {
    // An address has one request.
    let server = Server::start(Limits { heads: SHARES * (17 << 10), trusted: Vec::new(), ..limits() });
    let half = |path: &str| format!("POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nx");
    let mut known = Vec::new();
    for nth in 1..=3 {
        known.push(server.send(half("/known-and-read")).await);
        let lifted = || server.paths().iter().filter(|path| *path == "lifted").count() == nth;
        server.until(&format!("{nth} are known"), lifted).await;
    }
    let before = server.paths().len();
    let mut stranger = server.send(half("/read")).await;
    server.until_asked(before + 1).await;
    let mut refused = server.send(half("/read")).await;
    assert!(read_answer(&mut refused).await.0.starts_with("http/1.1 503"));
    for stream in known.iter_mut().chain([&mut stranger]) {
        stream.write_all(b"yz!").await.unwrap();
        assert_eq!(read_answer(stream).await.1, "read 4");
    }
    server.seen.accounts.take(&(&tenant()).into(), 8 << 20).expect("all was given back");
}
