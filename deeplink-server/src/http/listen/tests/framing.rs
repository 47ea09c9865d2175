//! X14 and X15: ambiguous framing is refused, and no request can be smuggled behind another.

use super::*;

const SMUGGLED: &str = "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n";

fn post(fields: &str, body: &str) -> String {
    format!("POST /read HTTP/1.1\r\nHost: a\r\n{fields}\r\n{body}")
}

/// X15: differing or repeated lengths, a coding that is not `chunked` alone, a length beside a coding, space before
/// the colon and folded lines are 400 and the end of the connection. Whole, and cut into two reads at any byte of
/// the head's end.
#[tokio::test]
async fn x15_ambiguous_framing_is_refused_and_ends_the_connection() {
    let vectors = [
        post("Content-Length: 3\r\nContent-Length: 4\r\n", "abcd"),
        post("Content-Length: 3\r\nContent-Length: 3\r\n", "abc"),
        post("Content-Length: 0\r\nContent-Length: 0\r\n", ""),
        post("Content-Length: 3, 3\r\n", "abc"),
        post("Content-Length: +3\r\n", "abc"),
        post("Content-Length: -1\r\n", ""),
        post("Content-Length: 0x3\r\n", "abc"),
        post("Content-Length:\r\n", ""),
        post("Content-Length: 99999999999999999999\r\n", ""),
        post("Transfer-Encoding: identity\r\n", ""),
        post("Transfer-Encoding: chunked, identity\r\n", "0\r\n\r\n"),
        post("Transfer-Encoding: gzip, chunked\r\n", "0\r\n\r\n"),
        post("Transfer-Encoding: xchunked\r\n", "0\r\n\r\n"),
        post("Transfer-Encoding: \u{b}chunked\r\n", "0\r\n\r\n"),
        post("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"),
        post("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n", "0\r\n\r\n"),
        post("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", "0\r\n\r\n"),
        post("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"),
        post("Content-Length : 3\r\n", "abc"),
        post("Transfer-Encoding : chunked\r\n", "0\r\n\r\n"),
        post("X: a\r\n b\r\nContent-Length: 3\r\n", "abc"),
        post(" Content-Length: 3\r\n", "abc"),
        post("X: a\rContent-Length: 3\r\n", "abc"),
        post("X: a\0\r\n", ""),
        post("X\r\n", ""),
        post("Transfer-Encoding: chunked\r\n", "3\r\nabc\r\n0\r\n\r\n").replace("1.1", "1.0"),
        post("Content-Length: 3\r\n", "abc")
            .replace("POST ", "GET ")
            .replace("h: 3\r\n", "h: 3\r\ncontent-length: 4\r\n"),
    ];
    let server = Server::start(limits());
    for vector in vectors {
        let bytes = format!("{vector}{SMUGGLED}");
        let head = bytes.find("\r\n\r\n").unwrap() + 4;
        for cut in [bytes.len(), head, head - 1, head - 3, 30] {
            let mut stream = server.send(&bytes[..cut]).await;
            sleep(Duration::from_millis(5)).await;
            // If it is refused before all was sent, the rest may find the connection closed.
            let _ = stream.write_all(&bytes.as_bytes()[cut..]).await;
            let (answer, _) = read_to_end(stream).await;
            assert!(answer.starts_with("HTTP/1.1 400") || answer.starts_with("HTTP/1.0 400"), "{vector:?}: {answer:?}");
            assert_eq!(answer.matches("HTTP/1.").count(), 1, "{vector:?}: {answer}");
        }
    }
    assert_eq!(server.paths(), Vec::<String>::new());
}

/// X15: a plain GET, which is not scanned, ends its connection if it has a body.
#[tokio::test]
async fn x15_a_get_with_a_body_is_the_last_of_its_connection() {
    let server = Server::start(limits());
    for fields in
        ["Content-Length: 35\r\nContent-Length: 35\r\n", "Transfer-Encoding: chunked\r\nContent-Length: 35\r\n"]
    {
        let mut stream = server.send("GET /first HTTP/1.1\r\nHost: a\r\n\r\n").await;
        read_answer(&mut stream).await;
        stream
            .write_all(format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n{SMUGGLED}{SMUGGLED}").as_bytes())
            .await
            .unwrap();
        let (answer, _) = read_to_end(stream).await;
        assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "{answer}");
        assert!(answer.to_lowercase().contains("connection: close"), "{answer}");
    }
    assert!(!server.paths().contains(&"/smuggled".to_owned()), "{:?}", server.paths());
}

/// X15: every chunked request gets `Connection: close`, and nothing after it is processed.
#[tokio::test]
async fn x15_a_chunked_request_is_the_last_of_its_connection() {
    let server = Server::start(limits());
    for coding in ["chunked", "Chunked", " chunked "] {
        let body = format!("3\r\nabc\r\n0\r\n\r\n{SMUGGLED}");
        let stream = server.send(post(&format!("Transfer-Encoding: {coding}\r\n"), &body)).await;
        let (answer, _) = read_to_end(stream).await;
        assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("read 3"), "{answer}");
        assert!(answer.to_lowercase().contains("connection: close"), "{answer}");
    }
    assert!(!server.paths().contains(&"/smuggled".to_owned()));
}

/// X15: invalid chunks end the request and the connection.
#[tokio::test]
async fn x15_invalid_chunks_end_the_connection() {
    let server = Server::start(limits());
    for body in
        ["g\r\nabc\r\n", "3\r\nabcX\r\n0\r\n\r\n", "-3\r\nabc\r\n", "ffffffffffffffffff\r\na", "3 \0\r\nabc\r\n"]
    {
        let stream = server.send(post("Transfer-Encoding: chunked\r\n", &format!("{body}{SMUGGLED}"))).await;
        let (answer, _) = read_to_end(stream).await;
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 400"), "{body:?}: {answer}");
        assert!(answer.matches("HTTP/1.").count() <= 1, "{body:?}: {answer}");
    }
    assert!(!server.paths().contains(&"/smuggled".to_owned()));
}

/// X15: unambiguous requests share a connection, also with bare line feeds and split anywhere.
#[tokio::test]
async fn x15_unambiguous_requests_share_a_connection() {
    let server = Server::start(limits());
    let requests = [
        post("Content-Length: 3\r\n", "abc"),
        "GET /bare HTTP/1.1\nHost: a\n\n".to_owned(),
        format!("\r\n{}", post("content-length:5\r\n", "a\r\n\r\n")),
        "HEAD /last HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(),
    ];
    let all = requests.concat();
    for cut in [1, 20, 60, 66, 70, 90, 120, all.len() - 1] {
        let mut stream = server.send(&all[..cut]).await;
        sleep(Duration::from_millis(5)).await;
        stream.write_all(&all.as_bytes()[cut..]).await.unwrap();
        for expected in ["read 3", "", "read 5", ""] {
            let (head, body) = read_answer(&mut stream).await;
            assert!(head.starts_with("http/1.1 ") && !head.contains("close"), "cut at {cut}: {head}");
            assert_eq!(body, expected, "cut at {cut}");
        }
    }
}

/// X14: TRACE and CONNECT reach the router unchanged, and no tunnel is opened.
#[tokio::test]
async fn x14_trace_and_connect_are_refused() {
    let server = Server::start(limits());
    for head in ["TRACE / HTTP/1.1\r\nHost: a\r\n\r\n", "CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:443\r\n\r\n"]
    {
        let mut stream = server.send(head).await;
        let (answer, _) = read_answer(&mut stream).await;
        assert!(answer.starts_with("http/1.1 405") && answer.contains("allow: get"), "{answer}");
        stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
        assert!(read_answer(&mut stream).await.0.starts_with("http/1.1 302"), "still HTTP after {head:?}");
    }
}
