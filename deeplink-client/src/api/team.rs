//! The team members of an account.

use deeplink_core::routes;
use deeplink_core::secret::Token;
use deeplink_core::user::{InviteUser, InvitedUser, UserList};

use crate::api::sessions::sign_in_page_says;
use crate::call::{self, Call};
use crate::connection::Connection;
use crate::decode;
use crate::error::Result;
use crate::page::{Listing, Pages};
use crate::send::Reply;

/// The operations on the team; see [`crate::Client::team`].
#[derive(Debug, Clone)]
pub struct Team(pub(crate) Connection);

/// The result of using an invitation's token.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Acceptance {
    /// The user is now a member of the team.
    Accepted {
        /// Where a browser would go.
        location: String,
    },
    /// The token is unknown, expired or was never valid.
    Refused {
        /// The code, such as `invite_invalid`.
        code: String,
        /// Where a browser would go.
        location: String,
    },
}

impl Team {
    /// The team members, newest first, including pending invitations: all of them when awaited, or as pages or one by one.
    ///
    /// ```
    /// # #[cfg(feature = "mock")] deeplink_client::mock::example(async |dl| {
    /// let team = dl.team().list().await?;
    /// assert_eq!(team[0].email, "you@example.com");
    /// # Ok(()) });
    /// ```
    pub fn list(&self) -> Pages<Listing<UserList>> {
        Pages::listing(&self.0, &routes::LIST_USERS, None)
    }

    /// Invites someone by email. Inviting the same person again sends a new link, and the old one stops working.
    ///
    /// ```
    /// # #[cfg(feature = "mock")] deeplink_client::mock::example(async |dl| {
    /// use deeplink_client::InviteUser;
    /// let invited = dl.team().invite(&InviteUser::new("new@example.com")).await?;
    /// assert_eq!(invited.status, "invited");
    /// # Ok(()) });
    /// ```
    pub fn invite(&self, invite: &InviteUser) -> Call<InvitedUser> {
        call::json(&self.0, &routes::INVITE_USER, &[]).body(invite).valid(invite.clone().check())
    }

    /// Removes a team member: their sessions, codes and invitations are revoked immediately; keys they created are kept.
    ///
    /// ```
    /// # #[cfg(feature = "mock")] deeplink_client::mock::example(async |dl| {
    /// dl.team().remove("usr_0123456789abcdef01234567").await?;
    /// # Ok(()) });
    /// ```
    pub fn remove(&self, user_id: impl AsRef<str>) -> Call<()> {
        Call::new(&self.0, call::draft(&routes::REMOVE_USER, &[user_id.as_ref()]), decode::nothing)
    }

    /// Accepts an invitation with the token of its link. This does not sign anyone in.
    ///
    /// ```
    /// # #[cfg(feature = "mock")] deeplink_client::mock::example(async |dl| {
    /// # let token = deeplink_client::mock::fixtures::session_token();
    /// use deeplink_client::Acceptance;
    /// assert!(matches!(dl.team().accept(&token).await?, Acceptance::Accepted { .. }));
    /// # Ok(()) });
    /// ```
    pub fn accept(&self, token: &Token) -> Call<Acceptance> {
        let draft = call::draft(&routes::ACCEPT_INVITE, &[]);
        Call::new(&self.0, draft, acceptance).form(&[("token", token.expose())])
    }
}

fn acceptance(reply: &Reply) -> Result<Acceptance> {
    let location = decode::see_other(reply)?;
    if let Some(code) = sign_in_page_says(&location, "error") {
        return Ok(Acceptance::Refused { code, location });
    }
    // A proxy may redirect elsewhere, leaving the invitation unused.
    match sign_in_page_says(&location, "invite") {
        Some(word) if word == "accepted" => Ok(Acceptance::Accepted { location }),
        _ => Err(reply.refusal().say("the response says neither that the invitation was accepted nor why it was not")),
    }
}
