//! From a touch to a conversion: what a client reports for one install, and what is stored. Install, user and
//! idempotency key are one token.

use crate::journal::{Journal, Kind};
use crate::load::Client;
use crate::oracle::Verdict;
use crate::store::Found;
use serde_json::{Value, json};

/// The outcome of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Sent {
    /// It was not sent.
    #[default]
    Not,
    /// No answer came.
    Open,
    Done,
    Refused,
}

impl Sent {
    /// Whether this many effects are possible.
    fn allows(self, effects: usize) -> bool {
        match self {
            Self::Done => effects == 1,
            Self::Open => effects <= 1,
            Self::Not | Self::Refused => effects == 0,
        }
    }
}

/// An install that was touched, bound, and whose user converted, in this order.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) token: String,
    pub(crate) touch: Sent,
    pub(crate) binding: Sent,
    pub(crate) conversion: Sent,
}

/// What is stored for one token.
#[derive(Debug, Default)]
pub(crate) struct Reported {
    pub(crate) touches: usize,
    pub(crate) bindings: usize,
    pub(crate) conversions: usize,
    /// Conversions that became events.
    pub(crate) emitted: usize,
    /// Credits for conversions.
    pub(crate) credits: usize,
}

impl Client {
    /// Reports an install of this link from its touch to its user's conversion. `false` when the server does not answer.
    pub(crate) async fn report(&mut self, link: &str) -> bool {
        let token = self.token();
        self.journal.reports.push(Report { token: token.clone(), ..Report::default() });
        let touch = json!({"link_id": link, "install_id": token, "app_version": "1.0"});
        let binding = json!({"install_id": token, "user_id": token});
        let conversion = json!({"user_id": token, "type": "purchase", "idempotency_key": token});
        self.report_step("POST", "/v1/lifecycle/attribute", &touch, |report| &mut report.touch).await
            && self.report_step("PUT", "/v1/lifecycle/identify", &binding, |report| &mut report.binding).await
            && self.report_step("POST", "/v1/lifecycle/convert", &conversion, |report| &mut report.conversion).await
    }

    async fn report_step(
        &mut self,
        method: &'static str,
        path: &str,
        body: &Value,
        sent: fn(&mut Report) -> &mut Sent,
    ) -> bool {
        let note = |journal: &mut Journal, what| *sent(journal.reports.last_mut().expect("a report")) = what;
        note(&mut self.journal, Sent::Open);
        let request = self.authorized(method, path).json(body);
        let Some(answer) = self.send(Kind::Write, &request).await else { return false };
        match answer.status {
            200 => {
                self.journal.acknowledged += 1;
                note(&mut self.journal, Sent::Done);
            }
            503 => {
                self.journal.refusals.push(answer.code());
                note(&mut self.journal, Sent::Refused);
            }
            _ => self.journal.wrong.push(format!("{request:?} was answered with {answer:?}")),
        }
        true
    }
}

/// Compares what is stored with what was reported. Returns how many of the stored tokens are this client's.
pub(crate) fn judge(journal: &Journal, found: &Found, verdict: &mut Verdict) -> usize {
    let nothing = Reported::default();
    let mut known = 0;
    for report in &journal.reports {
        let stored = found.reports.get(&report.token);
        known += usize::from(stored.is_some());
        let is = stored.unwrap_or(&nothing);
        let counts = [(report.touch, is.touches), (report.binding, is.bindings), (report.conversion, is.conversions)];
        for (sent, effects) in counts {
            if !sent.allows(effects) {
                let kind = if effects > 1 { "doubled" } else { "lost or refused" };
                verdict.fault(kind, format!("{report:?} is {is:?}"));
            }
        }
        let whole = is.touches.min(is.bindings).min(is.conversions);
        if is.credits != whole || is.emitted != is.bindings.min(is.conversions) {
            verdict.fault("torn", format!("{report:?} is {is:?}"));
        }
    }
    known
}
