//! One order at an ACME server, from the account to a certificate that can be served (RFC 8555, section 7).
//!
//! Nothing is written to the database while waiting for the network, and everything that an order needs from other
//! nodes is written before it is requested.

use std::time::Duration;

use deeplink_core::time::Timestamp;
use futures_util::FutureExt;
use instant_acme::{
    Account, AuthorizationStatus, ChallengeType, Identifier, NewAccount, NewOrder, Order, OrderStatus, RetryPolicy,
};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use url::Url;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};
use zeroize::Zeroizing;

use super::order_error::{OrderError, Unfit};
use super::transport::{RetryAfter, Transport};
use crate::certificates::{Unusable, server_config};
use crate::config::Tls;
use crate::db::DbError;
use crate::db::acme::{self, Challenge};
use crate::shares::Share;
use crate::state::App;

/// How long an authority may take to check a challenge, and again to sign.
const POLL_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a challenge is answered if it is not ended.
const CHALLENGE_MILLIS: i64 = 600_000;

/// A certificate that was issued, with its key in PEM.
pub(super) struct Issued {
    pub(super) chain: String,
    pub(super) key: Zeroizing<String>,
    pub(super) not_before: Timestamp,
    pub(super) not_after: Timestamp,
}

/// The account at the ACME server, created if there is none. The wait that the server requests in each answer, also to
/// this account's orders, is stored in `asked`.
pub(super) async fn account(app: &App, tls: &Tls, asked: &RetryAfter) -> Result<Account, OrderError> {
    let directory = tls.directory.as_str();
    let contact = tls.contact.as_ref().map(ToString::to_string);
    let mailto = contact.as_ref().map(|address| format!("mailto:{address}"));
    let contacts: Vec<&str> = mailto.as_deref().into_iter().collect();
    let transport = Transport::new(&app.config, asked.clone());
    let builder = Account::builder_with_http(Box::new(transport));
    let stored = acme::find_account(&mut app.db.read().await?.conn(), directory).await?;
    if let Some(stored) = stored {
        let plain = Zeroizing::new(app.vault.open("acme_accounts", directory, &stored.sealed)?);
        let credentials = serde_json::from_slice(&plain).map_err(|_| OrderError::Stored)?;
        let account = builder.from_credentials(credentials).await.map_err(OrderError::of_account)?;
        if stored.contact != contact {
            account.update_contacts(&contacts).await.map_err(OrderError::of_account)?;
            keep(app, acme::Account { contact, ..stored }).await?;
        }
        return Ok(account);
    }
    let terms = NewAccount { contact: &contacts, terms_of_service_agreed: true, only_return_existing: false };
    let created = builder.create(&terms, directory.to_owned(), None).await;
    let (account, credentials) = created.map_err(OrderError::of_account)?;
    let plain = Zeroizing::new(serde_json::to_vec(&credentials).map_err(|_| OrderError::Stored)?);
    let sealed = app.vault.seal("acme_accounts", directory, &plain);
    keep(app, acme::Account { directory: directory.to_owned(), contact, sealed }).await?;
    tracing::info!(directory, "ACME account created");
    Ok(account)
}

async fn keep(app: &App, account: acme::Account) -> Result<(), DbError> {
    let now = app.clock.now();
    app.db.write(Share::Service, account, move |tx, account| acme::keep_account(tx, account, now).boxed()).await
}

/// Deletes an account that the ACME server does not know: the next try creates another.
pub(super) async fn forget(app: &App, directory: &Url) -> Result<(), DbError> {
    app.db
        .write(Share::Service, directory.to_string(), |tx, directory| acme::forget_account(tx, directory).boxed())
        .await
}

/// Orders a certificate for a name, proves that the name leads here, and returns what was issued.
pub(super) async fn issue(app: &App, account: &Account, name: &str) -> Result<Issued, OrderError> {
    let policy = RetryPolicy::new().timeout(POLL_TIMEOUT);
    let identifiers = [Identifier::Dns(name.to_owned())];
    let mut order = account.new_order(&NewOrder::new(&identifiers)).await.map_err(OrderError::of_order)?;
    if let Err(error) = prove(app, &mut order, name).await {
        // An authority may check before it answers, and then its answer already says what it found.
        let found = if matches!(error, OrderError::Refused(_)) { problem(&mut order).await } else { None };
        return Err(found.map_or(error, OrderError::Unproved));
    }
    // A recently proved name is ready at once.
    if order.state().status != OrderStatus::Ready {
        match order.poll_ready(&policy).await {
            Ok(OrderStatus::Ready) => {}
            Ok(_) => return Err(OrderError::Unproved(why(&mut order).await)),
            // The reason why the order ended, not the error of polling it.
            Err(_) if order.state().error.is_some() => return Err(OrderError::Unproved(why(&mut order).await)),
            Err(error) => return Err(OrderError::of_order(error)),
        }
    }
    let key = Zeroizing::new(order.finalize().await.map_err(OrderError::of_order)?);
    let chain = match order.poll_certificate(&policy).await {
        Ok(chain) => chain,
        // Whatever the error says, the authority was checking this name.
        Err(error) if order.state().status == OrderStatus::Invalid => return Err(OrderError::Refused(error)),
        Err(error) => return Err(OrderError::of_order(error)),
    };
    let (not_before, not_after) = examine(&chain, &key, name)?;
    Ok(Issued { chain, key, not_before, not_after })
}

/// Has the authority check a response that only this service can give.
async fn prove(app: &App, order: &mut Order, name: &str) -> Result<(), OrderError> {
    let mut authorizations = order.authorizations();
    while let Some(authorization) = authorizations.next().await {
        let mut authorization = authorization.map_err(OrderError::of_order)?;
        match authorization.status {
            AuthorizationStatus::Valid => continue,
            AuthorizationStatus::Pending => {}
            other => return Err(OrderError::Unproved(format!("the authorization is {other:?}"))),
        }
        let mut challenge = authorization.challenge(ChallengeType::Http01).ok_or(OrderError::NoChallenge)?;
        let pending = Challenge {
            token: challenge.token.clone(),
            name: name.to_owned(),
            key_authorization: challenge.key_authorization().as_str().to_owned(),
            expires_at: app.clock.now().plus_millis(CHALLENGE_MILLIS),
        };
        app.db.write(Share::Service, pending, |tx, pending| acme::insert_challenge(tx, pending).boxed()).await?;
        challenge.set_ready().await.map_err(OrderError::of_order)?;
    }
    Ok(())
}

/// Why the name was not proved.
async fn why(order: &mut Order) -> String {
    problem(order).await.unwrap_or_else(|| "the ACME server gave no reason".to_owned())
}

/// The problem that the authority found, if any.
async fn problem(order: &mut Order) -> Option<String> {
    let mut authorizations = order.authorizations();
    while let Some(Ok(mut authorization)) = authorizations.next().await {
        let state = authorization.refresh().await.ok()?;
        if let Some(problem) = state.challenges.iter().find_map(|challenge| challenge.error.as_ref()) {
            return Some(problem.detail.clone().unwrap_or_else(|| problem.to_string()));
        }
    }
    None
}

/// Checks that a chain is what was ordered; returns the start and end of its validity.
fn examine(chain: &str, key: &str, name: &str) -> Result<(Timestamp, Timestamp), Unfit> {
    server_config(chain, key.as_bytes(), None)?;
    let first = CertificateDer::pem_slice_iter(chain.as_bytes()).next().ok_or(Unfit::Empty)?;
    let first = first.map_err(Unusable::from)?;
    let (_, certificate) = X509Certificate::from_der(&first).map_err(|_| Unfit::Unreadable)?;
    let names = certificate.subject_alternative_name().map_err(|_| Unfit::Unreadable)?;
    let is_ours =
        |general: &GeneralName<'_>| matches!(general, GeneralName::DNSName(dns) if dns.eq_ignore_ascii_case(name));
    if !names.is_some_and(|names| names.value.general_names.iter().any(is_ours)) {
        return Err(Unfit::OtherName);
    }
    let validity = certificate.validity();
    let moment = |seconds: i64| Timestamp::from_millis(seconds.saturating_mul(1_000));
    let (not_before, not_after) = (moment(validity.not_before.timestamp()), moment(validity.not_after.timestamp()));
    if not_before < not_after { Ok((not_before, not_after)) } else { Err(Unfit::NoTime) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made_for(name: &str) -> (String, String) {
        let made = rcgen::generate_simple_self_signed([name.to_owned()]).expect("a certificate");
        (made.cert.pem(), made.signing_key.serialize_pem())
    }

    #[test]
    fn only_the_certificate_that_was_ordered_is_taken() {
        let (chain, key) = made_for("go.example.com");
        let (from, until) = examine(&chain, &key, "go.example.com").expect("it fits");
        assert!(from < until);
        assert!(matches!(examine(&chain, &key, "other.example.com"), Err(Unfit::OtherName)));
        let (_, foreign) = made_for("go.example.com");
        assert!(matches!(examine(&chain, &foreign, "go.example.com"), Err(Unfit::Unusable(Unusable::Tls(_)))));
        for broken in ["", "not PEM", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
            assert!(examine(broken, &key, "go.example.com").is_err(), "{broken:?}");
        }
        assert!(examine(&chain, "", "go.example.com").is_err());
    }
}
