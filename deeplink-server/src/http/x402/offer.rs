//! What a request costs, as stated in challenges, and the outcome of a payment, as stated in receipts.

use axum::response::{IntoResponse, Response};
use deeplink_core::error::ErrorCode;
use deeplink_core::x402::{
    CHALLENGE, ChallengeV2, EXACT, MAX_TIMEOUT_SECONDS, Network, Paid, Receipt, Requirement, RequirementV1, Resource,
    Version, to_header,
};
use http::header::WWW_AUTHENTICATE;
use http::{HeaderName, HeaderValue};
use serde::Serialize;

use crate::config::X402;
use crate::error::{ApiError, Record};
use crate::outbound::facilitator::Kinds;
use crate::state::App;

/// What an operation costs, and who settles that.
#[derive(Debug, Clone)]
pub(super) struct Offer {
    pub(super) network: Network,
    /// As version 2 asks for it. Version 1 asks for the same with other names.
    required: Requirement,
    /// What the facilitator settles; `None` until it has reported that.
    kinds: Option<Kinds>,
    resource: Resource,
}

impl Offer {
    /// For an operation at this path. `None`: it cannot be paid for.
    pub(super) fn of(app: &App, x402: &X402, kinds: Option<Kinds>, paid: &Paid, path: &str) -> Option<Self> {
        let required = Requirement {
            scheme: EXACT.to_owned(),
            network: x402.network.to_string(),
            amount: x402.price(paid)?.to_owned(),
            asset: x402.asset.clone(),
            pay_to: x402.pay_to.clone(),
            max_timeout_seconds: MAX_TIMEOUT_SECONDS,
            extra: None,
        };
        let mime_type = match path.rsplit_once('.').filter(|_| paid.route.path.ends_with("{format}")) {
            Some((_, "svg")) => "image/svg+xml",
            Some(_) => "image/png",
            None => "application/json",
        };
        let resource = Resource {
            url: format!("{}{path}", app.public_url.as_str().trim_end_matches('/')),
            description: Some(paid.route.operation.replace('_', " ")),
            mime_type: Some(mime_type.to_owned()),
        };
        Some(Self { network: x402.network.clone(), required, kinds, resource })
    }

    /// Whether there is a way to pay.
    pub(super) fn is_open(&self) -> bool {
        self.kinds.as_ref().is_some_and(|kinds| !kinds.is_empty())
    }

    /// Why there is none.
    pub(super) fn why_closed(&self) -> ApiError {
        if self.kinds.is_some() { ApiError::unauthorized() } else { unavailable() }
    }

    /// What a payment of this version must meet; `None` where the facilitator does not settle that version.
    pub(super) fn required(&self, version: Version) -> Option<Requirement> {
        let kinds = self.kinds.as_ref()?;
        let extra = match version {
            Version::V1 => kinds.v1.clone(),
            Version::V2 => kinds.v2.clone(),
        };
        extra.map(|extra| Requirement { extra, ..self.required.clone() })
    }

    /// What is required today, whatever the version.
    pub(super) fn amount(&self) -> &str {
        &self.required.amount
    }

    /// The asset it is paid with, in the form in which assets are compared.
    pub(super) fn asset(&self) -> String {
        self.network.normal(&self.required.asset)
    }

    /// The same in version 1.
    pub(super) fn required_v1(&self) -> Option<RequirementV1> {
        let required = self.required(Version::V1)?;
        Some(RequirementV1 {
            scheme: required.scheme,
            network: self.network.v1()?.to_owned(),
            max_amount_required: required.amount,
            asset: required.asset,
            pay_to: required.pay_to,
            resource: self.resource.url.clone(),
            description: self.resource.description.clone().unwrap_or_default(),
            mime_type: self.resource.mime_type.clone(),
            max_timeout_seconds: required.max_timeout_seconds,
            extra: required.extra,
        })
    }

    /// The answer that asks for a payment, in every version that can be settled.
    pub(super) fn challenge(&self, why: &str) -> Response {
        let mut response = said(ErrorCode::PaymentRequired, why);
        if let Some(record) = response.extensions_mut().get_mut::<Record>() {
            let body = record.body_mut();
            body.accepts = self.required_v1().into_iter().collect();
            body.x402_version = (!body.accepts.is_empty()).then_some(1);
        }
        let headers = response.headers_mut();
        headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        if let Some(required) = self.required(Version::V2) {
            let accepts = vec![required];
            let error = Some(why.to_owned());
            let challenge = ChallengeV2 { version: 2, error, resource: self.resource.clone(), accepts };
            headers.extend(value(&challenge).map(|value| (HeaderName::from_static(CHALLENGE), value)));
        }
        response
    }

    /// The name of the chain in a version.
    pub(super) fn network_in(&self, version: Version) -> &str {
        match version {
            Version::V1 => self.network.v1().unwrap_or(self.network.as_str()),
            Version::V2 => self.network.as_str(),
        }
    }
}

/// A refusal with its own message.
pub(super) fn said(code: ErrorCode, message: &str) -> Response {
    ApiError::Invalid(deeplink_core::error::Invalid::whole(code, message)).into_response()
}

/// The facilitator cannot be asked, or gave no usable answer, and nothing was sent to be settled.
pub(super) fn unavailable() -> ApiError {
    let message = "payments cannot be verified or settled right now; the request was not carried out and nothing was \
        charged; try again";
    ApiError::Plain(ErrorCode::FacilitatorUnavailable, message)
}

/// Adds the receipt of the payment to an answer.
pub(super) fn with_receipt(mut response: Response, version: Version, receipt: &Receipt) -> Response {
    let name = HeaderName::from_static(version.receipt_header());
    response.headers_mut().extend(value(receipt).map(|value| (name, value)));
    response
}

fn value(message: &impl Serialize) -> Option<HeaderValue> {
    to_header(message).ok().and_then(|text| HeaderValue::try_from(text).ok())
}
