//! Links that were mailed: pasted without being shown, read for their token, and never followed.

use deeplink_core::routes::{self, Route};
use deeplink_core::secret::Token;
use deeplink_core::user::CONFIRM_PATH;
use url::Url;
use zeroize::Zeroizing;

use crate::base_url::BaseUrl;
use crate::context::Context;
use crate::error::{Failure, Outcome, Stop};
use crate::exit::Exit;

/// Attempts at a terminal.
const TRIES: u32 = 3;
/// A malformed or incomplete link.
const NOT_A_LINK: &str = "not_a_link";
/// What to do with the link of a sign-up.
const CONFIRMS: &str = "this link confirms a sign-up: open it in a browser, then store the key that the page shows \
     with dl login --with-key";
/// A link that does not work.
pub(crate) const REFUSED: &str = "link_refused";

/// What a link is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// To sign in.
    SignIn,
    /// To join a team.
    Invitation,
}

impl Purpose {
    const fn route(self) -> Route {
        match self {
            Self::SignIn => routes::CALLBACK,
            Self::Invitation => routes::ACCEPT_INVITE,
        }
    }

    /// What to do with a link of this purpose that was given for another.
    const fn command(self) -> &'static str {
        match self {
            Self::SignIn => "this is a sign-in link: use it with dl login",
            Self::Invitation => "this is an invitation: use it with dl team accept",
        }
    }
}

impl Context {
    /// Fails, before anything is sent, if a mailed link can be neither pasted nor read from stdin.
    pub(crate) fn check_mailed(&self, from_stdin: bool) -> Outcome {
        if from_stdin || self.global.dry_run || self.can_ask() {
            return Ok(());
        }
        let what = "the emailed link is needed, and this session cannot prompt for it";
        Err(Failure::usage(what).code("needs_input").hint("use --link-stdin to read it from stdin").into())
    }

    /// Reads a mailed link from a prompt or stdin and passes its token to `spend`. At a prompt it may be tried again.
    pub(crate) async fn mailed<T>(
        &self,
        purpose: Purpose,
        base: &BaseUrl,
        from_stdin: bool,
        question: &str,
        spend: impl AsyncFn(Token) -> Outcome<T>,
    ) -> Outcome<T> {
        for left in (0..if from_stdin { 1 } else { TRIES }).rev() {
            let text = if from_stdin {
                self.stdin_line("--link-stdin").await?
            } else {
                self.hidden(question, "--link-stdin").await?
            };
            let spent = match token(&text, purpose, base) {
                Ok(token) => {
                    self.console.hide(token.expose());
                    spend(token).await
                }
                Err(stop) => Err(stop),
            };
            match spent {
                Err(Stop::Failed(failure)) if left > 0 && may_be_tried_again(&failure) => {
                    self.console.failure(&failure);
                    self.console.say(if left == 1 { "one more try" } else { "two more tries" });
                }
                end => return end,
            }
        }
        Err(Failure::invalid("no link found").code(NOT_A_LINK).into())
    }
}

fn may_be_tried_again(failure: &Failure) -> bool {
    failure.code.as_deref().is_some_and(|code| [NOT_A_LINK, REFUSED].contains(&code))
}

/// The token of a link, or the token alone. A link of another origin is refused: its token would be sent to the operator of
/// this service.
fn token(text: &Zeroizing<String>, purpose: Purpose, base: &BaseUrl) -> Outcome<Token> {
    let no_link = || {
        let hint = "paste the whole link, or the 64 hex digits after token=";
        Failure::invalid("this is not the link from the email").code(NOT_A_LINK).hint(hint)
    };
    let text = text.trim();
    let well_formed = |token: Token| {
        if token.is_well_formed() {
            return Ok(token);
        }
        Err(no_link().into())
    };
    if !text.contains("://") {
        return well_formed(Token::new(text));
    }
    let url = Url::parse(text).map_err(|_| no_link())?;
    let origin = url.origin().ascii_serialization();
    if origin != base.origin() {
        let what = format!("the link leads to {origin}, but dl is using {}; nothing was sent", base.origin());
        let hint = "if your service sent it, set --base-url to the URL in the link; otherwise, someone may be trying to sign in as you";
        return Err(Failure::invalid(what).code("foreign_link").hint(hint).into());
    }
    if !url.path().ends_with(purpose.route().path) {
        let other = [Purpose::SignIn, Purpose::Invitation].into_iter().find(|p| url.path().ends_with(p.route().path));
        let hint = match other {
            Some(other) => other.command(),
            None if url.path().ends_with(CONFIRM_PATH) => CONFIRMS,
            None => return Err(no_link().into()),
        };
        return Err(Failure::invalid("this is a different kind of link").code(NOT_A_LINK).hint(hint).into());
    }
    let mut tokens =
        url.query_pairs().filter(|(name, _)| name == "token").map(|(_, token)| Zeroizing::new(token.into_owned()));
    match (tokens.next(), tokens.next()) {
        (Some(token), None) => well_formed(Token::new(token.as_str())),
        _ => Err(no_link().into()),
    }
}

/// A token that the service refuses.
pub(crate) fn refused(code: &str) -> Stop {
    let why = match code {
        "link_expired" | "invite_invalid" => "the link has expired, was already used, or was replaced by a newer one",
        _ => "the service did not accept the link",
    };
    let failure = Failure::new(Exit::Auth, format!("{why} ({code})")).code(REFUSED);
    failure.hint("use the link in the newest email; each link works only once").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "3fa91c07be5d28463fa91c07be5d28463fa91c07be5d28463fa91c07be5d2846";

    fn read(text: &str, base: &str, purpose: Purpose) -> Result<String, (Exit, String)> {
        let base = base.parse().expect("a base URL");
        match token(&Zeroizing::new(text.to_owned()), purpose, &base) {
            Ok(token) => Ok(token.expose().to_owned()),
            Err(Stop::Failed(failure)) => {
                assert!(!failure.to_json().contains(&TOKEN[8..]), "{failure:?}");
                Err((failure.exit, failure.code.unwrap_or_default().into_owned()))
            }
            Err(other) => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_link_or_its_token_is_read() {
        let link = |base: &str| format!("{base}/v1/auth/callback?token={TOKEN}");
        for (text, base) in [
            (TOKEN.to_owned(), "https://dl.example.com"),
            (format!("  {TOKEN}\r\n"), "https://dl.example.com"),
            (link("https://dl.example.com"), "https://dl.example.com"),
            (link("https://DL.example.com:443"), "https://dl.example.com"),
            (link("https://dl.example.com/links"), "https://dl.example.com/links"),
            (format!("{}&next=%2Faccount", link("http://127.0.0.1:8080")), "http://127.0.0.1:8080"),
        ] {
            assert_eq!(read(&text, base, Purpose::SignIn).as_deref(), Ok(TOKEN), "{text}");
        }
        let invite = format!("https://dl.example.com/v1/auth/verify?token={TOKEN}");
        assert_eq!(read(&invite, "https://dl.example.com", Purpose::Invitation).as_deref(), Ok(TOKEN));
    }

    #[test]
    fn what_is_no_link_of_this_service_is_refused() {
        let at = |text: &str| read(text, "https://dl.example.com", Purpose::SignIn);
        let foreign = Err((Exit::Invalid, "foreign_link".to_owned()));
        for origin in [
            "http://dl.example.com",
            "https://dl.example.com:8443",
            "https://dl.example.com.example.net",
            "https://evil.example",
            "https://dl.example.com@evil.example",
        ] {
            assert_eq!(at(&format!("{origin}/v1/auth/callback?token={TOKEN}")), foreign, "{origin}");
        }
        for text in [
            "",
            "abc",
            "://",
            &TOKEN[1..],
            &TOKEN.to_uppercase(),
            "https://dl.example.com/v1/auth/callback",
            &format!("https://dl.example.com/v1/auth/callback?token={TOKEN}&token={TOKEN}"),
            &format!("https://dl.example.com/v1/auth/callback?token={TOKEN}0"),
            &format!("https://dl.example.com/v1/auth/verify?token={TOKEN}"),
            &format!("https://dl.example.com/account/confirm?token={TOKEN}"),
            &format!("https://dl.example.com/?token={TOKEN}"),
        ] {
            assert_eq!(at(text), Err((Exit::Invalid, NOT_A_LINK.to_owned())), "{text}");
        }
    }
}
