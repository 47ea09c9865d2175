//! What is recorded in `tracing`: the route's template, never a URL, a body or a credential. Without the feature, nothing.

use std::future::Future;

use http::StatusCode;

use crate::call::Draft;

#[cfg(feature = "tracing")]
pub(crate) struct Span {
    span: tracing::Span,
    started: tokio::time::Instant,
}

#[cfg(feature = "tracing")]
impl Span {
    pub(crate) fn open(draft: &Draft, request_id: &str) -> Self {
        let span = tracing::debug_span!(
            "deeplink.call",
            route = draft.template,
            method = draft.method.as_str(),
            request_id,
            status = tracing::field::Empty,
            attempt = tracing::field::Empty,
            duration_ms = tracing::field::Empty,
        );
        Self { span, started: tokio::time::Instant::now() }
    }

    pub(crate) async fn within<F: Future>(&self, future: F) -> F::Output {
        tracing::Instrument::instrument(future, self.span.clone()).await
    }

    pub(crate) fn attempted(&self, attempt: u32, status: Option<StatusCode>) {
        let duration_ms = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        let status = status.map_or(0, |status| status.as_u16());
        self.span.record("attempt", attempt);
        self.span.record("status", status);
        self.span.record("duration_ms", duration_ms);
        tracing::debug!(parent: &self.span, attempt, status, duration_ms, "attempted");
    }
}

#[cfg(not(feature = "tracing"))]
pub(crate) struct Span;

#[cfg(not(feature = "tracing"))]
impl Span {
    pub(crate) fn open(_draft: &Draft, _request_id: &str) -> Self {
        Self
    }

    #[expect(clippy::unused_self, reason = "the same shape as with the feature")]
    pub(crate) fn within<F: Future>(&self, future: F) -> F {
        future
    }

    #[expect(clippy::unused_self, reason = "the same shape as with the feature")]
    pub(crate) fn attempted(&self, _attempt: u32, _status: Option<StatusCode>) {}
}
