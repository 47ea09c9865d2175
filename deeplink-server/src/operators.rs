//! The listener for operators: `/metrics`, `/health` and `/ready`, away from the public.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::Duration;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use deeplink_core::error::ErrorCode;
use http::{HeaderValue, Method, Request, header};
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::api::health;
use crate::error::{ApiError, Record};
use crate::http::listen::{self, Limits, RequestBody, Stop, Unread};
use crate::http::{host, request_id};
use crate::metrics::Page;
use crate::state::{App, Shared};

/// All metrics of the running service.
fn page(app: &App) -> String {
    let mut page = Page::default();
    page.family("deeplink_build_info", "gauge", "The running version.");
    page.labelled(&[("version", env!("CARGO_PKG_VERSION"))], 1);
    app.metrics.write(&mut page);
    page.single("deeplink_link_cache_entries", "gauge", "Links in the link cache.", app.links.len());
    page.single("deeplink_link_cache_bytes", "gauge", "Memory used by the link cache.", app.links.bytes());
    clicks(&mut page, app);
    page.single("deeplink_event_readers", "gauge", "Open event streams.", app.streams.readers());
    page.family(
        "deeplink_sealed_values_unopened_total",
        "counter",
        "Encrypted values that could not be decrypted, by reason.",
    );
    for (reason, count) in app.vault.unopened() {
        page.labelled(&[("reason", reason)], count);
    }
    process(&mut page);
    page.text
}

fn clicks(page: &mut Page, app: &App) {
    let clicks = app.clicks.status();
    page.single("deeplink_clicks_stored_total", "counter", "Clicks stored in the database.", clicks.stored_total);
    page.single("deeplink_clicks_dropped_total", "counter", "Clicks that could not be stored.", clicks.dropped_total);
    page.single(
        "deeplink_clicks_journal_bytes",
        "gauge",
        "Bytes of the click journal that are not in the database yet.",
        clicks.behind_bytes,
    );
    page.single(
        "deeplink_clicks_journal_seconds",
        "gauge",
        "Seconds since the database last contained every click in the journal.",
        clicks.behind_seconds,
    );
    page.single("deeplink_clicks_journal_segments", "gauge", "Segments of the click journal.", clicks.segments);
    page.single(
        "deeplink_clicks_in_memory",
        "gauge",
        "Clicks kept in memory because the journal cannot be written.",
        clicks.in_memory,
    );
}

/// Memory and files of this process, where the kernel has /proc.
fn process(page: &mut Page) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.split_whitespace().next()?.parse().ok());
    if let Some(kilobytes) = resident.map(|kilobytes: u64| kilobytes * 1_024) {
        page.single("process_resident_memory_bytes", "gauge", "Resident memory of this process.", kilobytes);
    }
    if let Ok(files) = std::fs::read_dir("/proc/self/fd") {
        page.single("process_open_fds", "gauge", "Open files and sockets of this process.", files.count());
    }
}

/// Serves operators until the service has stopped, so that they can watch it drain.
pub(crate) async fn serve(listener: TcpListener, app: Shared, mut stopping: watch::Receiver<Stop>) {
    let limits = Limits { connections: 64, drain: Duration::ZERO, ..Limits::default() }.without_shares();
    let (end, ended) = watch::channel(Stop::Not);
    let serving = listen::serve(listener, limits, ended, move |_: SocketAddr, _: Unread| {
        let app = Shared::clone(&app);
        hyper::service::service_fn(move |request| answer(Shared::clone(&app), request))
    });
    let over = async {
        // An error means that the sender was dropped, and the service with it.
        drop(stopping.wait_for(|asked| *asked == Stop::AtOnce).await);
        end.send_replace(Stop::AtOnce);
    };
    tokio::join!(serving, over);
}

async fn answer(app: Shared, request: Request<RequestBody>) -> Result<Response, Infallible> {
    let id = request_id::of(request.headers());
    let readable = matches!(*request.method(), Method::GET | Method::HEAD);
    let mut response = match request.uri().path() {
        _ if host::at_most_one(request.headers()).is_err() => host::bad().into_response(),
        "/metrics" | "/health" | "/ready" if !readable => ApiError::MethodNotAllowed(Some("GET, HEAD")).into_response(),
        "/metrics" => ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], page(&app)).into_response(),
        "/health" => health::health().await.into_response(),
        "/ready" => health::readiness(&app).await.into_response(),
        _ => ApiError::Plain(ErrorCode::NotFound, "this listener serves /metrics, /health and /ready").into_response(),
    };
    if let Some(record) = response.extensions_mut().remove::<Record>() {
        *response.body_mut() = Body::from(record.into_bytes(id.to_str().unwrap_or_default()));
    }
    response.headers_mut().insert(request_id::HEADER, id);
    response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    Ok(response)
}
