//! Who the client's key acts for.

use deeplink_core::routes;
use deeplink_core::whoami::Whoami;

use crate::call::{self, Call};
use crate::client::Client;

impl Client {
    /// Returns the identity behind the client's secret key: the account, the user who created the key, and the key's scope. A
    /// service without this operation responds with 404.
    ///
    /// ```
    /// # #[cfg(feature = "mock")] deeplink_client::mock::example(async |dl| {
    /// let who = dl.whoami().await?;
    /// println!("{} {:?}", who.tenant.id, who.email);
    /// # Ok(()) });
    /// ```
    pub fn whoami(&self) -> Call<Whoami> {
        call::json(&self.0, &routes::WHOAMI, &[])
    }
}
