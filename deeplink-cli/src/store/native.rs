//! The system's keyring: Secret Service on Linux, Keychain on macOS, Credential Manager on Windows.

use std::sync::Arc;

use super::keyring::SecretStore;

/// The system's keyring. It is not accessed before it is used.
#[cfg(feature = "keyring")]
#[expect(clippy::unnecessary_wraps, reason = "the same shape as without the feature")]
pub(super) fn native() -> Result<Arc<dyn SecretStore>, String> {
    Ok(Arc::new(with_keyring::Native))
}

/// There is none.
#[cfg(not(feature = "keyring"))]
pub(super) fn native() -> Result<Arc<dyn SecretStore>, String> {
    Err("this dl was built without keyring support".to_owned())
}

#[cfg(feature = "keyring")]
mod with_keyring {
    use keyring::{Entry, Error};
    use zeroize::Zeroizing;

    use super::SecretStore;

    /// The name under which the keyring's own interface shows the entries.
    const SERVICE: &str = "dl";

    pub(super) struct Native;

    impl SecretStore for Native {
        fn get(&self, account: &str) -> Result<Option<Zeroizing<String>>, String> {
            match entry(account)?.get_password() {
                Ok(secret) => Ok(Some(Zeroizing::new(secret))),
                Err(Error::NoEntry) => Ok(None),
                Err(error) => Err(reason(&error)),
            }
        }

        fn set(&self, account: &str, secret: &str) -> Result<(), String> {
            entry(account)?.set_password(secret).map_err(|error| reason(&error))
        }

        fn delete(&self, account: &str) -> Result<(), String> {
            match entry(account)?.delete_credential() {
                Ok(()) | Err(Error::NoEntry) => Ok(()),
                Err(error) => Err(reason(&error)),
            }
        }
    }

    fn entry(account: &str) -> Result<Entry, String> {
        Entry::new(SERVICE, account).map_err(|error| reason(&error))
    }

    /// The reason, on one line. It never includes data from the keyring.
    fn reason(error: &Error) -> String {
        let text = match error {
            Error::NoDefaultStore => match Entry::store_status() {
                Err(why) => return without_store(why),
                Ok(()) => error.to_string(),
            },
            Error::PlatformFailure(why) | Error::NoStorageAccess(why) => why.to_string(),
            Error::BadDataFormat(..) => "the stored data cannot be read".to_owned(),
            _ => error.to_string(),
        };
        one_line(&text)
    }

    /// Why the system's keyring is not available at all.
    fn without_store(why: &Error) -> String {
        match why {
            Error::PlatformFailure(why) | Error::NoStorageAccess(why) => one_line(&why.to_string()),
            why => one_line(&why.to_string()),
        }
    }

    /// The first line, without the operating system's number.
    fn one_line(text: &str) -> String {
        let line = text.lines().next().unwrap_or_default();
        line.split(" (os error ").next().unwrap_or(line).to_owned()
    }
}
