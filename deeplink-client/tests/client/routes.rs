//! Each operation of the route table has exactly one method, and each method sends what its route says.

use deeplink_client::deeplink_core::routes::{self, Credential};
use deeplink_client::mock::{MockTransport, fixtures};
use deeplink_client::{
    Attribute, Auth, AuthKind, BulkUpdate, Client, ConfirmSecretKey, Convert, CreateAffiliate, CreateApp, CreateDomain,
    CreateLink, CreatePublishableKey, CreateSource, CreateWebhook, Error, EventFilter, EventKind, ExplainQuery,
    FunnelQuery, Identify, InviteUser, Kind, LinkFilter, Patch, PublishableKey, QrFormat, QrOptions, RenameTag,
    ReplayDeliveries, RequestSecretKey, RestoreLink, SecretKey, Signin, Signup, TestWebhook, Tier, TimeseriesQuery,
    Timestamp, TrackClick, UpdateAccount, UpdateAffiliate, UpdateDomain, UpdateLink, UpdateWebhook,
};
use futures_util::StreamExt;

const AFFILIATE: &str = "aff_0123456789abcdef01234567";
const KEY: &str = "skid_0123456789abcdef01234567";

/// Calls the method of an operation; `None` for an operation that has none.
async fn call(dl: &Client, operation: &str) -> Option<Result<(), Error>> {
    let mut update = UpdateLink::new();
    update.web_url = Patch::Clear;
    let (links, keys, affiliates, token) = (dl.links(), dl.keys(), dl.affiliates(), fixtures::session_token());
    Some(match operation {
        "health" => dl.public().health().await.map(drop),
        "ready" => dl.public().ready().await.map(drop),
        "openapi" => dl.public().openapi().await.map(drop),
        "llms" => dl.public().llms().await.map(drop),
        "resolve" => dl.public().resolve("spring-42").await.map(drop),
        "apple_association" => dl.public().apple_association().await.map(drop),
        "asset_links" => dl.public().asset_links().await.map(drop),
        "signup" => dl.sessions().signup(&Signup::new("you@example.com")).await.map(drop),
        "signin" => dl.sessions().signin(&Signin::new("you@example.com")).await.map(drop),
        "callback" => dl.sessions().callback(&token).await.map(drop),
        "me" => dl.sessions().me().await.map(drop),
        "signout" => dl.sessions().signout().await,
        "list_users" => dl.team().list().await.map(drop),
        "invite_user" => dl.team().invite(&InviteUser::new("new@example.com")).await.map(drop),
        "remove_user" => dl.team().remove("usr_0123456789abcdef01234567").await,
        "accept_invite" => dl.team().accept(&token).await.map(drop),
        "whoami" => dl.whoami().await.map(drop),
        "list_secret_keys" => keys.list().await.map(drop),
        "request_secret_key" => keys.request(&RequestSecretKey::new("you@example.com")).await.map(drop),
        "confirm_secret_key" => keys.confirm(&ConfirmSecretKey::new("you@example.com", "7gk2qx")).await.map(drop),
        "issue_secret_key" => keys.issue().await.map(drop),
        "delete_secret_key" => keys.delete(KEY).await,
        "list_publishable_keys" => dl.publishable_keys().list().await.map(drop),
        "create_publishable_key" => {
            dl.publishable_keys().create(&CreatePublishableKey::new("go.example.com")).await.map(drop)
        }
        "delete_publishable_key" => dl.publishable_keys().delete("pkid_0123456789abcdef01234567").await,
        "list_affiliates" => affiliates.list().await.map(drop),
        "create_affiliate" => affiliates.create(&CreateAffiliate::new("Partner", "partner")).await.map(drop),
        "get_affiliate" => affiliates.get(AFFILIATE).await.map(drop),
        "update_affiliate" => affiliates.update(AFFILIATE, &UpdateAffiliate::new().name("New")).await.map(drop),
        "delete_affiliate" => affiliates.delete(AFFILIATE).await,
        "list_credentials" => affiliates.credentials(AFFILIATE).list().await.map(drop),
        "create_credential" => affiliates.credentials(AFFILIATE).create().await.map(drop),
        "delete_credential" => affiliates.credentials(AFFILIATE).delete(KEY).await,
        "list_links" => links.list(&LinkFilter::new()).first_page().await.map(drop),
        "create_link" => links.create(&CreateLink::new()).await.map(drop),
        // The operation has two body formats, and a method for each.
        "bulk_create_links" => {
            let one = links.bulk_create(&CreateLink::new(), ["abc"]).await;
            links.bulk_create_links(&[CreateLink::new()]).await.and(one).map(drop)
        }
        "bulk_update_links" => links.bulk_update(&BulkUpdate::new(["spring-42"]).add_tags(["spring"])).await.map(drop),
        "bulk_delete_links" => links.bulk_delete(["spring-42", "spring-43"]).await.map(drop),
        "get_link" => links.get("spring-42").await.map(drop),
        "update_link" => links.update("spring-42", &update).await.map(drop),
        "delete_link" => links.delete("spring-42").await,
        "link_qr" => links.qr("spring-42", QrFormat::Svg, &QrOptions::new()).await.map(drop),
        "link_history" => links.history("spring-42").await.map(drop),
        "restore_link" => links.restore("spring-42", RestoreLink::new()).await.map(drop),
        "explain_link" => links.explain("spring-42", &ExplainQuery::new()).await.map(drop),
        "link_timeseries" => links.timeseries("spring-42", &TimeseriesQuery::new()).await.map(drop),
        "list_tags" => dl.tags().list().await.map(drop),
        "rename_tag" => dl.tags().rename("spring", &RenameTag::new("Spring sale")).await.map(drop),
        "delete_tag" => dl.tags().delete("Spring sale / 50 %").await,
        "list_qr_logos" => dl.qr_logos().list().await.map(drop),
        "put_qr_logo" => dl.qr_logos().put("acme", fixtures::qr_code(QrFormat::Png)).await.map(drop),
        "get_qr_logo" => dl.qr_logos().get("acme").await.map(drop),
        "delete_qr_logo" => dl.qr_logos().delete("acme").await,
        "list_apps" => dl.apps().list().await.map(drop),
        "create_app" => dl.apps().create(&CreateApp::ios("com.example.app", "ABCDE12345")).await.map(drop),
        "delete_app" => dl.apps().delete("app_0123456789abcdef01234567").await,
        "list_domains" => dl.domains().list().await.map(drop),
        "create_domain" => dl.domains().create(&CreateDomain::new("go.example.com")).await.map(drop),
        "update_domain" => {
            let update = UpdateDomain::new().root_url("https://www.example.com/");
            dl.domains().update("go.example.com", &update).await.map(drop)
        }
        "delete_domain" => dl.domains().delete("go.example.com").await,
        "verify_domain" => dl.domains().verify("go.example.com").await.map(drop),
        other => return report(dl, other).await,
    })
}

/// The same for reports and sources.
async fn report(dl: &Client, operation: &str) -> Option<Result<(), Error>> {
    let (lifecycle, sources) = (dl.lifecycle(), dl.sources());
    let (click, opened) = (TrackClick::new("spring-42"), Attribute::new("spring-42", "install-1", "2.4.0"));
    let (who, sale) = (Identify::new("install-1", "user-7"), Convert::new("user-7", "purchase"));
    Some(match operation {
        "link_stats" => dl.links().stats("spring-42").await.map(drop),
        "funnel" => dl.analytics().funnel(&FunnelQuery::new(["spring-42"])).await.map(drop),
        "track_click" => lifecycle.click(&click).await.map(drop),
        "attribute" => lifecycle.attribute(&opened).await.map(drop),
        "identify" => lifecycle.identify(&who).await.map(drop),
        "convert" => lifecycle.convert(&sale).await.map(drop),
        "attribution_click" => lifecycle.legacy().click(&click).await.map(drop),
        "attribution_report" => lifecycle.legacy().report(&opened).await.map(drop),
        "attribution_link" => lifecycle.legacy().link(&who).await.map(drop),
        "get_account" => dl.account().get().await.map(drop),
        "update_account" => dl.account().update(&UpdateAccount::new().name("Example")).await.map(drop),
        "export_account" => dl.account().export().first_page().await.map(drop),
        "delete_account" => dl.account().delete(&fixtures::account().id).await.map(drop),
        "cancel_account_deletion" => dl.account().cancel_deletion().await.map(drop),
        "list_audit_log" => dl.audit().list().await.map(drop),
        "list_sources" => sources.list().await.map(drop),
        "create_source" => sources.create(&CreateSource::custom("Shop")).await.map(drop),
        "get_source" => sources.get("src_0123456789abcdef01234567").await.map(drop),
        "delete_source" => sources.delete("src_0123456789abcdef01234567").await,
        "send_to_source" => sources.send(&fixtures::source_detail("Shop").webhook_url.unwrap(), &sale).await.map(drop),
        other => return webhook(dl, other).await,
    })
}

/// The same for webhooks and the plan.
async fn webhook(dl: &Client, operation: &str) -> Option<Result<(), Error>> {
    const WEBHOOK: &str = "wh_0123456789abcdef01234567";
    let webhooks = dl.webhooks();
    Some(match operation {
        "list_webhooks" => webhooks.list().await.map(drop),
        "create_webhook" => {
            let new = CreateWebhook::new("https://hooks.example.com/", [EventKind::Conversion]);
            webhooks.create(&new).await.map(drop)
        }
        "update_webhook" => webhooks.update(WEBHOOK, &UpdateWebhook::new().active(false)).await.map(drop),
        "delete_webhook" => webhooks.delete(WEBHOOK).await,
        "rotate_webhook_secret" => webhooks.rotate_secret(WEBHOOK).await.map(drop),
        "test_webhook" => webhooks.test(WEBHOOK, &TestWebhook::new()).await.map(drop),
        "list_deliveries" => webhooks.deliveries(WEBHOOK).first_page().await.map(drop),
        "list_events" => dl.events().list(&EventFilter::new()).first_page().await.map(drop),
        "event_stream" => dl.events().stream().next().await.unwrap().map(drop),
        "billing_status" => dl.billing().status().await.map(drop),
        "cancel_subscription" => dl.billing().cancel().await.map(drop),
        "create_checkout" => dl.billing().checkout(&Tier::Pro).await.map(drop),
        "create_portal" => dl.billing().portal().await.map(drop),
        "replay_deliveries" => {
            let asked = ReplayDeliveries::failed_since(Timestamp::from_millis(0));
            webhooks.replay_failed(WEBHOOK, &asked).await.map(drop)
        }
        "replay_delivery" => webhooks.replay(WEBHOOK, "dlv_0123456789abcdef01234567").await.map(drop),
        _ => return None,
    })
}

/// A client with a credential that the route accepts.
fn client(mock: &MockTransport, auth: Auth) -> Client {
    Client::builder("https://api.example.com").auth(auth).transport(mock.clone()).build().unwrap()
}

/// The credential an operation accepts; `None` for one without.
fn needs(credential: Credential) -> Option<AuthKind> {
    match credential {
        _ if !credential.is_for_programs() => None,
        Credential::Public => None,
        Credential::Session => Some(AuthKind::Session),
        Credential::PublishableKey => Some(AuthKind::PublishableKey),
        Credential::SdkKey => Some(AuthKind::AnyKey),
        _ => Some(AuthKind::SecretKey),
    }
}

/// Whether an operation that needs `needs` accepts `have`.
fn takes(needs: AuthKind, have: AuthKind) -> bool {
    needs == have || needs == AuthKind::AnyKey && matches!(have, AuthKind::SecretKey | AuthKind::PublishableKey)
}

/// One credential of each kind.
fn every_auth() -> [Auth; 4] {
    let key = SecretKey::new("dl_live_x");
    [Auth::None, key.into(), PublishableKey::new("pk_live_x").into(), fixtures::session_token().into()]
}

#[tokio::test]
async fn every_operation_has_its_method() {
    for route in routes::ALL {
        let mock = fixtures::every_operation();
        let auth = match route.credential {
            Credential::Session => fixtures::session_token().into(),
            Credential::SdkKey | Credential::PublishableKey => PublishableKey::new("pk_live_x").into(),
            _ => SecretKey::new("dl_live_x").into(),
        };
        let called = call(&client(&mock, auth), route.operation).await;
        // It is for a person's browser or the payment processor, not for programs.
        if !route.credential.is_for_programs() {
            assert!(called.is_none() && mock.calls().is_empty(), "{} has a method", route.operation);
            continue;
        }
        called.unwrap_or_else(|| panic!("{} has no method", route.operation)).unwrap();
        let calls = mock.calls();
        assert!(!calls.is_empty());
        for call in calls {
            assert_eq!(call.method, route.method, "{}", route.operation);
            let path = call.uri.path().split('/');
            let fits = |(part, asked): (&str, &str)| match part.split_once('{') {
                Some((fixed, _)) => asked.len() > fixed.len() && asked.starts_with(fixed),
                None => part == asked,
            };
            assert_eq!(route.path.split('/').count(), path.clone().count(), "{}: {}", route.operation, call.uri);
            assert!(route.path.split('/').zip(path).all(fits), "{}: {}", route.operation, call.uri);
            let sent = (call.headers.contains_key("authorization"), call.headers.contains_key("cookie"));
            let due = needs(route.credential);
            let is_key = due.is_some_and(|due| due != AuthKind::Session);
            let expected = (is_key, due == Some(AuthKind::Session));
            assert_eq!(sent, expected, "{}", route.operation);
            // Authenticated calls are applied once; others must not be repeated under a key. A repeated deletion of many
            // would be refused, because the links are gone.
            let keyed = call.headers.contains_key("idempotency-key");
            let is_once = route.method == "POST" || route.operation == "bulk_delete_links";
            assert_eq!(keyed, due.is_some() && is_once, "{}", route.operation);
        }
    }
}

/// A call whose route does not accept the client's kind of credential says so, and nothing is sent.
#[tokio::test]
async fn no_operation_takes_another_credential() {
    for route in routes::ALL.iter().filter(|route| route.credential.is_for_programs()) {
        for auth in every_auth() {
            let (mock, have) = (fixtures::every_operation(), auth.kind());
            let outcome = call(&client(&mock, auth), route.operation).await.unwrap();
            match needs(route.credential) {
                Some(needs) if !takes(needs, have) => {
                    assert_eq!(
                        outcome.unwrap_err().kind(),
                        Kind::WrongCredential { needs, have },
                        "{}",
                        route.operation
                    );
                    assert!(mock.calls().is_empty(), "{}", route.operation);
                }
                _ => outcome.unwrap_or_else(|error| panic!("{}: {error}", route.operation)),
            }
        }
    }
}

/// Wire types live in core: this crate reads and writes them, and defines none except in its own journal.
#[test]
fn no_wire_type_is_defined_here() {
    fn look(dir: &std::path::Path) {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                if !path.ends_with("bulk") {
                    look(&path);
                }
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                let own = text.lines().any(|line| line.contains("derive(") && line.contains("Deserialize"));
                assert!(!own, "{} defines a wire type", path.display());
            }
        }
    }
    look(&std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src"));
}

/// The table of methods on the front page is the route table.
#[test]
fn the_front_page_lists_every_operation() {
    let page = include_str!("../../README.md");
    for route in routes::ALL {
        let place = format!("`{} {}`", route.method, route.path);
        let row = page.lines().find(|line| line.starts_with('|') && line.contains(&place));
        let credential = match needs(route.credential) {
            _ if !route.credential.is_for_programs() => {
                assert_eq!(row, None, "it has no method");
                continue;
            }
            None => "| – |",
            Some(AuthKind::Session) => "| session |",
            Some(AuthKind::AnyKey) => "| publishable or secret key |",
            Some(AuthKind::PublishableKey) => "| publishable key |",
            Some(_) => "| secret key |",
        };
        assert!(row.expect(&place).ends_with(credential), "{row:?}");
    }
}
