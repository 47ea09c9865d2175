//! From click to conversion: what apps, pages and servers report, and what links are credited with.

mod bounds;
mod callers;
mod chain;
mod clicks;
mod conversions;
mod input;
mod installs;
mod races;
mod refusals;
mod repeats;

use serde_json::{Value, json};

use deeplink_testing::{Caller, Reply, Role, World};

const DOMAIN: &str = "keys.example.com";

/// A caller with a publishable key of this account.
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

/// Reports a conversion that must be accepted; returns its status.
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

/// The credits of links: the link, the conversion, and whether it was the first touch and the last.
pub(super) async fn credits(world: &World) -> Vec<String> {
    let sql = "
        SELECT l.link_id || ' ' || c.conversion_type || CASE WHEN c.is_first THEN ' first' ELSE '' END
            || CASE WHEN c.is_last THEN ' last' ELSE '' END
        FROM conversion_credits c JOIN links l ON l.position = c.link ORDER BY 1";
    world.db.texts(sql).await
}

/// The kind of each install's binding in an account, by their names.
pub(super) async fn bindings(world: &World) -> Vec<String> {
    let sql = "
        SELECT i.install_id || ' ' || u.user_id || ' ' || CASE i.bound_as WHEN 0 THEN 'identified'
            WHEN 1 THEN 'reinstalled' WHEN 2 THEN 'new_device' END
        FROM installs i JOIN app_users u ON u.position = i.app_user ORDER BY 1";
    world.db.texts(sql).await
}

/// Credits of links: each account has its own besides.
pub(super) const CREDITS: &str = "conversion_credits WHERE link > 0";

pub(super) async fn count(world: &World, of: &str) -> i64 {
    world.db.number(format!("SELECT CAST(count(*) AS BIGINT) FROM {of}")).await
}

/// Fails unless the stored credit and touches agree with a full computation over all touches.
pub(super) async fn stays_true(world: &World) {
    let chain = "touches t JOIN installs i ON i.position = t.install WHERE i.app_user = c.app_user AND t.at <= c.at";
    let first = format!("(SELECT t.link FROM {chain} ORDER BY t.at, t.install, t.number LIMIT 1)");
    let last = format!("(SELECT t.link FROM {chain} ORDER BY t.at DESC, t.install DESC, t.number DESC LIMIT 1)");
    let links = format!("(SELECT count(DISTINCT t.link) FROM {chain})");
    let credited = "(SELECT count(*) FROM conversion_credits x WHERE x.link > 0 AND x.conversion = c.position";
    let in_account = "(SELECT count(*) FROM conversion_credits x JOIN tenants o ON o.id = c.tenant_id
        WHERE x.conversion = c.position AND x.link = CASE WHEN c.first_link IS NULL THEN o.account - 1 ELSE o.account END)";
    let bound = "EXISTS (SELECT 1 FROM installs i WHERE i.app_user = c.app_user)";
    let before = "(SELECT MAX(p.at) FROM touches p WHERE p.install = t.install AND p.link = t.link AND p.number > 1
        AND (p.at < t.at OR p.at = t.at AND p.number < t.number))";
    for wrong in [
        format!("conversions c WHERE c.first_link IS DISTINCT FROM {first}"),
        format!("conversions c WHERE c.last_link IS DISTINCT FROM {last}"),
        format!("conversions c WHERE {links} <> {credited})"),
        format!(
            "conversions c WHERE c.last_link IS NOT NULL AND {credited} AND x.is_last AND x.link = c.last_link) <> 1"
        ),
        format!(
            "conversions c WHERE c.first_link IS NOT NULL AND {credited} AND x.is_first AND x.link = c.first_link) <> 1"
        ),
        format!(
            "conversions c WHERE {credited} AND (x.is_last OR x.is_first) AND x.link <> c.last_link AND x.link <> c.first_link) > 0"
        ),
        format!("conversions c WHERE {in_account} <> CASE WHEN c.emitted_at IS NULL THEN 0 ELSE 1 END"),
        "conversion_credits x JOIN conversions c ON c.position = x.conversion
            WHERE x.at <> c.at OR x.conversion_type <> c.conversion_type"
            .to_owned(),
        format!("conversions c WHERE (c.emitted_at IS NOT NULL) <> {bound}"),
        format!("touches t WHERE t.number > 1 AND t.opened_before IS DISTINCT FROM {before}"),
        "touches t WHERE t.number = 1 AND t.opened_before IS NOT NULL".to_owned(),
        "installs i WHERE i.touches <> (SELECT count(*) FROM touches t WHERE t.install = i.position)".to_owned(),
        "installs i WHERE (i.app_user IS NULL) <> (i.bound_as IS NULL) OR (i.app_user IS NULL) <> (i.bound_at IS NULL)"
            .to_owned(),
    ] {
        assert_eq!(count(world, &wrong).await, 0, "{wrong}");
    }
}
