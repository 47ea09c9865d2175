//! Metrics, counted while the service runs. The operators' listener in `operators` serves them.
//!
//! Metrics are atomic counters, so counting costs a few nanoseconds; text is rendered on request. Labels are route
//! templates, methods and statuses: never a path, a tenant or a link.

use std::fmt::{Display, Write};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use deeplink_core::routes;
use http::{Method, StatusCode};

/// Statuses with their own counter; the rest is counted as `other`.
const STATUSES: [u16; 19] =
    [200, 201, 204, 302, 303, 304, 400, 401, 402, 403, 404, 405, 409, 410, 413, 415, 429, 500, 503];
/// Upper bounds of the histogram buckets, in milliseconds.
const BUCKETS: [u64; 11] = [1, 2, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500];

/// The route that answered, for logs and metrics; never the path, which can hold a token.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RouteName(pub(crate) &'static str);

/// Counts of responses by status.
#[derive(Debug, Default)]
struct Statuses([AtomicU64; STATUSES.len() + 1]);

impl Statuses {
    fn count(&self, status: StatusCode) {
        let index = STATUSES.iter().position(|known| *known == status.as_u16()).unwrap_or(STATUSES.len());
        self.0[index].fetch_add(1, Relaxed);
    }

    /// Labels and counts of the statuses with any responses.
    fn counts(&self) -> impl Iterator<Item = (String, u64)> {
        let names = STATUSES.iter().map(u16::to_string).chain(["other".to_owned()]);
        names.zip(&self.0).map(|(name, count)| (name, count.load(Relaxed))).filter(|(_, count)| *count > 0)
    }
}

/// Responses of one operation, and how long they took.
#[derive(Debug)]
struct Operation {
    method: &'static str,
    route: &'static str,
    statuses: Statuses,
    /// One for each of `BUCKETS`, and one for anything slower.
    buckets: [AtomicU64; BUCKETS.len() + 1],
    millis: AtomicU64,
}

impl Operation {
    fn new(method: &'static str, route: &'static str) -> Self {
        Self { method, route, statuses: Statuses::default(), buckets: Default::default(), millis: AtomicU64::new(0) }
    }
}

/// All counters.
#[derive(Debug)]
pub(crate) struct Metrics {
    visits: Statuses,
    operations: Vec<Operation>,
    /// Requests that belong to no operation: unknown paths, pages, custom hosts.
    others: Operation,
    /// Resolves answered from the cache because the database could not be read.
    pub(crate) stale_answers: AtomicU64,
    /// Certificates issued to this node.
    pub(crate) certificates_issued: AtomicU64,
    /// Certificate orders that failed.
    pub(crate) certificates_failed: AtomicU64,
    /// Delivery attempts by outcome.
    attempts: [AtomicU64; SENT.len()],
    /// Facilitator responses about a different payment than the one it was asked about.
    payer_mismatches: AtomicU64,
    /// Payments with an unknown outcome, as of the last check.
    pub(crate) payments_unresolved: AtomicU64,
    /// Deliveries queued on this node whose outcome is not stored yet.
    pub(crate) deliveries_queued: AtomicUsize,
    /// Stripe events that an operator has to look into.
    stripe_alarms: [AtomicU64; STRIPE_ALARMS.len()],
    /// Stripe events with an invalid signature.
    stripe_signatures_refused: AtomicU64,
    /// Calls that Stripe refused for good: a retry would not help.
    stripe_calls_refused: AtomicU64,
}

/// Why an operator has to look into a Stripe event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StripeAlarm {
    /// It is about a customer who has no account here.
    UnknownCustomer,
    /// The stored account, Stripe's and the one named at checkout differ.
    CustomerMismatch,
    /// An account pays for two subscriptions.
    SecondSubscription,
    /// An account pays a price that belongs to no plan.
    UnknownPrice,
    /// Stripe does not know the subscription.
    UnknownSubscription,
}

/// The labels of [`StripeAlarm`], in its order.
const STRIPE_ALARMS: [&str; 5] =
    ["unknown_customer", "customer_mismatch", "second_subscription", "unknown_price", "unknown_subscription"];

impl StripeAlarm {
    /// The label in logs and metrics.
    pub(crate) fn as_str(self) -> &'static str {
        STRIPE_ALARMS[self as usize]
    }
}

/// The outcome of a delivery attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sent {
    /// The receiver responded with success.
    Taken,
    /// It responded with another status.
    Refused,
    /// There was no response.
    Unanswered,
}

/// The labels of [`Sent`], in its order.
const SENT: [&str; 3] = ["delivered", "refused", "unanswered"];

impl Metrics {
    /// Counters for the operations, and for what else is at these paths.
    pub(crate) fn new(others: impl IntoIterator<Item = &'static str>) -> Self {
        let others = others.into_iter().flat_map(|path| ["GET", "POST"].map(|method| Operation::new(method, path)));
        Self {
            visits: Statuses::default(),
            operations: routes::ALL
                .iter()
                .map(|route| Operation::new(route.method, route.path))
                .chain(others)
                .collect(),
            others: Operation::new("any", "other"),
            stale_answers: AtomicU64::new(0),
            certificates_issued: AtomicU64::new(0),
            certificates_failed: AtomicU64::new(0),
            attempts: Default::default(),
            payer_mismatches: AtomicU64::new(0),
            payments_unresolved: AtomicU64::new(0),
            deliveries_queued: AtomicUsize::new(0),
            stripe_alarms: Default::default(),
            stripe_signatures_refused: AtomicU64::new(0),
            stripe_calls_refused: AtomicU64::new(0),
        }
    }

    /// Counts a delivery attempt.
    pub(crate) fn sent(&self, outcome: Sent) {
        self.attempts[outcome as usize].fetch_add(1, Relaxed);
    }

    /// Counts an event that an operator has to look into.
    pub(crate) fn stripe_alarm(&self, alarm: StripeAlarm) {
        self.stripe_alarms[alarm as usize].fetch_add(1, Relaxed);
    }

    /// Counts an event with an invalid signature.
    pub(crate) fn stripe_signature_refused(&self) {
        self.stripe_signatures_refused.fetch_add(1, Relaxed);
    }

    /// Counts a call that Stripe refused.
    pub(crate) fn stripe_call_refused(&self) {
        self.stripe_calls_refused.fetch_add(1, Relaxed);
    }

    /// Counts a facilitator response about a different payment.
    pub(crate) fn payer_mismatch(&self) {
        self.payer_mismatches.fetch_add(1, Relaxed);
    }

    /// Counts a resolve. They are most of the traffic, so they are counted by status only.
    pub(crate) fn visit(&self, status: StatusCode) {
        self.visits.count(status);
    }

    /// Counts any other request by its route template.
    pub(crate) fn request(&self, method: &Method, route: &str, status: StatusCode, millis: u64) {
        // HEAD requests are handled by the GET operation.
        let method = if method == Method::HEAD { Method::GET.as_str() } else { method.as_str() };
        let known = self.operations.iter().find(|known| known.route == route && known.method == method);
        let operation = known.unwrap_or(&self.others);
        operation.statuses.count(status);
        let bucket = BUCKETS.iter().position(|edge| millis <= *edge).unwrap_or(BUCKETS.len());
        operation.buckets[bucket].fetch_add(1, Relaxed);
        operation.millis.fetch_add(millis, Relaxed);
    }

    pub(crate) fn write(&self, page: &mut Page) {
        page.family("deeplink_requests_total", "counter", "Responses by route and status.");
        for (status, count) in self.visits.counts() {
            page.labelled(&[("method", "GET"), ("route", routes::RESOLVE.path), ("status", &status)], count);
        }
        for operation in self.operations.iter().chain([&self.others]) {
            for (status, count) in operation.statuses.counts() {
                let labels = [("method", operation.method), ("route", operation.route), ("status", &status)];
                page.labelled(&labels, count);
            }
        }
        page.family("deeplink_request_seconds", "histogram", "Time from the request head to the response head.");
        for operation in self.operations.iter().chain([&self.others]) {
            page.histogram(operation);
        }
        let stale = self.stale_answers.load(Relaxed);
        page.single(
            "deeplink_stale_answers_total",
            "counter",
            "Visits served from the cache because the database was unavailable.",
            stale,
        );
        let (issued, failed) = (&self.certificates_issued, &self.certificates_failed);
        page.single(
            "deeplink_certificates_issued_total",
            "counter",
            "Certificates issued to this node.",
            issued.load(Relaxed),
        );
        page.single(
            "deeplink_certificates_failed_total",
            "counter",
            "Certificate orders that failed.",
            failed.load(Relaxed),
        );
        page.family("deeplink_delivery_attempts_total", "counter", "Webhook delivery attempts by outcome.");
        for (outcome, count) in SENT.iter().zip(&self.attempts) {
            page.labelled(&[("outcome", outcome)], count.load(Relaxed));
        }
        page.single(
            "deeplink_deliveries_queued",
            "gauge",
            "Webhook deliveries in progress on this node.",
            self.deliveries_queued.load(Relaxed),
        );
        let help = "Stripe subscriptions that need operator action, by reason.";
        page.family("deeplink_stripe_alarms_total", "counter", help);
        for (reason, count) in STRIPE_ALARMS.iter().zip(&self.stripe_alarms) {
            page.labelled(&[("reason", reason)], count.load(Relaxed));
        }
        page.single(
            "deeplink_stripe_signatures_refused_total",
            "counter",
            "Stripe events rejected because of an invalid signature.",
            self.stripe_signatures_refused.load(Relaxed),
        );
        page.single(
            "deeplink_stripe_calls_refused_total",
            "counter",
            "Calls that Stripe rejected permanently; they are not retried.",
            self.stripe_calls_refused.load(Relaxed),
        );
        page.single(
            "deeplink_x402_mismatches_total",
            "counter",
            "Responses from the x402 facilitator that refer to a different payment.",
            self.payer_mismatches.load(Relaxed),
        );
        page.single(
            "deeplink_x402_unresolved_payments",
            "gauge",
            "x402 payments with an unknown outcome; `deeplink-server check` lists them.",
            self.payments_unresolved.load(Relaxed),
        );
    }
}

/// Metrics in the Prometheus text format.
#[derive(Debug, Default)]
pub(crate) struct Page {
    pub(crate) text: String,
    name: &'static str,
}

impl Page {
    pub(crate) fn family(&mut self, name: &'static str, kind: &str, help: &str) {
        self.name = name;
        self.line(format_args!("# HELP {name} {help}\n# TYPE {name} {kind}"));
    }

    pub(crate) fn labelled(&mut self, labels: &[(&str, &str)], value: impl Display) {
        let name = self.name;
        let labels: Vec<_> = labels.iter().map(|(label, value)| format!("{label}=\"{value}\"")).collect();
        self.line(format_args!("{name}{{{}}} {value}", labels.join(",")));
    }

    /// A metric without labels.
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
        let metrics = Metrics::new([]);
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

    /// T4: labels never contain data from a request.
    #[test]
    fn t4_labels_hold_no_request_data() {
        let metrics = Metrics::new([]);
        metrics.request(&Method::from_bytes(b"BREW").expect("a method"), "/v1/links/promo", StatusCode::OK, 1);
        let text = text(&metrics);
        assert!(!text.contains("promo") && !text.contains("BREW"), "{text}");
    }

    #[test]
    fn every_sample_belongs_to_a_described_family() {
        let metrics = Metrics::new([]);
        metrics.visit(StatusCode::OK);
        metrics.request(&Method::GET, "/health", StatusCode::OK, 1);
        let text = text(&metrics);
        let mut family = "";
        for line in text.lines() {
            if let Some(described) = line.strip_prefix("# TYPE ") {
                family = described.split(' ').next().expect("a name");
            } else if !line.starts_with('#') {
                assert!(line.starts_with(family), "{line} does not belong to {family}");
                let value = line.rsplit(' ').next().expect("a value");
                assert!(value.parse::<f64>().is_ok(), "{line}");
            }
        }
    }
}
