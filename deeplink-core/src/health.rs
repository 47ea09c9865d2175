//! Health of the service.

use serde::{Deserialize, Serialize};

/// The response of `/health` (`ok`) and `/ready` (`ready`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Health {
    /// `ok` or `ready`.
    pub status: String,
}

impl Health {
    /// A response with this status.
    pub fn new(status: impl Into<String>) -> Self {
        Self { status: status.into() }
    }
}
