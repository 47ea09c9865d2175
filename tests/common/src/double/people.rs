//! People: their sign-in, their keys and their partners.

use super::{Answer, Request};
use crate::dl::{KEY, OTHER_KEY};

/// A publishable key.
pub const PUBLISHABLE: &str = "pk_live_3fa91c07be5d2846a0c1e2f3948576b8d9eafc0b1c2d3e4f";

/// The token of a session.
pub const SESSION: &str = "5e551017be5d28463fa91c07be5d28463fa91c07be5d28463fa91c07be5d2846";

/// The reply to a sign-up.
pub fn signed_up() -> Answer {
    signed_up_with(KEY)
}

/// The same with this key.
pub fn signed_up_with(key: &str) -> Answer {
    Answer::json(
        201,
        &serde_json::json!({
            "tenant_id": "tnt_0123456789abcdef01234567", "user_id": "usr_0123456789abcdef01234567",
            "id": "skid_0123456789abcdef01234567", "api_key": key, "key_prefix": format!("{}...", &key[..18]),
            "created_at": "2026-11-20T09:30:00.000Z",
        }),
    )
}

/// A secret key as lists show it; its id ends with this digit.
pub fn secret_key(key: &str, digit: u8) -> serde_json::Value {
    serde_json::json!({
        "id": format!("skid_{digit:024}"), "key_prefix": format!("{}...", &key[..18]),
        "created_by": "usr_0123456789abcdef01234567", "created_at": "2026-11-20T09:30:00.000Z", "last_used_at": null,
    })
}

/// A new secret key, whole, with the id of [`secret_key`].
pub fn new_key(key: &str, digit: u8) -> serde_json::Value {
    let mut made = secret_key(key, digit);
    made["key"] = key.into();
    made
}

/// A team member as lists show them.
pub fn user(email: &str) -> serde_json::Value {
    serde_json::json!({
        "id": "usr_0123456789abcdef01234567", "email": email, "verified": true, "status": "active", "is_owner": true,
        "created_at": "2026-11-20T09:30:00.000Z",
    })
}

/// The signed-in user.
pub fn me(email: &str) -> serde_json::Value {
    serde_json::json!({
        "user": {"id": "usr_0123456789abcdef01234567", "email": email, "verified": true, "is_owner": true},
        "tenant": {"id": "tnt_0123456789abcdef01234567", "created_at": "2026-11-20T09:30:00.000Z"},
    })
}

/// Who a key acts for, as the service answers it.
pub fn whoami(email: &str, tenant: &str) -> serde_json::Value {
    serde_json::json!({
        "email": email, "tenant": {"id": tenant, "created_at": "2026-11-20T09:30:00.000Z"}, "plan": "free",
        "key_id": "skid_000000000000000000000001", "key_prefix": "dl_live_3fa91c07be...", "scope": "account",
        "affiliate": null,
    })
}

/// An affiliate as lists show it.
pub fn affiliate() -> serde_json::Value {
    serde_json::json!({
        "id": "aff_0123456789abcdef01234567", "name": "Partner", "partner_key": "partner", "status": "active",
        "created_at": "2026-11-20T09:30:00.000Z", "updated_at": "2026-11-20T09:30:00.000Z",
    })
}

/// A form's redirect, with a session cookie if it starts a session.
pub fn see_other(location: &str, session: Option<&str>) -> Answer {
    let answer = Answer::new(303, "").header("location", location);
    match session {
        Some(token) => answer.header("set-cookie", &format!("session_token={token}; Path=/; HttpOnly; SameSite=Lax")),
        None => answer,
    }
}

/// Answers requests about people, their keys and partners; `None` for any other request.
pub fn of_people(request: &Request) -> Option<Answer> {
    let mut pk = serde_json::json!({
        "id": "pkid_0123456789abcdef01234567", "key_prefix": "pk_live_3fa91c07be...", "domain": "go.example.com",
        "created_at": "2026-11-20T09:30:00.000Z",
    });
    let mut credential = secret_key(OTHER_KEY, 3);
    Some(match request.line().as_str() {
        "POST /v1/auth/signup" => signed_up(),
        "POST /v1/auth/signin" => Answer::new(200, r#"{"status":"sent"}"#),
        "POST /v1/auth/callback" => see_other("/account", Some(SESSION)),
        "POST /v1/auth/verify" => see_other("/signin?invite=accepted", None),
        "GET /v1/auth/me" => Answer::json(200, &me("you@example.com")),
        "POST /v1/auth/signout" => Answer::new(204, ""),
        "GET /v1/auth/whoami" => Answer::json(200, &whoami("you@example.com", "tnt_0123456789abcdef01234567")),
        "POST /v1/auth/secret-keys/issue" | "POST /v1/auth/secret-keys/confirm" => {
            Answer::json(201, &new_key(OTHER_KEY, 2))
        }
        "GET /v1/auth/users" => {
            Answer::json(200, &serde_json::json!({"users": [user("you@example.com")], "next_cursor": null}))
        }
        "POST /v1/auth/users" => {
            Answer::new(201, r#"{"id":"usr_0123456789abcdef01234567","email":"new@example.com","status":"invited"}"#)
        }
        "GET /v1/auth/secret-keys" => Answer::json(
            200,
            &serde_json::json!({"keys": [secret_key(OTHER_KEY, 2), secret_key(KEY, 1)], "next_cursor": null}),
        ),
        "POST /v1/auth/secret-keys" => Answer::new(200, r#"{"status":"code_sent"}"#),
        "GET /v1/auth/publishable-keys" => Answer::json(200, &serde_json::json!({"keys": [pk], "next_cursor": null})),
        "POST /v1/auth/publishable-keys" => {
            pk["key"] = PUBLISHABLE.into();
            Answer::json(201, &pk)
        }
        "GET /v1/affiliates" => {
            Answer::json(200, &serde_json::json!({"affiliates": [affiliate()], "next_cursor": null}))
        }
        "POST /v1/affiliates" => Answer::json(201, &affiliate()),
        "GET /v1/affiliates/aff_0123456789abcdef01234567" | "PATCH /v1/affiliates/aff_0123456789abcdef01234567" => {
            Answer::json(200, &affiliate())
        }
        "GET /v1/affiliates/aff_0123456789abcdef01234567/credentials" => {
            Answer::json(200, &serde_json::json!({"credentials": [credential], "next_cursor": null}))
        }
        "POST /v1/affiliates/aff_0123456789abcdef01234567/credentials" => {
            credential["api_key"] = OTHER_KEY.into();
            credential["affiliate_id"] = "aff_0123456789abcdef01234567".into();
            Answer::json(201, &credential)
        }
        _ => return None,
    })
}
