//! Paying for one request, by x402: a request without a key gets a challenge; one with a payment is tried, paid for and
//! done, in this order. A request with `Authorization` does not come here.
//!
//! Nothing is charged for a request that would be refused: it runs in full once before it is paid for, and is rolled
//! back. A payment's row is stored before it is settled, and becomes `done` in the transaction of what it was for, so
//! that neither a crash nor a repeat charges or acts twice. Repeats are in `repeat`.

mod charge;
mod offer;
mod repeat;
mod settle;

use std::net::IpAddr;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use bytes::{Bytes, BytesMut};
use deeplink_core::error::ErrorCode;
use deeplink_core::id::TenantId;
use deeplink_core::secret::sha256_hex;
use deeplink_core::x402::{
    Authorization, PAYMENT_V1, PAYMENT_V2, Paid, Payment, PaymentMessageV2, Requirement, Unfit, Version, paid,
};
use futures_util::FutureExt;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, header};
use http_body_util::BodyExt;
use serde_json::json;
use sha2::{Digest, Sha256};
use tracing::Instrument;

use self::offer::{Offer, said, unavailable};
use super::anonymous::{Anonymous, BodyShare};
use super::auth::Wallet as WalletCaller;
use super::client_ip::{Peer, check_limit};
use super::extract::{BODY_LIMIT, BULK_BODY_LIMIT};
use super::once::key_of;
use crate::caller::{Actor, Caller, Charge, ChargeRun};
use crate::db::payments::{self, StoredPayment};
use crate::db::wallets::{self, Wallet};
use crate::db::{DbError, suspensions};
use crate::error::{ApiError, Record, Stop};
use crate::outbound::facilitator::{Facilitator, Verified};
use crate::state::{App, Shared};

pub(crate) use settle::settle_again;

/// How often a request is run if another one of the same new wallet comes first.
const TRIES: usize = 3;

/// The request is answered, and nothing more is done.
struct Answered(Box<Response>);

impl<E: IntoAnswer> From<E> for Answered {
    fn from(answer: E) -> Self {
        Self(Box::new(answer.into_answer()))
    }
}

/// What can end a request early.
trait IntoAnswer {
    fn into_answer(self) -> Response;
}

impl IntoAnswer for Response {
    fn into_answer(self) -> Response {
        self
    }
}

impl IntoAnswer for ApiError {
    fn into_answer(self) -> Response {
        self.into_response()
    }
}

impl IntoAnswer for DbError {
    fn into_answer(self) -> Response {
        ApiError::from(self).into_response()
    }
}

/// Takes payments for the operations that can be paid for, from callers without a key.
pub(crate) async fn pay(State(app): State<Shared>, request: Request, next: Next) -> Response {
    let Some(paid) = unkeyed(&request).filter(|_| app.facilitator.is_some()) else { return next.run(request).await };
    let path = request.uri().path().to_owned();
    let Some(offer) = offered(&app, paid, &path) else { return next.run(request).await };
    // The payment may be a repeat from when there was a way to pay.
    if !offer.is_open() && ![PAYMENT_V1, PAYMENT_V2].iter().any(|name| request.headers().contains_key(*name)) {
        return next.run(request).await;
    }
    // On the heap: few requests pay, and every request holds the size of this function.
    let answered = async {
        let checkout = Checkout::begin(app, paid, offer, request, next).await?;
        checkout.run().await
    };
    answered.boxed().await.unwrap_or_else(|Answered(response)| *response)
}

/// The operation of a request without a key, if it can be paid for.
fn unkeyed(request: &Request) -> Option<&'static Paid> {
    let method = if request.method() == Method::HEAD { &Method::GET } else { request.method() };
    let paid = paid(method.as_str(), request.extensions().get::<MatchedPath>()?.as_str())?;
    (!request.headers().contains_key(header::AUTHORIZATION)).then_some(paid)
}

/// What an operation costs. `None`: it takes keys only.
fn offered(app: &App, paid: &Paid, path: &str) -> Option<Offer> {
    let (x402, facilitator) = app.config.x402.as_ref().zip(app.facilitator.as_ref())?;
    Offer::of(app, x402, facilitator.kinds(), paid, path)
}

/// What is known of a request before it is paid for.
struct Judged {
    payer: String,
    /// The answer to a read.
    tried: Option<Response>,
    is_new_wallet: bool,
    /// How many payments had been used under its key before it was tried.
    used: i64,
}

/// A request with a payment that fits it.
struct Checkout {
    app: Shared,
    paid: &'static Paid,
    offer: Offer,
    version: Version,
    /// The payment's content, if it can be read.
    authorization: Option<Authorization>,
    /// The request to the facilitator, as JSON; `None` for a repeated payment, whose row has it.
    message: Option<String>,
    /// The id of the payment's row.
    id: String,
    nonce: String,
    parts: Parts,
    body: Bytes,
    /// The hash of method, path and body.
    request: String,
    key: Option<String>,
    peer: IpAddr,
    next: Next,
}

impl Checkout {
    /// Reads the payment and the request. The payment is not verified yet.
    async fn begin(
        app: Shared,
        paid: &'static Paid,
        offer: Offer,
        request: Request,
        next: Next,
    ) -> Result<Self, Answered> {
        let Some((version, header)) = header_of(request.headers())? else {
            return Err(offer
                .challenge("send a secret key in the Authorization header: Bearer KEY, or a payment")
                .into());
        };
        let peer = request.extensions().get::<Peer>().map_or(IpAddr::from([0, 0, 0, 0]), |Peer(peer)| *peer);
        check_limit(&app, (&app.limits.payments, "too many payments from this IP address"), peer, request.headers())?;
        let payment = Payment::read(version, header.as_bytes())
            .map_err(|why| said(ErrorCode::PaymentInvalid, &format!("the payment header {why}")))?;
        let authorization = Authorization::of(&offer.network, payment.payload());
        let authorization = authorization.map_err(|unfit| said(ErrorCode::PaymentInvalid, &unfit.to_string()))?;
        let (nonce, from) = match &authorization {
            Some(it) => (it.nonce.clone(), it.from.as_str()),
            None => (sha256_hex(&payment.payload().to_string()), ""),
        };
        let id = sha256_hex(&format!("{}\n{}\n{from}\n{nonce}", offer.network, offer.asset()));
        // A repeated payment met the requirements of its time.
        let is_new = payments::find(&mut app.db.read().await?.conn(), &id).await?.is_none();
        let message = if is_new {
            if !offer.is_open() {
                return Err(offer.why_closed().into());
            }
            let required = fitting(&app, &offer, &payment, authorization.as_ref());
            let required = required.map_err(|unfit| offer.challenge(&unfit.to_string()))?;
            Some(message(&offer, payment, &required))
        } else {
            None
        };
        let key = key_of(request.headers())?.map(str::to_owned);
        let (mut parts, body) = request.into_parts();
        let share = BodyShare::of(&parts.extensions);
        // The body counts once, not in each run.
        parts.extensions.remove::<Anonymous>();
        let limit = if paid.name == "LINKS_BULK" { BULK_BODY_LIMIT } else { BODY_LIMIT };
        let body = buffered(body, limit, share).await?;
        let target = parts.uri.path_and_query().map_or("", |target| target.as_str());
        let request = format!("{}\n{target}\n{}", parts.method, hex::encode(Sha256::digest(&body)));
        let request = sha256_hex(&request);
        Ok(Self { app, paid, offer, version, authorization, message, id, nonce, parts, body, request, key, peer, next })
    }

    /// Checks the request, then charges for it or answers a repeat.
    async fn run(self) -> Result<Response, Answered> {
        self.check_form().await?;
        let stored = self.stored().await?;
        let judged = match stored {
            Some(stored) => Err(stored),
            None => match self.judge().await {
                Ok(judged) => Ok(judged),
                // Another request with the same payment may have come first, and its effect may be why this one is
                // refused.
                Err(refusal) => Err(self.stored().await?.ok_or(refusal)?),
            },
        };
        // From here on it runs to completion, even if the client hangs up or the service is asked to stop.
        let under_way = self.app.payments.clone();
        let going_on = async move {
            match judged {
                Ok(judged) => self.charge(judged).await,
                Err(stored) => self.repeat(stored).await,
            }
        };
        let going_on = under_way.spawn(going_on.in_current_span());
        going_on.await.unwrap_or_else(|_| Err(ApiError::Internal("a paid request panicked".into()).into()))
    }

    /// Finds out who pays and whether the request would be refused.
    async fn judge(&self) -> Result<Judged, Answered> {
        let payer = self.verify().await?;
        let used = match self.key_scope(&payer) {
            Some(scope) => payments::count_used(&mut self.app.db.read().await?.conn(), &scope).await?,
            None => 0,
        };
        let (tried, is_new_wallet) = self.try_out(&payer).await?;
        Ok(Judged { payer, tried, is_new_wallet, used })
    }

    /// Runs the request up to where it needs an account.
    async fn check_form(&self) -> Result<(), Answered> {
        let response = self.attempt("", &self.new_tenant(), ChargeRun::Form).await;
        let code = response.extensions().get::<Record>().map(|record| record.body().code.clone());
        // Whether something exists, or a cursor is the caller's, is only known once the account is.
        let is_open = matches!(code, Some(ErrorCode::NotFound | ErrorCode::InvalidCursor));
        if stop_of(&response).is_some() || is_open || response.status().as_u16() < 400 {
            return Ok(());
        }
        Err(response.into())
    }

    /// Asks the facilitator who pays.
    async fn verify(&self) -> Result<String, Answered> {
        // Without a message there was a row that has since been deleted: it was never sent to be settled.
        let message = self.message.as_ref().ok_or_else(unavailable)?;
        let verified = self.facilitator()?.verify(message).await;
        let from = self.authorization.as_ref().map(|it| it.from.clone());
        match verified {
            Err(unclear) => {
                tracing::warn!(%unclear, "payment could not be verified: no usable response from the facilitator");
                Err(unavailable().into())
            }
            Ok(Verified::Invalid(reason)) => Err(self.offer.challenge(&reason).into()),
            Ok(Verified::Valid(payer)) => match (from, payer) {
                (Some(from), Some(payer)) if !self.offer.network.same(&from, &payer) => {
                    self.app.metrics.payer_mismatch();
                    tracing::error!(signed = %from, said = %payer, "the facilitator reported a payer who did not sign the payment");
                    Err(self.offer.challenge("the facilitator reports a different payer").into())
                }
                (Some(from), _) => Ok(from),
                (None, Some(payer)) if self.offer.network.is_address(&payer) => Ok(self.offer.network.normal(&payer)),
                (None, _) => Err(unavailable().into()),
            },
        }
    }

    /// Runs the request in full and rolls back its writes. Returns the answer to a read, which is sent once it is paid
    /// for, and whether the wallet has no account yet. A request that is refused here, or was done before under the
    /// same key, costs nothing.
    async fn try_out(&self, payer: &str) -> Result<(Option<Response>, bool), Answered> {
        for _ in 0..TRIES {
            let known = self.tenant_of(payer).await?;
            let tenant = known.clone().unwrap_or_else(|| self.new_tenant());
            let response = self.attempt(payer, &tenant, ChargeRun::Trial).await;
            let tried = match stop_of(&response) {
                Some(Stop::OtherTenant) => continue,
                Some(_) => None,
                None if response.status().is_success() && self.paid.is_read() => Some(response),
                None => return Err(response.into()),
            };
            return Ok((tried, known.is_none()));
        }
        Err(DbError::Overloaded.into())
    }

    /// Runs the request once.
    async fn attempt(&self, payer: &str, tenant: &TenantId, run: ChargeRun) -> Response {
        // A request that is already paid for is done in any case.
        let is_suspended = match run {
            ChargeRun::Trial => match self.is_suspended(tenant).await {
                Ok(is_suspended) => is_suspended,
                Err(error) => return error.into_answer(),
            },
            ChargeRun::Form | ChargeRun::Paid(_) => false,
        };
        let namespace = self.offer.network.namespace().to_owned();
        let charge = Charge { namespace, address: payer.to_owned(), tenant: tenant.clone(), run };
        let by = Actor::Wallet(Arc::new(charge));
        let caller = Caller { by, tenant: tenant.clone(), affiliate: None, is_suspended };
        let mut parts = self.parts.clone();
        parts.extensions.insert(WalletCaller(Arc::new(caller)));
        self.next.clone().run(Request::from_parts(parts, Body::from(self.body.clone()))).await
    }

    async fn is_suspended(&self, tenant: &TenantId) -> Result<bool, DbError> {
        suspensions::is_suspended(&mut self.app.db.read().await?.conn(), tenant).await
    }

    async fn tenant_of(&self, payer: &str) -> Result<Option<TenantId>, DbError> {
        let wallet = Wallet { namespace: self.offer.network.namespace(), address: payer };
        wallets::tenant_of(&mut self.app.db.read().await?.conn(), wallet).await
    }

    /// The id for an account that does not exist yet.
    fn new_tenant(&self) -> TenantId {
        let now = self.app.clock.now();
        self.app.random(|random| TenantId::new(now, random))
    }

    /// The hash of its key, for this payment only.
    fn key_hash(&self) -> Option<String> {
        self.key.as_ref().map(|key| sha256_hex(&format!("{}\n{key}", self.id)))
    }

    /// Whether its answer may be given to anyone who knows the request.
    fn is_open(&self) -> bool {
        !self.paid.is_read() && !self.paid.shows_secret
    }

    async fn stored(&self) -> Result<Option<StoredPayment>, DbError> {
        payments::find(&mut self.app.db.read().await?.conn(), &self.id).await
    }

    fn facilitator(&self) -> Result<&Facilitator, ApiError> {
        self.app.facilitator.as_ref().ok_or_else(ApiError::unauthorized)
    }
}

/// Where a run stopped, if it was stopped on purpose.
fn stop_of(response: &Response) -> Option<Stop> {
    response.extensions().get::<Stop>().copied()
}

/// The one payment header of a request.
fn header_of(headers: &HeaderMap) -> Result<Option<(Version, HeaderValue)>, Answered> {
    let of = |name, version| headers.get_all(name).iter().map(move |value: &HeaderValue| (version, value.clone()));
    let mut found = of(PAYMENT_V1, Version::V1).chain(of(PAYMENT_V2, Version::V2));
    let first = found.next();
    if found.next().is_some() {
        return Err(said(ErrorCode::PaymentInvalid, "send one payment header").into());
    }
    Ok(first)
}

/// The current requirement that a payment meets.
fn fitting(
    app: &App,
    offer: &Offer,
    payment: &Payment,
    authorization: Option<&Authorization>,
) -> Result<Requirement, Unfit> {
    let required = offer.required(payment.version()).filter(|required| payment.meets(&offer.network, required));
    let required = required.ok_or(Unfit::Requirement)?;
    if let Some(it) = authorization {
        it.pays(&offer.network, &required, payment.version())?;
        it.is_timely(app.clock.now())?;
    }
    Ok(required)
}

/// The request to the facilitator: the payment, and the requirement as we make it.
fn message(offer: &Offer, payment: Payment, required: &Requirement) -> String {
    let version = payment.version().number();
    let message = match payment {
        Payment::V1(payment) => json!({
            "x402Version": version, "paymentPayload": payment, "paymentRequirements": offer.required_v1(),
        }),
        Payment::V2(payment) => {
            let payment = PaymentMessageV2 { accepted: required.clone(), ..*payment };
            json!({"x402Version": version, "paymentPayload": payment, "paymentRequirements": required})
        }
    };
    message.to_string()
}

/// Reads a body up to one byte more than the operation takes: the operation refuses one that is longer.
async fn buffered(body: Body, limit: usize, mut share: BodyShare) -> Result<Bytes, Answered> {
    let mut body = std::pin::pin!(body);
    let mut read = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| ApiError::bad_request("the body was truncated"))?;
        if let Ok(data) = frame.into_data() {
            let data = &data[..data.len().min(limit + 1 - read.len())];
            share.take(data.len())?;
            read.extend_from_slice(data);
            if read.len() > limit {
                break;
            }
        }
    }
    Ok(share.hold(read))
}
