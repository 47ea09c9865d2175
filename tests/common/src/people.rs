//! People who sign in: what they ask for, the mails they get, the sessions they have.

use std::time::Duration;

use http::Method;
use serde_json::json;

use super::world::{mails_in, token_in};
use super::{Caller, Reply, World};
use deeplink_doubles::wait::{PATIENCE, eventually};

impl World {
    /// The mails that an address has been sent so far.
    pub fn mails_to(&self, email: &str) -> Vec<String> {
        let to = format!("To: {email}\r\n");
        mails_in(self.home()).into_iter().filter(|mail| mail.contains(&to)).collect()
    }

    /// The token in the one additional mail that `ask` causes.
    pub async fn mailed_token<F: Future>(&self, email: &str, ask: F) -> String {
        let before = self.mails_to(email);
        ask.await;
        eventually("the mail is out", PATIENCE, || async { self.mails_to(email).len() > before.len() }).await;
        let new = self.mails_to(email).into_iter().find(|mail| !before.contains(mail)).expect("a new mail");
        let token = token_in(&new).unwrap_or_else(|| panic!("no token in {new}"));
        self.note_secret(&token);
        token
    }

    /// Asks for a magic link and returns its token.
    pub async fn magic_link(&self, email: &str) -> String {
        self.mailed_token(email, async {
            let asked = self.nobody.post("/v1/auth/signin", &json!({"email": email})).await;
            assert_eq!((asked.status, asked.json()), (200, json!({"status": "sent"})), "{}", asked.text());
        })
        .await
    }

    /// Signs in by mail; the result is the session's token.
    pub async fn sign_in(&self, email: &str) -> String {
        let token = self.magic_link(email).await;
        let reply = self.nobody.use_link(&token).await;
        reply.session().unwrap_or_else(|| panic!("no session: {} {}", reply.status, reply.header("location")))
    }

    /// Invites an address into a caller's team and returns the invitation's token.
    pub async fn invite(&self, by: &Caller, email: &str) -> String {
        self.mailed_token(email, async {
            let invited = by.post("/v1/auth/users", &json!({"email": email})).await;
            assert_eq!(invited.status, 201, "{}", invited.text());
        })
        .await
    }

    /// Makes the owner of an address a verified member of a caller's team and returns their id.
    pub async fn join(&self, team_of: &Caller, email: &str) -> String {
        let token = self.invite(team_of, email).await;
        let accepted = self.nobody.accept(&token).await;
        assert!(accepted.header("location").ends_with("/signin?invite=accepted"), "{}", accepted.header("location"));
        let users = team_of.get("/v1/auth/users").await.json();
        let user = users["users"].as_array().expect("users").iter().find(|user| user["email"] == email);
        user.expect("the new member")["id"].as_str().expect("an id").to_owned()
    }
}

impl Caller {
    /// Sends the form behind a magic link.
    pub async fn use_link(&self, token: &str) -> Reply {
        self.ask_without_key(Method::POST, "/v1/auth/callback").form(&[("token", token)]).send().await
    }

    /// Sends the form behind the link of a sign-up.
    pub async fn confirm(&self, token: &str) -> Reply {
        self.ask_without_key(Method::POST, "/account/confirm").form(&[("token", token)]).send().await
    }

    /// Sends the form behind an invitation.
    pub async fn accept(&self, token: &str) -> Reply {
        self.ask_without_key(Method::POST, "/v1/auth/verify").form(&[("token", token)]).send().await
    }

    /// Asks who is signed in with a session's token.
    pub async fn me(&self, session: &str) -> Reply {
        self.ask_without_key(Method::GET, "/v1/auth/me").session(session).send().await
    }
}

/// Repeats a request until the service accepts it. A 503, as from a busy machine, means that nothing was done.
pub async fn insist<F: Future<Output = Reply>>(ask: impl Fn() -> F) -> Reply {
    const PAUSE: Duration = Duration::from_millis(50);
    let mut left = PATIENCE;
    loop {
        let reply = ask().await;
        if reply.status != 503 {
            return reply;
        }
        assert!(!left.is_zero(), "refused again and again: {}", reply.text());
        tokio::time::sleep(PAUSE).await;
        left = left.saturating_sub(PAUSE);
    }
}
