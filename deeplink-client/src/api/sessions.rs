//! Accounts: signing up.

use deeplink_core::routes;
use deeplink_core::user::{SignedUp, Signup};

use crate::call::{self, Call};
use crate::client::Client;
use crate::error::Error;

/// Accounts and signing in; see [`Client::sessions`].
#[derive(Debug, Clone)]
pub struct Sessions(pub(crate) Client);

impl Sessions {
    /// Opens an account. Its first secret key is in the reply, and nowhere else.
    ///
    /// ```
    /// # #[cfg(feature = "mock")] deeplink_client::mock::example(async |dl| {
    /// use deeplink_client::Signup;
    /// let account = dl.sessions().signup(&Signup::new("you@example.com")).await?;
    /// assert!(account.api_key.is_well_formed());
    /// # Ok(()) });
    /// ```
    pub fn signup(&self, signup: &Signup) -> Call<SignedUp> {
        let checked = signup.clone().check().map(drop).map_err(Error::invalid);
        call::json(&self.0, &routes::SIGNUP, &[]).body(signup).checked(checked)
    }
}
