//! A challenge as the payer reads it, in either version.

use serde_json::Value;

use super::{
    ChallengeV2, PAYMENT_V1, PAYMENT_V2, Payment, PaymentMessageV1, PaymentMessageV2, Requirement, RequirementV1,
    Resource, Version, from_header, to_header,
};

/// What a request costs, and the ways to pay for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Challenge {
    /// The version of the challenge and of the payment.
    pub version: Version,
    /// What is paid for.
    pub resource: Option<Resource>,
    /// The ways to pay for it. One is enough.
    pub accepts: Vec<Requirement>,
}

impl Challenge {
    /// Reads the header of version 2, or else what the body of version 1 accepts. `None`: no payment is asked for.
    pub fn read(header: Option<&[u8]>, body: &[RequirementV1]) -> Option<Self> {
        let v2 = header.and_then(|header| from_header::<ChallengeV2>(header).ok()).filter(|v2| v2.version == 2);
        if let Some(v2) = v2.filter(|v2| !v2.accepts.is_empty()) {
            return Some(Self { version: Version::V2, resource: Some(v2.resource), accepts: v2.accepts });
        }
        let first = body.first()?;
        let resource = Resource {
            url: first.resource.clone(),
            description: Some(first.description.clone()),
            mime_type: first.mime_type.clone(),
        };
        let accepts = body.iter().cloned().map(Requirement::from).collect();
        Some(Self { version: Version::V1, resource: Some(resource), accepts })
    }

    /// The payment that meets a requirement of this challenge with what its payer signed.
    pub fn payment(&self, requirement: &Requirement, payload: Value) -> Payment {
        match self.version {
            Version::V1 => Payment::V1(PaymentMessageV1 {
                version: 1,
                scheme: requirement.scheme.clone(),
                network: requirement.network.clone(),
                payload,
            }),
            Version::V2 => Payment::V2(Box::new(PaymentMessageV2 {
                version: 2,
                resource: self.resource.clone(),
                accepted: requirement.clone(),
                payload,
                extensions: None,
            })),
        }
    }
}

impl Payment {
    /// The name and the value of the header that carries it.
    pub fn to_header(&self) -> Result<(&'static str, String), serde_json::Error> {
        match self {
            Self::V1(payment) => Ok((PAYMENT_V1, to_header(payment)?)),
            Self::V2(payment) => Ok((PAYMENT_V2, to_header(payment)?)),
        }
    }
}
