//! Proving a claim on a domain: DNS is asked while nothing of ours is held, then one write settles what it means.

use std::sync::Arc;

use axum::extract::State;
use deeplink_core::domain::DomainVerification;
use deeplink_core::error::ErrorBody;
use deeplink_core::time::Timestamp;
use futures_util::FutureExt;
use http::{HeaderMap, StatusCode};

use super::domains::{alternate_limit, named, taken};
use crate::db::domain_proofs::{self, Proved};
use crate::db::domains::{self, Domain};
use crate::db::replies::Reply;
use crate::db::{Conn, DbError, link_expiry};
use crate::error::ApiError;
use crate::http::auth::{Caller, FullScope};
use crate::http::extract::Path;
use crate::http::once::{Answer, Once};
use crate::outbound::dns::{Found, Unanswered};
use crate::state::{App, Shared};
use crate::work;

/// Values that are shown, and characters of each.
const SHOWN: (usize, usize) = (20, 255);
/// For how long the reply waits until every link has lost its expiry. A very large account's go on losing it behind.
const LIFTING: std::time::Duration = std::time::Duration::from_secs(5);

/// Looks for the proof of a claim in DNS.
///
/// The TXT record `_deeplink-verify.{domain}` must hold the claim's token as one of its values. The first verified
/// primary domain lifts the expiry of the account's active links. A domain that is verified stays so, whatever this
/// look finds. DNS that cannot be asked is `verified: false` with a reason.
#[utoipa::path(
    post, path = "/v1/domains/{domain}/verify", operation_id = "verify_domain", tag = "domains", security(("secret_key" = [])),
    params(
        ("domain" = String, Path, description = "The name; upper case, a final dot and Unicode mean the same domain"),
        ("Idempotency-Key" = Option<String>, Header, description = "Repeats with the same key give the first reply", min_length = 1, max_length = 255),
    ),
    responses(
        (status = 200, description = "What DNS says, and what it means", body = DomainVerification, headers(("Idempotency-Replayed" = String))),
        (status = 400, description = "The idempotency key is none", body = ErrorBody),
        (status = 401, description = "No valid key", body = ErrorBody),
        (status = 403, description = "An affiliate's key cannot do this", body = ErrorBody),
        (status = 404, description = "There is no such domain", body = ErrorBody),
        (status = 409, description = "Verified by another account (`domain_taken`), or there is a verified alternate (`alternate_limit`)", body = ErrorBody),
        (status = 503, description = "Not applied; repeat after `Retry-After`", body = ErrorBody, headers(("Retry-After" = u64))),
    )
)]
pub(crate) async fn verify(
    State(app): State<Shared>,
    FullScope { caller, .. }: FullScope,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Result<Answer, ApiError> {
    let claim = claim_of(&app, &caller, &name).await?;
    let once = Once::read(&headers, &caller, "POST", &format!("/v1/domains/{}/verify", claim.name), b"")?;
    Ok(verify_claim(app, claim, once).await?.0)
}

/// A claim of whoever calls, if it can still be proved.
pub(crate) async fn claim_of(app: &App, caller: &Caller, name: &str) -> Result<Domain, ApiError> {
    let mut reader = app.db.read().await?;
    let claim = domains::find(&mut reader.conn(), &caller.tenant, &named(name)?).await?;
    let claim = claim.ok_or_else(ApiError::not_found)?;
    if claim.can_never_be_verified(&mut reader.conn()).await? {
        return Err(alternate_limit());
    }
    Ok(claim)
}

/// What a look into DNS saw.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Saw {
    /// The record with the token.
    Proof,
    /// No such record.
    NoProof,
    /// Nothing: DNS could not be asked.
    Nothing,
}

/// Looks for the proof of a claim, and settles what was found.
pub(crate) async fn verify_claim(app: Shared, claim: Domain, once: Once) -> Result<(Answer, Saw), ApiError> {
    let said = {
        let _place = app.lookups.take(&claim.tenant).ok_or(DbError::Overloaded)?;
        app.dns.txt(&claim.name.txt_record()).await
    };
    if let Err(error) = &said {
        tracing::info!(domain = %claim.name, %error, "a domain could not be looked up");
    }
    let (now, check_at) = (app.clock.now(), work::recheck::next_check(&app));
    let look = Arc::new(Look { claim, once, said, now, check_at });
    let saw = look.saw();
    Ok((App::to_the_end(async move { settle(app, look).await }).await?, saw))
}

/// Stores what a look means and lets everybody know.
async fn settle(app: Shared, look: Arc<Look>) -> Result<Answer, ApiError> {
    let job = Arc::clone(&look);
    let settled = app.db.write(move |tx| {
        let job = Arc::clone(&job);
        async move { job.run(tx).await }.boxed()
    });
    let settled = settled.await?;
    let tenant = look.claim.tenant.clone();
    if settled.is_new {
        app.forget_host(&look.claim.name, &tenant);
        tracing::info!(domain = %look.claim.name, tenant = %tenant, "a domain is verified");
    }
    if settled.is_lifting {
        let lifting = tokio::spawn(async move { work::link_expiry::lift(&app, &tenant).await });
        // The domain is verified whatever happens here: what is left is found in the database and done later.
        if let Ok(Ok(Err(error))) = tokio::time::timeout(LIFTING, lifting).await {
            tracing::warn!(%error, "links keep their expiry for now; it is tried again");
        }
    }
    Ok(settled.answer)
}

/// What a look into DNS gave, on its way into the database.
struct Look {
    claim: Domain,
    once: Once,
    said: Result<Found, Unanswered>,
    now: Timestamp,
    check_at: Timestamp,
}

struct Settled {
    answer: Answer,
    /// Whether the domain was not verified before.
    is_new: bool,
    /// Whether links are left whose expiry is to be lifted.
    is_lifting: bool,
}

impl Look {
    async fn run(&self, mut tx: Conn<'_>) -> Result<Settled, ApiError> {
        if let Some(reply) = self.once.claim(&mut tx, self.now).await? {
            return Ok(Settled { answer: Answer { reply, replayed: true }, is_new: false, is_lifting: false });
        }
        let (mut is_new, mut is_lifting) = (false, false);
        let reason = if self.saw() == Saw::Proof {
            match domain_proofs::prove(&mut tx, &self.claim, self.now, self.check_at).await? {
                Proved::Now { is_first_primary } => {
                    is_new = true;
                    if is_first_primary {
                        link_expiry::begin(&mut tx, &self.claim.tenant, self.now).await?;
                        is_lifting = link_expiry::lift(&mut tx, &self.claim.tenant).await?;
                    }
                    None
                }
                Proved::Before => None,
                Proved::Gone => return Err(ApiError::not_found()),
                Proved::Renewed => Some("the domain was added anew meanwhile and has another token".to_owned()),
                Proved::Taken => return Err(taken(&self.claim.name)),
                Proved::AlternateLimit => return Err(alternate_limit()),
            }
        } else {
            let current = domains::find(&mut tx, &self.claim.tenant, &self.claim.name).await?;
            let current = current.ok_or_else(ApiError::not_found)?;
            match &self.said {
                Err(_) if current.is_verified => Some(format!("{}; the domain stays verified", self.why_not())),
                _ => (!current.is_verified).then(|| self.why_not()),
            }
        };
        let body = DomainVerification {
            domain: self.claim.name.to_string(),
            verified: reason.is_none(),
            checked_at: self.now,
            txt_found: self.shown(),
            reason,
        };
        let reply = Reply {
            status: StatusCode::OK.as_u16(),
            location: None,
            body: serde_json::to_string(&body).map_err(|error| ApiError::Internal(error.to_string()))?,
        };
        self.once.keep(&mut tx, &reply).await?;
        Ok(Settled { answer: Answer { reply, replayed: false }, is_new, is_lifting })
    }

    fn saw(&self) -> Saw {
        match &self.said {
            Ok(found) if found.values.contains(&self.claim.token) => Saw::Proof,
            Ok(_) => Saw::NoProof,
            Err(_) => Saw::Nothing,
        }
    }

    fn why_not(&self) -> String {
        let record = self.claim.name.txt_record();
        match &self.said {
            Ok(found) if found.values.is_empty() => format!(
                "there is no TXT record at {record}; after a change in DNS it can take a while until everybody sees it"
            ),
            Ok(_) => format!("no TXT value at {record} is the verification token"),
            Err(error) => format!("DNS could not be asked for {record}: {error}; nothing was changed, try again"),
        }
    }

    /// The values as they can be shown: whoever runs the name servers wrote them. Those of another domain are not.
    fn shown(&self) -> Vec<String> {
        let Ok(Found { values, is_elsewhere: false }) = &self.said else { return Vec::new() };
        let clean = |value: &String| value.chars().filter(|char| !char.is_control()).take(SHOWN.1).collect();
        values.iter().take(SHOWN.0).map(clean).collect()
    }
}

impl Domain {
    /// Whether it is a second alternate, which no proof can make verified.
    async fn can_never_be_verified(&self, db: &mut Conn<'_>) -> Result<bool, DbError> {
        use deeplink_core::domain::DomainRole::Alternate;
        Ok(!self.is_verified && self.role == Alternate && domains::has_alternate(db, &self.tenant).await?)
    }
}
