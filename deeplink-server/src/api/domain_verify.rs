//! Proving a claim on a domain: DNS is queried without holding locks or connections, then one write stores the result.

use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::extract::State;
use deeplink_core::audit::AuditAction;
use deeplink_core::domain::DomainVerification;
use deeplink_core::error::ErrorBody;
use deeplink_core::time::Timestamp;
use http::HeaderMap;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tracing::Instrument;

use super::domains::{alternate_limit, named, taken};
use crate::caller::Caller;
use crate::db::audit::NewEntry;
use crate::db::domain_proofs::{self, Proved};
use crate::db::domains::{self, Domain};
use crate::db::{Conn, DbError, link_expiry};
use crate::error::ApiError;
use crate::http::auth::FullScope;
use crate::http::documented::{FullKey, IdempotencyKey, NotFound};
use crate::http::extract::Path;
use crate::http::once::{Answer, Once, Outcome, Work, done};
use crate::outbound::dns::{TxtRecords, Unanswered};
use crate::state::{App, Shared};
use crate::work;

/// Maximum number of values shown, and characters of each.
const SHOWN: (usize, usize) = (20, 255);
/// How long the reply waits until every link has lost its expiry. For a very large account that continues in the
/// background.
const LIFTING: std::time::Duration = std::time::Duration::from_secs(5);

/// Verifies a domain by checking its DNS record.
///
/// The TXT record `_deeplink-verify.{domain}` must contain the domain's verification token as one of its
/// values. The first verified primary domain removes the expiry from the account's active links. A verified
/// domain remains verified, whatever this lookup finds. If the DNS lookup fails, the response is `verified:
/// false` with a reason. On a service whose public URL is a loopback address, a name under `.localhost` needs
/// no record.
#[utoipa::path(
    post, path = "/v1/domains/{domain}/verify", operation_id = "verify_domain", tag = "domains", security(("secret_key" = [])),
    params(
        ("domain" = String, Path, description = "The domain name, case-insensitive; a trailing dot is ignored, and a Unicode name is equivalent to its A-label form", example = "go.example.com"),
        IdempotencyKey,
    ),
    responses(
        (status = 200, description = "The result of the DNS lookup", body = DomainVerification, headers(("Idempotency-Replayed" = String))),
        FullKey, NotFound,
        (status = 400, description = "`Idempotency-Key` is malformed", body = ErrorBody),
        (status = 409, description = "Verified by another account (`domain_taken`), or the account already has a verified alternate domain (`alternate_limit`)", body = ErrorBody),
    )
)]
pub(crate) async fn verify(
    State(app): State<Shared>,
    FullScope { caller, .. }: FullScope,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Result<Answer<DomainVerification>, ApiError> {
    caller.form_is_valid()?;
    let claim = claim_of(&app, &caller, &name).await?;
    let once = Once::read(&headers, &caller, &format!("/v1/domains/{}/verify", claim.name), b"")?;
    Ok(verify_claim(&app, &caller, claim, once).await?.0)
}

/// One of the caller's claims, if it can still be proved.
pub(crate) async fn claim_of(app: &App, caller: &Caller, name: &str) -> Result<Domain, ApiError> {
    let mut reader = app.db.read().await?;
    let claim = domains::find(&mut reader.conn(), &caller.tenant, &named(name)?).await?;
    let claim = claim.ok_or_else(ApiError::not_found)?;
    if claim.can_never_be_verified(&mut reader.conn()).await? {
        return Err(alternate_limit());
    }
    Ok(claim)
}

/// The result of a DNS lookup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Saw {
    /// The record with the token, or a name that needs none.
    Proof,
    /// No such record.
    NoProof,
    /// DNS could not be queried.
    Nothing,
}

/// Looks up the proof of a claim, and stores the result.
pub(crate) async fn verify_claim(
    app: &Shared,
    caller: &Caller,
    claim: Domain,
    once: Once,
) -> Result<(Answer<DomainVerification>, Saw), ApiError> {
    let said = if app.needs_no_proof(&claim.name) {
        None
    } else {
        let _permit = app.dns_permit((&claim.tenant).into()).await?;
        Some(app.dns.txt(&claim.name.txt_record()).await)
    };
    if let Some(Err(error)) = &said {
        tracing::info!(domain = %claim.name, %error, "DNS lookup failed");
    }
    let (proving, lifted) = Proving::new(app);
    let entry = app.audited(caller, AuditAction::DomainVerified).of(&claim.name, None);
    let look = Look { claim, said, proving, entry };
    let saw = look.saw();
    let answer = app.once(once, look).await?;
    lifted.wait().await;
    Ok((answer, saw))
}

/// Verifies a proved claim in a write, and does what follows.
pub(super) struct Proving {
    pub(super) now: Timestamp,
    check_at: Timestamp,
    /// Whether the domain was not verified before.
    is_new: AtomicBool,
    /// Whether links are left that must lose their expiry.
    is_lifting: AtomicBool,
    /// Held until the expiry of links is lifted. Nothing is sent.
    lifting: mpsc::Sender<Infallible>,
}

/// Waits until the expiry of links is lifted.
pub(super) struct Lifted(mpsc::Receiver<Infallible>);

impl Lifted {
    /// Ends when the last sender is dropped, or after a while: the domain is verified in any case, and the rest is found in
    /// the database and done later.
    pub(super) async fn wait(mut self) {
        drop(timeout(LIFTING, self.0.recv()).await);
    }
}

impl Proving {
    pub(super) fn new(app: &App) -> (Self, Lifted) {
        let (now, check_at) = (app.clock.now(), work::recheck::next_check(app));
        let (lifting, lifted) = mpsc::channel(1);
        let (is_new, is_lifting) = (AtomicBool::default(), AtomicBool::default());
        (Self { now, check_at, is_new, is_lifting, lifting }, Lifted(lifted))
    }

    /// Verifies the claim; a text says why it is not.
    pub(super) async fn run(&self, tx: &mut Conn<'_>, claim: &Domain) -> Result<Option<String>, ApiError> {
        // An attempt before this one may have been rolled back.
        self.is_new.store(false, Ordering::Relaxed);
        match domain_proofs::prove(tx, claim, self.now, self.check_at).await? {
            Proved::Now { is_first_primary } => {
                let mut is_lifting = false;
                if is_first_primary {
                    link_expiry::begin(tx, &claim.tenant, self.now).await?;
                    is_lifting = link_expiry::lift(tx, &claim.tenant).await?;
                }
                self.is_new.store(true, Ordering::Relaxed);
                self.is_lifting.store(is_lifting, Ordering::Relaxed);
                Ok(None)
            }
            Proved::Before => Ok(None),
            Proved::Gone => Err(ApiError::not_found()),
            Proved::Renewed => {
                Ok(Some("the domain was added again in the meantime and now has a different token".to_owned()))
            }
            Proved::Taken => Err(taken(&claim.name)),
            Proved::AlternateLimit => Err(alternate_limit()),
        }
    }

    /// Makes caches forget the host, and lifts the expiry of the links that are left.
    pub(super) fn committed(&self, app: &Shared, claim: &Domain) {
        if !self.is_new.load(Ordering::Relaxed) {
            return;
        }
        let tenant = claim.tenant.clone();
        app.forget_host(&claim.name, &tenant);
        tracing::info!(domain = %claim.name, tenant = %tenant, "domain verified");
        if !self.is_lifting.load(Ordering::Relaxed) {
            return;
        }
        let (app, lifting) = (Shared::clone(app), self.lifting.clone());
        let lift = async move {
            let _lifting = lifting;
            if let Err(error) = work::link_expiry::lift(&app, &tenant).await {
                tracing::warn!(%error, "link expiry could not be removed; will retry");
            }
        };
        tokio::spawn(lift.in_current_span());
    }
}

/// Stores the result of a DNS lookup.
struct Look {
    claim: Domain,
    /// What DNS says; `None` for a name that needs no proof.
    said: Option<Result<TxtRecords, Unanswered>>,
    proving: Proving,
    entry: NewEntry,
}

impl Work for Look {
    type Made = DomainVerification;

    async fn run(&self, tx: &mut Conn<'_>) -> Result<Outcome<DomainVerification>, ApiError> {
        let reason = if self.saw() == Saw::Proof {
            let reason = self.proving.run(tx, &self.claim).await?;
            if self.proving.is_new.load(Ordering::Relaxed) {
                self.entry.store(tx).await?;
            }
            reason
        } else {
            let current = domains::find(tx, &self.claim.tenant, &self.claim.name).await?;
            let current = current.ok_or_else(ApiError::not_found)?;
            match &self.said {
                Some(Err(_)) if current.is_verified => Some(format!("{}; the domain stays verified", self.why_not())),
                _ => (!current.is_verified).then(|| self.why_not()),
            }
        };
        done(DomainVerification {
            domain: self.claim.name.to_string(),
            verified: reason.is_none(),
            checked_at: self.proving.now,
            txt_found: self.shown(),
            reason,
        })
    }

    fn committed(&self, app: &Shared, _: &DomainVerification) {
        self.proving.committed(app, &self.claim);
    }
}

impl Look {
    fn saw(&self) -> Saw {
        match &self.said {
            None => Saw::Proof,
            Some(Ok(found)) if found.values.contains(&self.claim.token) => Saw::Proof,
            Some(Ok(_)) => Saw::NoProof,
            Some(Err(_)) => Saw::Nothing,
        }
    }

    fn why_not(&self) -> String {
        let record = self.claim.name.txt_record();
        match &self.said {
            Some(Ok(found)) if found.values.is_empty() => {
                format!("there is no TXT record at {record}; DNS changes can take a while to propagate")
            }
            Some(Err(error)) => format!("DNS lookup failed for {record}: {error}; nothing was changed; try again"),
            _ => format!("no TXT value at {record} is the verification token"),
        }
    }

    /// The values, shortened for display: the name servers' operator wrote them. Those of another domain are not shown.
    fn shown(&self) -> Vec<String> {
        let Some(Ok(TxtRecords { values, is_elsewhere: false })) = &self.said else { return Vec::new() };
        let clean = |value: &String| value.chars().filter(|char| !char.is_control()).take(SHOWN.1).collect();
        values.iter().take(SHOWN.0).map(clean).collect()
    }
}

impl Domain {
    /// Whether it is a second alternate, which cannot be verified.
    async fn can_never_be_verified(&self, db: &mut Conn<'_>) -> Result<bool, DbError> {
        use deeplink_core::domain::DomainRole::Alternate;
        Ok(!self.is_verified && self.role == Alternate && domains::has_alternate(db, &self.tenant).await?)
    }
}
