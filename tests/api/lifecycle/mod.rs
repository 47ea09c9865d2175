//! From click to conversion: what apps, pages and servers report, and what links are credited with.

mod chain;
mod clicks;
mod conversions;
mod installs;

use serde_json::{Value, json};

use crate::common::{Caller, Reply, Role, World};

const DOMAIN: &str = "keys.example.com";

/// Somebody with a publishable key of this account.
pub(super) async fn page_of(world: &World, of: &Caller, domain: &str) -> Caller {
    world.own_domain(of, domain, Role::Primary).await;
    let made = of.post("/v1/auth/publishable-keys", &json!({"domain": domain})).await;
    world.somebody_with(&made.member("key"))
}

pub(super) async fn click(caller: &Caller, link: &str) -> Reply {
    caller.post("/v1/lifecycle/click", &json!({"link_id": link})).await
}

pub(super) fn touch(link: &str, install: &str) -> Value {
    json!({"link_id": link, "install_id": install, "app_version": "1.0"})
}

pub(super) async fn attribute(caller: &Caller, link: &str, install: &str) -> Reply {
    caller.post("/v1/lifecycle/attribute", &touch(link, install)).await
}

/// As [`attribute`], on a device of this model.
pub(super) async fn attribute_on(caller: &Caller, link: &str, install: &str, model: &str) -> Reply {
    let mut body = touch(link, install);
    body["context"] = json!({"device_model": model});
    caller.post("/v1/lifecycle/attribute", &body).await
}

pub(super) async fn identify(caller: &Caller, install: &str, user: &str) -> Reply {
    caller.put("/v1/lifecycle/identify", &json!({"install_id": install, "user_id": user})).await
}

pub(super) async fn convert(caller: &Caller, body: &Value) -> Reply {
    caller.post("/v1/lifecycle/convert", body).await
}

/// A conversion that must be taken; says what became of it.
pub(super) async fn converted(caller: &Caller, body: &Value) -> String {
    let reply = convert(caller, body).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    let json = reply.json();
    let counts = ["accepted", "deduped", "unattributed", "failed"].map(|name| (name, json[name].as_i64()));
    let counted: Vec<_> = counts.iter().filter(|(_, count)| *count == Some(1)).map(|(name, _)| *name).collect();
    assert!(counts.iter().all(|(_, count)| matches!(count, Some(0 | 1))), "{json}");
    assert_eq!(json["event_id"].is_null(), counted == ["failed"], "{json}");
    counted.join(" ")
}

/// What links are credited with: the link, what for, and whether it was the first touch and the last.
pub(super) async fn credits(world: &World) -> Vec<String> {
    let sql = "
        SELECT l.link_id || ' ' || c.conversion_type || CASE WHEN c.is_first THEN ' first' ELSE '' END
            || CASE WHEN c.is_last THEN ' last' ELSE '' END
        FROM conversion_credits c JOIN links l ON l.position = c.link ORDER BY 1";
    world.db.texts(sql).await
}

/// What binding the installs of an account was, by their names.
pub(super) async fn bindings(world: &World) -> Vec<String> {
    let sql = "
        SELECT i.install_id || ' ' || u.user_id || ' ' || CASE i.bound_as WHEN 0 THEN 'identified'
            WHEN 1 THEN 'reinstalled' WHEN 2 THEN 'new_device' END
        FROM installs i JOIN app_users u ON u.position = i.app_user ORDER BY 1";
    world.db.texts(sql).await
}

pub(super) async fn count(world: &World, of: &str) -> i64 {
    world.db.number(format!("SELECT CAST(count(*) AS BIGINT) FROM {of}")).await
}
