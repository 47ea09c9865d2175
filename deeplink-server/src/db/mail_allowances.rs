//! Limits on mails per address and per domain, and on invitations per team, so that no mailbox is flooded. All are
//! counted in the hour that begins with the first mail.
//!
//! A caller learns nothing about an address from them: every sign-in runs the same statements.

use deeplink_core::id::TenantId;
use deeplink_core::time::Timestamp;
use deeplink_core::user::Email;
use sqlx::FromRow;
use url::Host;

use super::{Conn, DbError, on, users};

const HOUR_MILLIS: i64 = 3_600_000;
/// Mails of one kind to an address per hour.
const MAX_TO_ADDRESS: i64 = 5;
/// Sign-in links reserved per hour for an address with an account.
const MAX_KEPT: i64 = 1;
/// Mails of all kinds per hour to a domain in which no account has proved an address.
const MAX_TO_DOMAIN: i64 = 200;
/// Mails about the deletion of an account per hour.
const MAX_OF_DELETION: i64 = 20;
/// Invitations of a team per hour.
const MAX_OF_TEAM: i64 = 50;

/// A kind of mail to an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A link that confirms a sign-up.
    Signup,
    /// An invitation.
    Invite,
}

impl Purpose {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Signup => "signup",
            Self::Invite => "invite",
        }
    }
}

/// Whether a mail may be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Allowed {
    Now,
    /// Not before this time.
    From(Timestamp),
}

/// The outcome for a sign-in link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SignInMail {
    /// It is sent.
    Sent,
    /// It is stored as if it were sent, but not sent: an address with an account would have been sent it.
    Void,
    /// It is not sent.
    Refused,
}

/// Counts a mail to an address and to its domain.
pub(crate) async fn take(db: &mut Conn<'_>, purpose: Purpose, to: &Email, now: Timestamp) -> Result<Allowed, DbError> {
    let counted = Mails { purpose: purpose.as_str(), to: &mailbox(to), number: 1, network: "", now }.count(db).await?;
    let is_somebodys = users::proved(db, to).await?.domain;
    of_domain(db, to, counted.judged(MAX_TO_ADDRESS), is_somebodys, now).await
}

/// Counts an invitation of a team.
pub(crate) async fn take_of_team(db: &mut Conn<'_>, team: &TenantId, now: Timestamp) -> Result<Allowed, DbError> {
    let mails = Mails { purpose: "team", to: team.as_str(), number: 1, network: "", now };
    Ok(mails.count(db).await?.judged(MAX_OF_TEAM))
}

/// Counts a mail about the deletion of an account.
pub(crate) async fn take_of_deletion(db: &mut Conn<'_>, of: &TenantId, now: Timestamp) -> Result<Allowed, DbError> {
    let mails = Mails { purpose: "deletion", to: of.as_str(), number: 1, network: "", now };
    Ok(mails.count(db).await?.judged(MAX_OF_DELETION))
}

/// Counts a sign-in link requested from a network. An address with an account gets one more than five per hour if it is
/// requested from a network that requested none of the five: someone else used those up. The five are shared by an
/// address with and without a tag; the reserved one belongs to the exact address, so requests for other tags cannot use
/// it up. `network` is a keyed hash of one length, behind a space.
pub(crate) async fn take_sign_in(
    db: &mut Conn<'_>,
    to: &Email,
    network: &str,
    now: Timestamp,
) -> Result<SignInMail, DbError> {
    let counted = Mails { purpose: "signin", to: &mailbox(to), number: 1, network, now }.count(db).await?;
    let proved = users::proved(db, to).await?;
    let of_address = counted.judged(MAX_TO_ADDRESS);
    if of_domain(db, to, of_address, proved.domain, now).await? == Allowed::Now {
        return Ok(SignInMail::Sent);
    }
    if of_address == Allowed::Now || counted.networks.contains(network) {
        return Ok(SignInMail::Refused);
    }
    let kept = Mails { purpose: "kept", to: to.as_str(), number: 1, network: "", now }.count(db).await?;
    Ok(match kept.judged(MAX_KEPT) {
        Allowed::From(_) => SignInMail::Refused,
        Allowed::Now if proved.address => SignInMail::Sent,
        Allowed::Now => SignInMail::Void,
    })
}

/// Counts an allowed mail to a domain. A refused one is not counted, but costs the same.
async fn of_domain(
    db: &mut Conn<'_>,
    to: &Email,
    of_address: Allowed,
    is_somebodys: bool,
    now: Timestamp,
) -> Result<Allowed, DbError> {
    let number = i64::from(of_address == Allowed::Now);
    let mails = Mails { purpose: "domain", to: &ascii_domain(to), number, network: "", now };
    let of_domain = mails.count(db).await?.judged(MAX_TO_DOMAIN);
    Ok(if of_address == Allowed::Now && !is_somebodys { of_domain } else { of_address })
}

/// The address without its tag, and its domain in ASCII: `a+b@c` becomes `a@c`.
fn mailbox(to: &Email) -> String {
    let name = to.as_str().strip_suffix(to.domain()).and_then(|name| name.strip_suffix('@')).unwrap_or_default();
    let untagged = name.split_once('+').map(|(untagged, _)| untagged).filter(|untagged| !untagged.is_empty());
    format!("{}@{}", untagged.unwrap_or(name), ascii_domain(to))
}

/// The domain as name servers know it (UTS 46), so that its Unicode spellings are one.
fn ascii_domain(to: &Email) -> String {
    match Host::parse(to.domain()) {
        Ok(Host::Domain(name)) => name,
        _ => to.domain().to_owned(),
    }
}

/// Mails to count.
struct Mails<'a> {
    purpose: &'static str,
    /// An address, a domain or a team.
    to: &'a str,
    number: i64,
    /// The network that requested them, as a keyed hash behind a space; empty where it does not matter.
    network: &'a str,
    now: Timestamp,
}

/// The counts of the hour.
#[derive(FromRow)]
struct Counted {
    sent: i64,
    since: i64,
    networks: String,
}

impl Mails<'_> {
    /// Counts them. Refused ones count as well, so that a refusal takes as long as a success. The row is locked until the
    /// write ends.
    async fn count(&self, db: &mut Conn<'_>) -> Result<Counted, DbError> {
        const SQL: &str = "
            INSERT INTO mail_allowances (purpose, address, since, sent, networks) VALUES ($1, $2, $3, $4, $5)
            ON CONFLICT (purpose, address) DO UPDATE SET
                since = CASE WHEN mail_allowances.since <= $6 THEN $3 ELSE mail_allowances.since END,
                sent = CASE WHEN mail_allowances.since <= $6 THEN $4 ELSE mail_allowances.sent + $4 END,
                networks = CASE WHEN mail_allowances.since <= $6 THEN $5
                    WHEN mail_allowances.sent < $7 THEN mail_allowances.networks || $5
                    ELSE mail_allowances.networks END
            RETURNING sent, since, networks";
        let hour_ago = self.now.plus_millis(-HOUR_MILLIS).as_millis();
        Ok(on!(db, c => sqlx::query_as(SQL)
            .bind(self.purpose).bind(self.to).bind(self.now.as_millis()).bind(self.number).bind(self.network)
            .bind(hour_ago).bind(MAX_TO_ADDRESS).fetch_one(c).await)?)
    }
}

impl Counted {
    fn judged(&self, limit: i64) -> Allowed {
        if self.sent <= limit { Allowed::Now } else { Allowed::From(Timestamp::from_millis(self.since + HOUR_MILLIS)) }
    }
}

/// Deletes some expired rows; see [`super::expired`].
pub(crate) const EXPIRED: &str = "
    DELETE FROM mail_allowances WHERE since <= $1 - 3600000 AND (purpose, address) IN
        (SELECT purpose, address FROM mail_allowances WHERE since <= $1 - 3600000 LIMIT $2)";
