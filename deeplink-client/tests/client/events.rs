//! The event stream: what it yields, when it reconnects, and when it gives up.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use deeplink_client::mock::{MockTransport, fixtures};
use deeplink_client::transport::{BodyStream, BoxFuture, Failure, Transport, TransportError};
use deeplink_client::{Client, EventKind, Kind, SecretKey, StreamState};
use futures_util::StreamExt;
use http::Method;
use tokio::time::Instant;

const STREAM: &str = "/v1/events/stream";
const SSE: &str = "text/event-stream";

fn mock() -> MockTransport {
    MockTransport::new().on(Method::GET, STREAM)
}

fn client(mock: &MockTransport) -> Client {
    let key = SecretKey::new("dl_live_0123456789");
    Client::builder("https://api.example.com").secret_key(key).transport(mock.clone()).build().unwrap()
}

/// A broken stream resumes after the last event, and nothing is yielded twice.
#[tokio::test(start_paused = true)]
async fn a_stream_comes_again_behind_its_last_event() {
    let [first, second] = [EventKind::Click, EventKind::Conversion].map(|kind| fixtures::streamed_event(&kind));
    let mock = mock()
        .bytes(200, SSE, format!(": begin\n\n{first}"))
        .unreachable()
        .status(503)
        .retry_after(40)
        .bytes(200, SSE, second);
    let mut events = client(&mock).events().stream().kinds([EventKind::Click, EventKind::Conversion]);
    let told = events.next().await.unwrap().unwrap();
    assert_eq!((told.event.kind, told.id.as_str().len()), (EventKind::Click, 28));
    let begin = Instant::now();
    let next = events.next().await.unwrap().unwrap();
    assert_eq!(next.event.kind, EventKind::Conversion);
    assert!(begin.elapsed() >= Duration::from_secs(40), "the wait that the service asks for is kept");
    assert_eq!(events.last_id(), Some(&next.id));
    let calls = mock.calls();
    assert_eq!(calls[0].path(), "/v1/events/stream?events=click%2Cconversion");
    let asked: Vec<&str> = calls.iter().map(|call| call.header("last-event-id")).collect();
    assert_eq!(asked, ["", told.id.as_str(), told.id.as_str(), told.id.as_str()]);
}

/// A stream that breaks before its first event resumes after the position that it was sent.
#[tokio::test(start_paused = true)]
async fn a_break_before_the_first_event_loses_nothing() {
    let [first, second] = ["evt_0000000000050000a0000000", "evt_0000000000060000a0000000"];
    let mock = mock()
        .bytes(200, SSE, format!(": the events begin\nid: {first}\n\n"))
        .bytes(200, SSE, format!(": the events begin\nid: {first}\n\n: nothing happened\nid: {second}\n\n"))
        .bytes(200, SSE, fixtures::streamed_event(&EventKind::Click));
    let mut events = client(&mock).events().stream();
    assert_eq!(events.next().await.unwrap().unwrap().event.kind, EventKind::Click);
    let asked: Vec<String> = mock.calls().iter().map(|call| call.header("last-event-id").to_owned()).collect();
    assert_eq!(asked, ["", first, second]);
}

/// A watcher is called each time the stream connects, disconnects and reconnects.
#[tokio::test(start_paused = true)]
async fn a_stream_tells_how_its_connection_does() {
    let click = fixtures::streamed_event(&EventKind::Click);
    let mock = mock()
        .unreachable()
        .bytes(200, SSE, click)
        .unreachable()
        .status(503)
        .bytes(200, SSE, ": begin\n\n")
        .status(403);
    let heard = Arc::new(Mutex::new(Vec::new()));
    let hear = Arc::clone(&heard);
    let mut events = client(&mock).events().stream().watch(move |state| hear.lock().unwrap().push(state));
    events.next().await.unwrap().unwrap();
    assert_eq!(*heard.lock().unwrap(), [StreamState::Connected]);
    assert_eq!(events.next().await.unwrap().unwrap_err().kind(), Kind::Forbidden);
    let (lost, again) = (StreamState::Disconnected, StreamState::Reconnected);
    assert_eq!(*heard.lock().unwrap(), [StreamState::Connected, lost, again, lost]);
}

/// A reader that stops before the first event can resume where the stream began: nothing in between is missed.
#[tokio::test(start_paused = true)]
async fn a_place_without_an_event_can_be_kept() {
    let [first, second] = ["evt_0000000000050000a0000000", "evt_0000000000060000a0000000"];
    for (said, place) in [
        (format!(": the events begin\nid: {first}\n\n"), first),
        (format!(": the events begin\nid: {first}\n\n: nothing happened\nid: {second}\n\nid: \n\n"), second),
    ] {
        let mock = mock().bytes(200, SSE, said).silence();
        let mut events = client(&mock).events().stream();
        assert_eq!(events.last_id(), None);
        assert!(tokio::time::timeout(Duration::from_mins(1), events.next()).await.is_err());
        assert_eq!(events.last_id().map(ToString::to_string).as_deref(), Some(place));
    }
}

/// A stream that repeatedly opens and ends is retried ever more slowly; one that delivers something reconnects soon.
#[tokio::test(start_paused = true)]
async fn who_gets_nothing_waits_longer_from_time_to_time() {
    const TIMES: u32 = 20;
    let waited = async |said: &str| {
        let mock = (0..TIMES).fold(mock(), |mock, _| mock.bytes(200, SSE, said.to_owned())).status(403);
        let mut events = client(&mock).events().stream();
        let begin = Instant::now();
        while let Some(Ok(_)) = events.next().await {}
        mock.assert_used();
        begin.elapsed()
    };
    // Up to a second each time, and more than that.
    let limit = Duration::from_secs(2) * TIMES;
    let nothing = waited(": the events begin\nid: evt_0000000000050000a0000000\n\n").await;
    assert!(nothing > limit, "{nothing:?}");
    let something = waited(&fixtures::streamed_event(&EventKind::Click)).await;
    assert!(something < limit, "{something:?}");
}

/// A service, or a proxy in front of it, that cuts each connection after a set time, and then refuses.
struct Cuts {
    left: Mutex<u32>,
    after: Duration,
}

impl Transport for Cuts {
    fn send(&self, _: http::Request<Bytes>) -> BoxFuture<'_, Result<http::Response<BodyStream>, TransportError>> {
        let mut left = self.left.lock().unwrap();
        let status = if *left == 0 { 403 } else { 200 };
        *left = left.saturating_sub(1);
        let after = self.after;
        let begin = futures_util::stream::once(async { Ok(Bytes::from_static(b": the events begin\n\n")) });
        let end = futures_util::stream::once(async move {
            tokio::time::sleep(after).await;
            Err(TransportError::new(Failure::Broken, "cut"))
        });
        let reply = http::Response::builder().status(status).header("content-type", SSE);
        Box::pin(async move { Ok(reply.body(Box::pin(begin.chain(end)) as BodyStream).unwrap()) })
    }
}

/// A connection that lasted long is not a failure, even if it is cut before the service sends anything again.
#[tokio::test(start_paused = true)]
async fn a_connection_that_lasted_comes_again_soon() {
    const TIMES: u32 = 20;
    let waited = async |after: Duration| {
        let key = SecretKey::new("dl_live_0123456789");
        let cuts = Cuts { left: Mutex::new(TIMES), after };
        let client = Client::builder("https://api.example.com").secret_key(key).transport(cuts).build().unwrap();
        let mut events = client.events().stream();
        let begin = Instant::now();
        while let Some(Ok(_)) = events.next().await {}
        begin.elapsed().saturating_sub(after * TIMES)
    };
    let limit = Duration::from_secs(2) * TIMES;
    let soon = waited(Duration::from_secs(12)).await;
    assert!(soon < limit, "{soon:?}");
    let seldom = waited(Duration::from_secs(1)).await;
    assert!(seldom > limit, "{seldom:?}");
}

/// 45 seconds of silence count as a broken connection.
#[tokio::test(start_paused = true)]
async fn silence_is_a_break() {
    let mock = mock().silence().bytes(200, SSE, fixtures::streamed_event(&EventKind::Identify));
    let begin = Instant::now();
    let mut events = client(&mock).events().stream();
    assert_eq!(events.next().await.unwrap().unwrap().event.kind, EventKind::Identify);
    assert!(begin.elapsed() >= Duration::from_secs(30), "{:?}", begin.elapsed());
}

/// A refusal ends the stream, at once or later, and so does a service that is never reachable.
#[tokio::test(start_paused = true)]
async fn refusals_end_the_stream() {
    for (status, kind) in [(401, Kind::Auth), (403, Kind::Forbidden), (400, Kind::BadRequest)] {
        let mock = mock().bytes(200, SSE, fixtures::streamed_event(&EventKind::Click)).status(status);
        let mut events = client(&mock).events().stream();
        events.next().await.unwrap().unwrap();
        assert_eq!(events.next().await.unwrap().unwrap_err().kind(), kind);
        assert!(events.next().await.is_none());
    }
    let mock = mock().unreachable();
    let mut events = client(&mock).events().stream();
    assert_eq!(events.next().await.unwrap().unwrap_err().kind(), Kind::Connect);
    assert_eq!(mock.calls().len(), 3);
    let mock = self::mock().bytes(200, SSE, "id: evt_1\ndata: x\n\n");
    assert_eq!(client(&mock).events().stream().next().await.unwrap().unwrap_err().kind(), Kind::Decode);
    let odd = client(&mock).events().stream().kinds(["opened".into()]).next().await;
    assert_eq!(odd.unwrap().unwrap_err().kind(), Kind::Validation);
}

/// It resumes where an earlier one ended.
#[tokio::test(start_paused = true)]
async fn a_stream_begins_where_it_is_told_to() {
    let mock = mock().bytes(200, SSE, fixtures::streamed_event(&EventKind::Click));
    let id = "evt_0123456789abcdef01234567";
    let mut events = client(&mock).events().stream().after(id.parse().unwrap());
    events.next().await.unwrap().unwrap();
    assert_eq!(mock.calls()[0].header("last-event-id"), id);
}
