//! What the client sends, and how it treats answers.

use super::*;
use crate::config::TrustedRoots;
use deeplink_doubles::authority::{Authority, Identity};

/// Whether a failure is the expected one.
type Judge = fn(&CallError) -> bool;

const URL: &str = "http://8.8.8.8/x";

async fn outcome_of(answer: impl Into<Vec<u8>>) -> Result<Bytes, CallError> {
    Bench::new(says(answer).await.0).await.get(URL).await
}

fn chunked(pieces: usize) -> Vec<u8> {
    let head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    [&head[..], &[&b"64\r\n"[..], &[b'x'; 100], b"\r\n"].concat().repeat(pieces), b"0\r\n\r\n"].concat()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_says_what_it_must_and_no_more() {
    let seen = Arc::<Mutex<String>>::default();
    let noted = Arc::clone(&seen);
    let (address, _) = server(move |mut socket, request| {
        *noted.lock().expect("the request") = request;
        async move { drop(socket.write_all(FINE.as_bytes()).await) }
    })
    .await;
    let bench = Bench::new(address).await;
    bench.names.addresses("xn--bcher-kva.example", &[PUBLIC]);
    let mut call = call("http://BÜCHER.example:8080/a b/../c?d=%20&e=ö#f");
    call.headers.insert(header::ACCEPT, HeaderValue::from_static("image/png"));
    assert_eq!(bench.http.call(call).await.expect("an answer"), "fine");
    let request = seen.lock().expect("the request").to_lowercase();
    let mut lines: Vec<_> = request.trim_end().lines().collect();
    lines[1..].sort_unstable();
    let agent = concat!("user-agent: deeplink-server/", env!("CARGO_PKG_VERSION"));
    assert_eq!(
        lines,
        [
            "get /c?d=%20&e=%c3%b6 http/1.1",
            "accept-encoding: identity",
            "accept: image/png",
            "connection: close",
            "host: xn--bcher-kva.example:8080",
            agent,
        ]
    );
}

/// Q4, Q5: no content encoding, no body beyond the limit, no head beyond 16 KiB; and nothing is read that is not needed
/// to decide that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn q5_answers_are_short_and_plain() {
    let with = |headers: &str, body: &str| format!("HTTP/1.1 200 OK\r\n{headers}\r\n{body}");
    let long = |length: usize| format!("X-Long: {}\r\nContent-Length: 4\r\n", "x".repeat(length));
    for (what, answer, body) in [
        ("a length", with("Content-Length: 4\r\n", "fine"), "fine"),
        ("no length", with("", "fine"), "fine"),
        ("identity", with("Content-Encoding: identity\r\nContent-Length: 4\r\n", "fine"), "fine"),
        ("a long head", with(&long(16_000), "fine"), "fine"),
        ("a word before", format!("HTTP/1.1 103 Early Hints\r\n\r\n{}", with("Content-Length: 4\r\n", "fine")), "fine"),
    ] {
        assert_eq!(outcome_of(answer).await.expect(what), body, "{what}");
    }
    assert_eq!(outcome_of(chunked(10)).await.expect("1,000 bytes").len(), 1_000);

    let failing: [(&str, Vec<u8>, Judge); 13] = [
        ("gzip", with("Content-Encoding: gzip\r\nContent-Length: 4\r\n", "fine").into(), |e| {
            matches!(e, CallError::Encoded)
        }),
        ("two encodings", with("Content-Encoding: identity\r\nContent-Encoding: br\r\n", "x").into(), |e| {
            matches!(e, CallError::Encoded)
        }),
        ("a list of encodings", with("Content-Encoding: identity, gzip\r\n", "x").into(), |e| {
            matches!(e, CallError::Encoded)
        }),
        ("an announced body", with("Content-Length: 1001\r\n", "").into(), |e| matches!(e, CallError::TooLarge(1_000))),
        ("an unannounced body", with("", &"x".repeat(1_001)).into(), |e| matches!(e, CallError::TooLarge(_))),
        ("chunks", chunked(11), |e| matches!(e, CallError::TooLarge(_))),
        ("half a body", with("Content-Length: 5\r\n", "fine").into(), |e| matches!(e, CallError::Answer(_))),
        ("a huge head", with(&long(16_400), "fine").into(), |e| matches!(e, CallError::Answer(_))),
        ("many headers", with(&"A: b\r\n".repeat(200), "").into(), |e| matches!(e, CallError::Answer(_))),
        ("no HTTP", b"SSH-2.0-OpenSSH_9.9\r\n".to_vec(), |e| matches!(e, CallError::Answer(_))),
        ("nothing", Vec::new(), |e| matches!(e, CallError::Answer(_))),
        ("two lengths", with("Content-Length: 4\r\nContent-Length: 5\r\n", "fine!").into(), |e| {
            matches!(e, CallError::Answer(_))
        }),
        ("no content", b"HTTP/1.1 204 No Content\r\n\r\n".to_vec(), |e| matches!(e, CallError::Status(_))),
    ];
    for (what, answer, is_expected) in failing {
        let error = outcome_of(answer).await.expect_err(what);
        assert!(is_expected(&error), "{what}: {error:?}");
    }
    // The announced length is enough: this server never sends a byte of the body.
    let (address, _) = server(|mut socket, _| async move {
        drop(socket.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1001\r\n\r\n").await);
        std::future::pending::<()>().await;
    })
    .await;
    let began = Instant::now();
    assert!(matches!(Bench::new(address).await.get(URL).await, Err(CallError::TooLarge(_))));
    // It did not wait until the call's time was over.
    assert!(began.elapsed() < Duration::from_secs(4));
}

/// Q4: what never ends is ended here, and nothing is read or written afterwards.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn q4_endless_answers_end() {
    const TOTAL: Duration = Duration::from_millis(700);
    let endless: [(&str, &str, &str, u64); 6] = [
        ("a body in chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "a\r\n0123456789\r\n", 0),
        ("a body", "HTTP/1.1 200 OK\r\n\r\n", "0123456789", 0),
        ("a head", "HTTP/1.1 200 OK\r\n", "X: 0123456789\r\n", 0),
        ("a line", "HTTP/1.1 200 OK\r\nX: ", "0123456789", 0),
        ("words before", "HTTP/1.1 100 Continue\r\n\r\n", "HTTP/1.1 100 Continue\r\n\r\n", 0),
        ("a slow body", "HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n", "x", 50),
    ];
    for (what, begin, go_on, pause) in endless {
        let (ended, has_ended) = tokio::sync::oneshot::channel();
        let ended = Mutex::new(Some(ended));
        let (address, _) = server(move |mut socket, _| {
            let ended = ended.lock().expect("the end").take();
            async move {
                let mut written = socket.write_all(begin.as_bytes()).await;
                while written.is_ok() {
                    written = socket.write_all(go_on.as_bytes()).await;
                    if pause > 0 {
                        tokio::time::sleep(Duration::from_millis(pause)).await;
                    }
                }
                let _ = ended.expect("one connection").send(());
            }
        })
        .await;
        let bench = Bench::new(address).await;
        let mut call = call(URL);
        call.terms.total = TOTAL;
        let began = Instant::now();
        let outcome = bench.http.call(call).await;
        assert!(outcome.is_err(), "{what}: {outcome:?}");
        assert!(began.elapsed() < TOTAL + Duration::from_secs(10), "{what}: {:?}", began.elapsed());
        let closed = tokio::time::timeout(Duration::from_mins(1), has_ended).await;
        assert!(closed.is_ok_and(|sent| sent.is_ok()), "{what}: the connection is closed");
    }
}

/// Q7: a redirect is a failure and is not followed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn q7_redirects_are_not_followed() {
    let (second, second_hits) = says(FINE).await;
    for status in [300, 301, 302, 303, 307, 308] {
        let answer = format!("HTTP/1.1 {status} Moved\r\nLocation: http://{second}/\r\nContent-Length: 0\r\n\r\n");
        let (first, hits) = says(answer).await;
        let mut bench = Bench::new(first).await;
        bench.http.allow = "127.0.0.0/8".parse().expect("a network");
        let outcome = bench.get(&format!("http://{first}/")).await;
        assert!(matches!(outcome, Err(CallError::Status(_))), "{status}: {outcome:?}");
        assert_eq!(hits.load(Ordering::SeqCst), 1);
    }
    assert_eq!(second_hits.load(Ordering::SeqCst), 0);
}

/// Q5: the certificate is verified for the name that was asked for, by the system's authorities and the operator's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn q5_only_who_proves_the_name_is_believed() {
    let authority = Authority::new();
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), authority.pem()).expect("written");
    let trusted = TrustedRoots::read(file.path()).expect("an authority");
    for (identity, is_believed) in [
        (Identity::Days(90), true),
        (Identity::Ended, false),
        (Identity::Other, false),
        (Identity::SelfSigned, false),
        (Identity::Plain, false),
    ] {
        let acceptor = authority.acceptor(&["secure.example.com"], identity);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
        let address = listener.local_addr().expect("an address");
        tokio::spawn(async move {
            while let Ok((mut socket, _)) = listener.accept().await {
                let acceptor = acceptor.clone();
                tokio::spawn(async move {
                    let Some(acceptor) = acceptor else { return drop(socket.write_all(FINE.as_bytes()).await) };
                    let Ok(mut secured) = acceptor.accept(socket).await else { return };
                    let mut request = [0; 1_024];
                    let _ = secured.read(&mut request).await;
                    drop(secured.write_all(FINE.as_bytes()).await);
                    drop(secured.shutdown().await);
                });
            }
        });
        for roots in [Some(trusted.clone()), None] {
            let mut bench = Bench::new(address).await;
            let is_believed = is_believed && roots.is_some();
            bench.http.dialler = Dialler::with(Arc::new(move |_| Box::pin(TcpStream::connect(address))), roots);
            bench.names.addresses("secure.example.com", &[PUBLIC]);
            let began = Instant::now();
            let outcome = bench.get("https://secure.example.com/").await;
            match outcome {
                Ok(body) => assert!(is_believed && body == "fine", "{identity:?}"),
                // In a container without certificates there is no authority to trust.
                Err(error) => {
                    assert!(
                        !is_believed && matches!(error, CallError::Tls(_) | CallError::NoTls(_)),
                        "{identity:?}: {error:?}"
                    );
                    assert!(began.elapsed() >= STEP, "{identity:?}");
                }
            }
        }
    }
}

/// Q8: the time of a failure tells only the number of tenths of a second.
#[tokio::test(start_paused = true)]
async fn q8_a_failure_is_told_at_the_next_tenth_of_a_second() {
    for (milliseconds, told) in [(1, 1), (99, 1), (100, 1), (101, 2), (250, 3), (4_999, 50)] {
        let Call { terms, .. } = call(URL);
        tokio::time::sleep(Duration::from_millis(milliseconds)).await;
        terms.pad().await;
        assert_eq!(terms.began.elapsed(), STEP * told, "{milliseconds} ms");
    }
}

/// Q8: every failure waits for that, even one that is known at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn q8_failures_take_tenths_of_a_second() {
    let closed = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port").local_addr().expect("an address");
    let (hanging_up, _) = says(Vec::new()).await;
    for (what, server, url) in [
        ("refused", closed, URL),
        ("closed", hanging_up, URL),
        ("not allowed", closed, "http://10.0.0.1/"),
        ("unknown", closed, "http://unknown.example.com/"),
    ] {
        let bench = Bench::new(server).await;
        let began = Instant::now();
        assert!(bench.get(url).await.is_err(), "{what}");
        assert!(began.elapsed() >= STEP, "{what}: {:?}", began.elapsed());
    }
}

/// Q9: text from the other side is short and plain in a log line.
#[tokio::test]
async fn q9_causes_are_short_and_printable() {
    let cause = CallError::NoTls(format!("names: \u{1b}[31m{}", "x".repeat(5_000))).in_short();
    assert!(cause.starts_with("TLS cannot be used: names:  [31mxxx") && cause.len() == 300, "{cause}");
    let marked = "HTTP/1.1 200 OK\r\nMARKER\u{1b}: MARKER\r\n\r\nMARKER";
    let error = outcome_of(marked).await.expect_err("no header").in_short();
    assert!(!error.contains("MARKER"), "{error}");
}
