//! The service itself: whether it answers, whether it is this service, and its clock.

use std::sync::Arc;

use http::Method;

use super::domain::lifetime;
use super::probe::{Answer, Fault, FaultKind, ask};
use super::{Finding, Setup, Status, Task};
use crate::clock;

/// Maximum clock difference before anything with a timestamp fails.
const MAX_SKEW_SECONDS: i64 = 60;

/// Bytes of `/health` that are read.
const HEALTH_BYTES: usize = 4_096;

pub(super) fn tasks(setup: &Arc<Setup>) -> Vec<Task> {
    let subject = setup.client.base_url().origin().ascii_serialization();
    let [one, two, three] = [0; 3].map(|_| Arc::clone(setup));
    vec![
        Task::new("service.http", &subject, Status::Fail, async move { one.check_service().await }),
        Task::new("service.tls", &subject, Status::Fail, async move { two.check_service_tls().await }),
        Task::new("service.clock", subject, Status::Warn, async move { three.check_clock().await }),
    ]
}

impl Setup {
    async fn health(&self) -> Result<Answer, Fault> {
        let url = format!("{}/health", self.client.base_url().as_str().trim_end_matches('/'));
        ask(self.probe.plain(), Method::GET, &url, &[], HEALTH_BYTES).await
    }

    async fn check_service(&self) -> Finding {
        match self.health().await {
            Ok(answer) if is_ours(&answer) => Finding::ok(format!("responds in {} ms", answer.took.as_millis())),
            Ok(answer) => Finding::fail(
                format!("/health does not come from this service: {}", answer.outline()),
                "check the base URL: dl config get base_url",
            ),
            Err(fault) => {
                let is_refused = fault.kind == FaultKind::Unreachable && self.is_loopback();
                let fix = if is_refused { "is the server running?" } else { "check the base URL and the network" };
                Finding::fail(format!("could not be reached: {}", fault.text), fix)
            }
        }
    }

    async fn check_service_tls(&self) -> Finding {
        if self.client.base_url().scheme() == "http" {
            return Finding::skip("plain http");
        }
        match self.health().await {
            Ok(answer) => lifetime(&answer),
            Err(fault) if matches!(fault.kind, FaultKind::Unreachable | FaultKind::NoWay) => {
                Finding::skip("the service could not be reached")
            }
            Err(fault) => Finding::fail(fault.text, "the certificate must be valid and cover the host"),
        }
    }

    async fn check_clock(&self) -> Finding {
        let Ok(answer) = self.health().await else { return Finding::skip("the service could not be reached") };
        let Some(theirs) = crate::retry::http_date(&answer.header("date")) else {
            return Finding::skip("the service does not report its time");
        };
        let seconds = clock::now().as_millis() / 1_000 - theirs;
        let away = seconds.unsigned_abs();
        match seconds {
            _ if away <= MAX_SKEW_SECONDS.unsigned_abs() => Finding::ok(format!("{away} s from this machine's clock")),
            1.. => Finding::warn(
                format!("this machine's clock is {away} s ahead of the service's"),
                "set the clock; anything with a timestamp, such as a signature, is rejected",
            ),
            _ => Finding::warn(
                format!("this machine's clock is {away} s behind the service's"),
                "set the clock; anything with a timestamp, such as a signature, is rejected",
            ),
        }
    }
}

/// Whether an answer to `/health` is that of this service.
pub(super) fn is_ours(answer: &Answer) -> bool {
    let status = |body: &[u8]| {
        serde_json::from_slice::<serde_json::Value>(body).ok()?.get("status")?.as_str().map(str::to_owned)
    };
    answer.status == 200 && status(&answer.body).as_deref() == Some("ok")
}
