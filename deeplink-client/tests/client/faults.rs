//! The real transport against servers that misbehave.

use std::time::{Duration, Instant};

use deeplink_client::{Client, CreateLink, Kind, SecretKey};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

/// What a server does with one connection.
enum Act {
    Say(String),
    /// Sends this and then nothing, with the connection open.
    Stall(String),
    /// Takes the request and closes.
    Hang,
}

fn reply(status: &str, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n{headers}\r\n{body}", body.len())
}

fn json(status: &str, headers: &str, body: &str) -> String {
    reply(status, &format!("content-type: application/json\r\n{headers}"), body)
}

/// The beginning of an answer whose headers promise more.
const PROMISED: &str =
    "HTTP/1.1 201 Created\r\ncontent-type: application/json\r\ncontent-length: 500\r\n\r\n{\"link_id\":\"ab";
const MADE: &str = r#"{"link_id":"abc","url":"https://go.example.com/abc","expires_at":null}"#;

async fn read_request(stream: &mut TcpStream) -> String {
    let mut text = Vec::new();
    loop {
        let mut buffer = [0; 4096];
        let read = stream.read(&mut buffer).await.unwrap_or(0);
        text.extend_from_slice(&buffer[..read]);
        let all = String::from_utf8_lossy(&text).into_owned();
        let length = all
            .lines()
            .find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse::<usize>().ok());
        let whole = all.split_once("\r\n\r\n").is_some_and(|(_, body)| body.len() >= length.unwrap_or(0));
        if whole || read == 0 {
            return all;
        }
    }
}

/// A server that does this with its connections in turn; returns its address and the requests received.
async fn serve(acts: Vec<Act>) -> (String, tokio::task::JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let task = tokio::spawn(async move {
        let (mut requests, mut open) = (Vec::new(), Vec::new());
        for act in acts {
            let (mut stream, _) = listener.accept().await.unwrap();
            requests.push(read_request(&mut stream).await);
            match act {
                Act::Say(text) => {
                    let _ = stream.write_all(text.as_bytes()).await;
                }
                Act::Stall(text) => {
                    let _ = stream.write_all(text.as_bytes()).await;
                    open.push(stream);
                }
                Act::Hang => drop(stream),
            }
        }
        requests
    });
    (url, task)
}

fn client(url: &str) -> Client {
    with_attempts_of(url, Duration::from_secs(30))
}

fn with_attempts_of(url: &str, timeout: Duration) -> Client {
    Client::builder(url).secret_key(SecretKey::new("dl_live_x")).attempt_timeout(timeout).build().unwrap()
}

#[tokio::test]
async fn a_429_is_waited_for_in_seconds_and_in_dates() {
    let told = [
        "retry-after: 1\r\n",
        "date: Sun, 06 Nov 1994 08:49:37 GMT\r\nretry-after: Sun, 06 Nov 1994 08:49:38 GMT\r\n",
        "date: Sun, 06 Nov 1994 08:49:37 GMT\r\nretry-after: Sunday, 06-Nov-94 08:49:38 GMT\r\n",
    ];
    for headers in told {
        let limited = json("429 Too Many Requests", headers, r#"{"error":"slow down","code":"rate_limited"}"#);
        let (url, served) = serve(vec![Act::Say(limited), Act::Say(json("201 Created", "", MADE))]).await;
        let started = Instant::now();
        client(&url).links().create(&CreateLink::new()).await.unwrap();
        assert!(
            started.elapsed() >= Duration::from_secs(1) && started.elapsed() < Duration::from_secs(15),
            "{headers}"
        );
        assert_eq!(served.await.unwrap().len(), 2);
    }
}

#[tokio::test]
async fn a_500_after_the_commit_is_repeated_under_the_same_key() {
    let failed = json("500 Internal Server Error", "", r#"{"error":"internal","code":"internal"}"#);
    let (url, served) =
        serve(vec![Act::Say(failed), Act::Say(json("201 Created", "idempotency-replayed: true\r\n", MADE))]).await;
    let full = client(&url).links().create(&CreateLink::new()).full().await.unwrap();
    assert!(full.is_replayed());
    let requests = served.await.unwrap();
    let key = |text: &str| text.lines().find(|line| line.starts_with("idempotency-key")).unwrap().to_owned();
    assert_eq!(key(&requests[0]), key(&requests[1]));
}

#[tokio::test]
async fn half_closed_connections_are_repeated() {
    for first in [Act::Hang, Act::Say(String::new()), Act::Say(PROMISED.to_owned())] {
        let (url, served) = serve(vec![first, Act::Say(json("201 Created", "", MADE))]).await;
        let made = client(&url).links().create(&CreateLink::new()).await.unwrap();
        assert_eq!(made.link_id, "abc");
        served.await.unwrap();
    }
}

#[tokio::test]
async fn stalled_bodies_are_repeated() {
    for said in [PROMISED, "HTTP/1.1 201 Cr", ""] {
        // One more than needed, in case the machine stalls too.
        let fine = || Act::Say(json("201 Created", "", MADE));
        let (url, _served) = serve(vec![Act::Stall(said.to_owned()), fine(), fine()]).await;
        let client = with_attempts_of(&url, Duration::from_secs(2));
        let made = client.links().create(&CreateLink::new()).await.unwrap();
        assert_eq!(made.link_id, "abc", "{said:?}");
    }
}

#[tokio::test]
async fn a_body_that_drips_ends_in_time() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                read_request(&mut stream).await;
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n").await;
                while stream.write_all(b"x").await.is_ok() {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            });
        }
    });
    let started = Instant::now();
    let client = with_attempts_of(&url, Duration::from_millis(400));
    let error = client.links().get("abc").timeout(Duration::from_secs(1)).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Timeout);
    // The body would take hours.
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
}

#[tokio::test]
async fn truncated_json_and_foreign_pages_say_what_they_are() {
    let (url, served) = serve(vec![Act::Say(json("201 Created", "", &MADE[..40]))]).await;
    let error = client(&url).links().create(&CreateLink::new()).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Decode);
    assert!(error.is_ambiguous(), "the link exists");
    served.await.unwrap();

    let page = "<html><h1>502 Bad Gateway</h1></html>";
    let bad = || Act::Say(reply("502 Bad Gateway", "content-type: text/html\r\n", page));
    let (url, served) = serve(vec![bad(), bad(), bad()]).await;
    let error = client(&url).links().create(&CreateLink::new()).await.unwrap_err();
    assert_eq!((error.kind(), error.attempts()), (Kind::Server, 3));
    assert_eq!(error.body(), Some(page.as_bytes()));
    served.await.unwrap();
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let (url, served) = serve(vec![Act::Say(reply("301 Moved", "location: http://127.0.0.1:1/\r\n", ""))]).await;
    let error = client(&url).links().get("abc").await.unwrap_err();
    assert_eq!((error.kind(), error.status().unwrap().as_u16()), (Kind::Api, 301));
    served.await.unwrap();
}

#[tokio::test]
async fn nobody_there_is_a_connect_error() {
    // The port is bound, but nothing listens.
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let url = format!("http://{}", socket.local_addr().unwrap());
    let error = client(&url).links().create(&CreateLink::new()).await.unwrap_err();
    assert_eq!((error.kind(), error.attempts(), error.is_ambiguous()), (Kind::Connect, 3, false));
}
