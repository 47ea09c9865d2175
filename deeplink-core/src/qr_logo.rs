//! Logos that an account uploads for its QR codes.

use crate::error::{ErrorCode, Invalid};
use crate::qr::{MAX_LOGO_NAME, is_logo_name};
use crate::time::Timestamp;
use crate::words::reply;

/// Maximum logos of an account.
pub const MAX_LOGOS: i64 = 20;
/// Maximum bytes of an uploaded file.
pub const MAX_LOGO_BYTES: usize = 512 << 10;

reply! {
    /// An uploaded logo.
    QrLogo {
        /// The logo's name; codes refer to it as `name:` followed by the name.
        name: String,
        /// Width in pixels.
        width: u32,
        /// Height in pixels.
        height: u32,
        /// Size of the stored PNG in bytes.
        bytes: u64,
        /// When a logo was first uploaded with this name.
        created_at: Timestamp,
        /// When this image was uploaded.
        updated_at: Timestamp,
    }
}

reply! {
    /// An account's uploaded logos.
    QrLogoList {
        /// The logos, in alphabetical order.
        logos: Vec<QrLogo>,
    }
}

/// Refuses a name that no logo may have.
pub fn check_logo_name(name: &str) -> Result<(), Invalid> {
    if is_logo_name(name) {
        return Ok(());
    }
    let message = format!("a logo's name must be 1 to {MAX_LOGO_NAME} lowercase letters, digits and hyphens");
    Err(Invalid::field(ErrorCode::InvalidName, "name", message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_lowercase_letters_digits_and_hyphens() {
        let long = "a".repeat(40);
        for name in ["a", "acme", "acme-2026", "-", "0", &long] {
            assert_eq!(check_logo_name(name), Ok(()), "{name}");
        }
        let longer = format!("{long}a");
        for name in ["", "Acme", "a b", "a_b", "a.png", "é", "name:a", &longer] {
            let refused = check_logo_name(name).expect_err("a refusal");
            assert_eq!((refused.code, refused.field.as_deref()), (ErrorCode::InvalidName, Some("name")), "{name}");
        }
    }
}
