//! Who the client's key acts for.

use deeplink_core::routes;
use deeplink_core::whoami::Whoami;

use crate::call::{self, Call};
use crate::client::Client;

impl Client {
    /// Says who the client's secret key acts for: the account, a person of it, and what the key reaches. A service from
    /// before this operation answers "not found".
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
