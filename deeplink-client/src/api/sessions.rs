//! Signing up, signing in, and who is signed in.

use deeplink_core::routes;
use deeplink_core::secret::Token;
use deeplink_core::session::{self, Me, Signin, SigninSent};
use deeplink_core::user::{SignedUp, Signup};
use http::header::SET_COOKIE;
use url::Url;

use crate::call::{self, Call};
use crate::connection::Connection;
use crate::decode;
use crate::error::Result;
use crate::send::Reply;

/// Signing up and signing in; see [`crate::Client::sessions`].
#[derive(Debug, Clone)]
pub struct Sessions(pub(crate) Connection);

/// The result of using an emailed link's token.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum SignIn {
    /// A session started.
    SignedIn {
        /// Its token: a credential of a client ([`crate::Client::with_auth`]).
        session: Token,
        /// Where a browser would go.
        location: String,
    },
    /// No session started.
    Refused {
        /// The code, such as `link_expired`.
        code: String,
        /// Where a browser would go.
        location: String,
    },
}

impl Sessions {
    /// Creates an account. Its first secret key is only in this response, and works until the address is confirmed
    /// through the emailed link: confirming revokes every key, webhook and source created before that, and shows a new key.
    ///
    /// ```
    /// # #[cfg(feature = "mock")] deeplink_client::mock::example(async |dl| {
    /// use deeplink_client::Signup;
    /// let account = dl.sessions().signup(&Signup::new("you@example.com")).await?;
    /// assert!(account.api_key.is_well_formed());
    /// # Ok(()) });
    /// ```
    pub fn signup(&self, signup: &Signup) -> Call<SignedUp> {
        call::json(&self.0, &routes::SIGNUP, &[]).body(signup).valid(signup.clone().check())
    }

    /// Emails a sign-in link. The response is the same whether the address has an account or not; the first sign-in
    /// creates one.
    ///
    /// ```
    /// # #[cfg(feature = "mock")] deeplink_client::mock::example(async |dl| {
    /// use deeplink_client::Signin;
    /// assert_eq!(dl.sessions().signin(&Signin::new("you@example.com")).await?.status, "sent");
    /// # Ok(()) });
    /// ```
    pub fn signin(&self, signin: &Signin) -> Call<SigninSent> {
        call::json(&self.0, &routes::SIGNIN, &[]).body(signin).valid(signin.clone().check())
    }

    /// Signs in with the token of an emailed link, which works once. An expired link is a value, not an error.
    ///
    /// ```
    /// # #[cfg(feature = "mock")] deeplink_client::mock::example(async |dl| {
    /// # let token = deeplink_client::mock::fixtures::session_token();
    /// use deeplink_client::SignIn;
    /// match dl.sessions().callback(&token).await? {
    ///     SignIn::SignedIn { session, .. } => {
    ///         let me = dl.with_auth(session)?.sessions().me().await?;
    ///         println!("signed in as {}", me.user.email);
    ///     }
    ///     SignIn::Refused { code, .. } => println!("not signed in: {code}"),
    ///     _ => {}
    /// }
    /// # Ok(()) });
    /// ```
    pub fn callback(&self, token: &Token) -> Call<SignIn> {
        let draft = call::draft(&routes::CALLBACK, &[]);
        Call::new(&self.0, draft, sign_in).form(&[("token", token.expose())])
    }

    /// Returns the signed-in user: the client's credential is a session.
    ///
    /// ```
    /// # #[cfg(feature = "mock")] deeplink_client::mock::example(async |dl| {
    /// # let session = deeplink_client::mock::fixtures::session_token();
    /// let me = dl.with_auth(session)?.sessions().me().await?;
    /// assert_eq!(me.user.email, "you@example.com");
    /// # Ok(()) });
    /// ```
    pub fn me(&self) -> Call<Me> {
        call::json(&self.0, &routes::ME, &[])
    }

    /// Ends the client's session.
    ///
    /// ```
    /// # #[cfg(feature = "mock")] deeplink_client::mock::example(async |dl| {
    /// # let session = deeplink_client::mock::fixtures::session_token();
    /// dl.with_auth(session)?.sessions().signout().await?;
    /// # Ok(()) });
    /// ```
    pub fn signout(&self) -> Call<()> {
        Call::new(&self.0, call::draft(&routes::SIGNOUT, &[]), decode::nothing)
    }
}

impl Call<SignIn> {
    /// Sets the path to redirect to after the sign-in; it is ignored if the emailed link has its own.
    pub fn next(self, path: impl AsRef<str>) -> Self {
        let field = url::form_urlencoded::Serializer::new(String::new()).append_pair("next", path.as_ref()).finish();
        self.edit(|draft| {
            let form = draft.body.take().unwrap_or_default();
            draft.body = Some([&form, &b"&"[..], field.as_bytes()].concat().into());
            Ok(())
        })
    }
}

fn sign_in(reply: &Reply) -> Result<SignIn> {
    let location = decode::see_other(reply)?;
    if let Some(session) = session_of(reply) {
        return Ok(SignIn::SignedIn { session, location });
    }
    match sign_in_page_says(&location, "error") {
        Some(code) => Ok(SignIn::Refused { code, location }),
        None => Err(reply.refusal().say("the response has neither a session nor a reason")),
    }
}

/// The token in the session's cookie, if a session begins. A session that ends sets an empty cookie.
fn session_of(reply: &Reply) -> Option<Token> {
    let cookies = reply.headers.get_all(SET_COOKIE).iter().filter_map(|cookie| cookie.to_str().ok());
    let pairs = cookies.filter_map(|cookie| cookie.split(';').next()?.split_once('='));
    let mut values = pairs.filter(|(name, _)| name.trim() == session::COOKIE).map(|(_, value)| value.trim());
    values.find(|value| !value.is_empty()).map(Token::new)
}

/// A query parameter of the redirect, such as the code of an `error`. The address may be a path or on another host.
pub(super) fn sign_in_page_says(location: &str, what: &str) -> Option<String> {
    let base = Url::parse("https://origin.invalid/").ok()?;
    let url = base.join(location).ok()?;
    let word = url.query_pairs().find(|(name, _)| name == what).map(|(_, word)| word.into_owned())?;
    url.path().ends_with("/signin").then_some(word)
}
