//! Figures for operators, and the listener that shows them: `/metrics`, `/health` and `/ready`, away from the public.
//!
//! Every figure is a plain counter, so that counting costs a few nanoseconds; text is made only when somebody asks.
//! Labels are routes by their template, methods and statuses: never a path, a tenant or a link.

use std::convert::Infallible;
use std::fmt::{Display, Write};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use deeplink_core::error::ErrorCode;
use deeplink_core::routes;
use http::{HeaderValue, Method, Request, StatusCode, header};
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::api::health;
use crate::error::{ApiError, Record};
use crate::http::listen::{self, Limits, RequestBody, Stop};
use crate::http::request_id;
use crate::pages;
use crate::state::{App, Shared};

/// Statuses that the service answers with; what is not among them is counted as `other`.
const STATUSES: [u16; 19] =
    [200, 201, 204, 302, 303, 304, 400, 401, 402, 403, 404, 405, 409, 410, 413, 415, 429, 500, 503];
/// Upper edges of the time buckets, in milliseconds.
const BUCKETS: [u64; 11] = [1, 2, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500];

/// How often each status was answered.
#[derive(Debug, Default)]
struct Statuses([AtomicU64; STATUSES.len() + 1]);

impl Statuses {
    fn count(&self, status: StatusCode) {
        let place = STATUSES.iter().position(|known| *known == status.as_u16()).unwrap_or(STATUSES.len());
        self.0[place].fetch_add(1, Relaxed);
    }

    /// The statuses that were answered at all, as labels.
    fn seen(&self) -> impl Iterator<Item = (String, u64)> {
        let names = STATUSES.iter().map(u16::to_string).chain(["other".to_owned()]);
        names.zip(&self.0).map(|(name, count)| (name, count.load(Relaxed))).filter(|(_, count)| *count > 0)
    }
}

/// One operation: its answers, and how long they took.
#[derive(Debug)]
struct Operation {
    method: &'static str,
    route: &'static str,
    statuses: Statuses,
    /// One for each of `BUCKETS`, and one for what took longer.
    buckets: [AtomicU64; BUCKETS.len() + 1],
    millis: AtomicU64,
}

impl Operation {
    fn new(method: &'static str, route: &'static str) -> Self {
        Self { method, route, statuses: Statuses::default(), buckets: Default::default(), millis: AtomicU64::new(0) }
    }
}

/// Everything that is counted while the service runs.
#[derive(Debug)]
pub(crate) struct Metrics {
    visits: Statuses,
    operations: Vec<Operation>,
    /// Requests that no operation answers: unknown paths, pages, custom hosts.
    others: Operation,
    /// Resolves that were answered from memory because the database could not be read.
    pub(crate) stale_answers: AtomicU64,
    /// Certificates that this node was issued.
    pub(crate) certificates_issued: AtomicU64,
    /// Orders of certificates that came to nothing.
    pub(crate) certificates_failed: AtomicU64,
    /// Attempts to deliver, by what came of them.
    sent: [AtomicU64; SENT.len()],
    /// Deliveries that this node has taken up and whose outcome is not stored.
    pub(crate) deliveries_queued: AtomicUsize,
}

/// What came of an attempt to deliver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sent {
    /// The receiver took it.
    Taken,
    /// It answered with another status.
    Refused,
    /// There was no answer.
    Unanswered,
}

/// The words for [`Sent`], in its order.
const SENT: [&str; 3] = ["delivered", "refused", "unanswered"];

impl Metrics {
    pub(crate) fn new() -> Self {
        let pages = pages::PATHS.iter().flat_map(|path| ["GET", "POST"].map(|method| Operation::new(method, path)));
        Self {
            visits: Statuses::default(),
            operations: routes::ALL.iter().map(|route| Operation::new(route.method, route.path)).chain(pages).collect(),
            others: Operation::new("any", "other"),
            stale_answers: AtomicU64::new(0),
            certificates_issued: AtomicU64::new(0),
            certificates_failed: AtomicU64::new(0),
            sent: Default::default(),
            deliveries_queued: AtomicUsize::new(0),
        }
    }

    /// Counts an attempt to deliver.
    pub(crate) fn sent(&self, outcome: Sent) {
        self.sent[outcome as usize].fetch_add(1, Relaxed);
    }

    /// Counts a resolve; they are most of the traffic, so nothing else is done for them.
    pub(crate) fn visit(&self, status: StatusCode) {
        self.visits.count(status);
    }

    /// Counts any other request, by the template of the route that answered.
    pub(crate) fn request(&self, method: &Method, route: &str, status: StatusCode, millis: u64) {
        // HEAD is answered by what answers GET.
        let method = if method == Method::HEAD { Method::GET.as_str() } else { method.as_str() };
        let known = self.operations.iter().find(|known| known.route == route && known.method == method);
        let operation = known.unwrap_or(&self.others);
        operation.statuses.count(status);
        let bucket = BUCKETS.iter().position(|edge| millis <= *edge).unwrap_or(BUCKETS.len());
        operation.buckets[bucket].fetch_add(1, Relaxed);
        operation.millis.fetch_add(millis, Relaxed);
    }

    fn write(&self, page: &mut Page) {
        page.family("deeplink_requests_total", "counter", "Answers by route and status.");
        for (status, count) in self.visits.seen() {
            page.labelled(&[("method", "GET"), ("route", routes::RESOLVE.path), ("status", &status)], count);
        }
        for operation in self.operations.iter().chain([&self.others]) {
            for (status, count) in operation.statuses.seen() {
                let labels = [("method", operation.method), ("route", operation.route), ("status", &status)];
                page.labelled(&labels, count);
            }
        }
        page.family("deeplink_request_seconds", "histogram", "Time from the request's head to the answer's.");
        for operation in self.operations.iter().chain([&self.others]) {
            page.histogram(operation);
        }
        let stale = self.stale_answers.load(Relaxed);
        page.single(
            "deeplink_stale_answers_total",
            "counter",
            "Resolves answered from memory without the database.",
            stale,
        );
        let (issued, failed) = (&self.certificates_issued, &self.certificates_failed);
        page.single(
            "deeplink_certificates_issued_total",
            "counter",
            "Certificates ordered by this node.",
            issued.load(Relaxed),
        );
        page.single(
            "deeplink_certificates_failed_total",
            "counter",
            "Orders of certificates that came to nothing.",
            failed.load(Relaxed),
        );
        page.family("deeplink_delivery_attempts_total", "counter", "Attempts to deliver events to webhooks.");
        for (outcome, count) in SENT.iter().zip(&self.sent) {
            page.labelled(&[("outcome", outcome)], count.load(Relaxed));
        }
        page.single(
            "deeplink_deliveries_queued",
            "gauge",
            "Deliveries that this node has taken up and not settled.",
            self.deliveries_queued.load(Relaxed),
        );
    }
}

/// Text in the format that Prometheus reads.
#[derive(Debug, Default)]
pub(crate) struct Page {
    text: String,
    name: &'static str,
}

impl Page {
    fn family(&mut self, name: &'static str, kind: &str, help: &str) {
        self.name = name;
        self.line(format_args!("# HELP {name} {help}\n# TYPE {name} {kind}"));
    }

    fn labelled(&mut self, labels: &[(&str, &str)], value: impl Display) {
        let name = self.name;
        let labels: Vec<_> = labels.iter().map(|(label, value)| format!("{label}=\"{value}\"")).collect();
        self.line(format_args!("{name}{{{}}} {value}", labels.join(",")));
    }

    /// A figure without labels.
    pub(crate) fn single(&mut self, name: &'static str, kind: &str, help: &str, value: impl Display) {
        self.family(name, kind, help);
        self.line(format_args!("{name} {value}"));
    }

    fn histogram(&mut self, operation: &Operation) {
        let counts: Vec<u64> = operation.buckets.iter().map(|count| count.load(Relaxed)).collect();
        let all: u64 = counts.iter().sum();
        if all == 0 {
            return;
        }
        let name = self.name;
        let labels = format!("method=\"{}\",route=\"{}\"", operation.method, operation.route);
        let edges = BUCKETS.iter().map(|edge| seconds(*edge)).chain(["+Inf".to_owned()]);
        let mut below = 0;
        for (edge, count) in edges.zip(counts) {
            below += count;
            self.line(format_args!("{name}_bucket{{{labels},le=\"{edge}\"}} {below}"));
        }
        self.line(format_args!("{name}_sum{{{labels}}} {}", seconds(operation.millis.load(Relaxed))));
        self.line(format_args!("{name}_count{{{labels}}} {all}"));
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        // Writing to a string does not fail.
        let _ = writeln!(self.text, "{line}");
    }
}

fn seconds(millis: u64) -> String {
    format!("{}.{:03}", millis / 1_000, millis % 1_000)
}

/// Everything there is to know about the running service.
fn page(app: &App) -> String {
    let mut page = Page::default();
    page.family("deeplink_build_info", "gauge", "The running version.");
    page.labelled(&[("version", env!("CARGO_PKG_VERSION"))], 1);
    app.metrics.write(&mut page);
    page.single("deeplink_link_cache_entries", "gauge", "Links kept in memory.", app.links.len());
    page.single("deeplink_link_cache_bytes", "gauge", "Memory of the links kept.", app.links.bytes());
    clicks(&mut page, app);
    page.single("deeplink_event_readers", "gauge", "Streams of events that are read.", app.streams.readers());
    process(&mut page);
    page.text
}

fn clicks(page: &mut Page, app: &App) {
    let clicks = app.clicks.status();
    page.single("deeplink_clicks_stored_total", "counter", "Clicks that reached the log.", clicks.stored_total);
    page.single(
        "deeplink_clicks_spilled_total",
        "counter",
        "Clicks that went to the spill file first.",
        clicks.spilled_total,
    );
    page.single("deeplink_clicks_dropped_total", "counter", "Clicks that could be kept nowhere.", clicks.dropped_total);
    page.single("deeplink_clicks_queued", "gauge", "Clicks that wait for the database.", clicks.queued);
    page.single(
        "deeplink_clicks_in_memory",
        "gauge",
        "Clicks that wait because no file could be written.",
        clicks.in_memory,
    );
    page.single(
        "deeplink_clicks_spilling",
        "gauge",
        "Whether clicks go to the spill file now.",
        u8::from(clicks.spilling),
    );
}

/// What the kernel says of this process, where it says so under /proc.
fn process(page: &mut Page) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.split_whitespace().next()?.parse().ok());
    if let Some(kilobytes) = resident.map(|kilobytes: u64| kilobytes * 1_024) {
        page.single("process_resident_memory_bytes", "gauge", "Memory of this process.", kilobytes);
    }
    if let Ok(files) = std::fs::read_dir("/proc/self/fd") {
        page.single("process_open_fds", "gauge", "Files and sockets of this process.", files.count());
    }
}

/// Serves operators until the service has stopped; while it winds down they still see that it does.
pub(crate) async fn serve(listener: TcpListener, app: Shared, mut stopping: watch::Receiver<Stop>) {
    let limits = Limits { connections: 64, drain: Duration::ZERO, ..Limits::default() };
    let (end, ended) = watch::channel(Stop::Not);
    let serving = listen::serve(listener, limits, ended, move |_: SocketAddr| {
        let app = Shared::clone(&app);
        hyper::service::service_fn(move |request| answer(Shared::clone(&app), request))
    });
    let over = async {
        // An error says that the sender has gone, and the service with it.
        drop(stopping.wait_for(|asked| *asked == Stop::AtOnce).await);
        end.send_replace(Stop::AtOnce);
    };
    tokio::join!(serving, over);
}

async fn answer(app: Shared, request: Request<RequestBody>) -> Result<Response, Infallible> {
    let id = request_id::of(request.headers());
    let readable = matches!(*request.method(), Method::GET | Method::HEAD);
    let mut response = match request.uri().path() {
        "/metrics" | "/health" | "/ready" if !readable => ApiError::MethodNotAllowed(Some("GET, HEAD")).into_response(),
        "/metrics" => ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], page(&app)).into_response(),
        "/health" => health::health().await.into_response(),
        "/ready" => health::readiness(&app).await.into_response(),
        _ => ApiError::Plain(ErrorCode::NotFound, "operators have /metrics, /health and /ready").into_response(),
    };
    if let Some(record) = response.extensions_mut().remove::<Record>() {
        *response.body_mut() = Body::from(record.into_bytes(id.to_str().unwrap_or_default()));
    }
    response.headers_mut().insert(request_id::HEADER, id);
    response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(metrics: &Metrics) -> String {
        let mut page = Page::default();
        metrics.write(&mut page);
        page.text
    }

    #[test]
    fn requests_are_counted_by_template_and_status() {
        let metrics = Metrics::new();
        metrics.visit(StatusCode::FOUND);
        metrics.visit(StatusCode::FOUND);
        metrics.request(&Method::POST, "/v1/links", StatusCode::CREATED, 3);
        metrics.request(&Method::HEAD, "/health", StatusCode::OK, 0);
        metrics.request(&Method::GET, "/v1/links/secret-looking", StatusCode::IM_A_TEAPOT, 9_000);
        let text = text(&metrics);
        for line in [
            "deeplink_requests_total{method=\"GET\",route=\"/r/{link_id}\",status=\"302\"} 2",
            "deeplink_requests_total{method=\"POST\",route=\"/v1/links\",status=\"201\"} 1",
            "deeplink_requests_total{method=\"GET\",route=\"/health\",status=\"200\"} 1",
            "deeplink_requests_total{method=\"any\",route=\"other\",status=\"other\"} 1",
            "deeplink_request_seconds_bucket{method=\"POST\",route=\"/v1/links\",le=\"0.002\"} 0",
            "deeplink_request_seconds_bucket{method=\"POST\",route=\"/v1/links\",le=\"0.005\"} 1",
            "deeplink_request_seconds_bucket{method=\"POST\",route=\"/v1/links\",le=\"+Inf\"} 1",
            "deeplink_request_seconds_sum{method=\"any\",route=\"other\"} 9.000",
            "deeplink_request_seconds_count{method=\"any\",route=\"other\"} 1",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is missing in\n{text}");
        }
    }

    /// T4: a label holds what the service was built with, never what a request brought.
    #[test]
    fn t4_labels_hold_no_request_data() {
        let metrics = Metrics::new();
        metrics.request(&Method::from_bytes(b"BREW").expect("a method"), "/v1/links/promo", StatusCode::OK, 1);
        let text = text(&metrics);
        assert!(!text.contains("promo") && !text.contains("BREW"), "{text}");
    }

    #[test]
    fn every_sample_belongs_to_a_described_family() {
        let metrics = Metrics::new();
        metrics.visit(StatusCode::OK);
        metrics.request(&Method::GET, "/health", StatusCode::OK, 1);
        let text = text(&metrics);
        let mut family = "";
        for line in text.lines() {
            if let Some(described) = line.strip_prefix("# TYPE ") {
                family = described.split(' ').next().expect("a name");
            } else if !line.starts_with('#') {
                assert!(line.starts_with(family), "{line} is not of {family}");
                let value = line.rsplit(' ').next().expect("a value");
                assert!(value.parse::<f64>().is_ok(), "{line}");
            }
        }
    }
}
