//! Links through their pages.

use std::time::Duration;

use deeplink_server::config::MailTransport;
use http::Method;
use serde_json::json;

use super::{Visitor, text_of, went};
use deeplink_testing::{Role, spawn, spawn_with};

/// A link from its form to its deletion.
#[tokio::test]
async fn a_link_is_made_changed_and_deleted() {
    let world = spawn().await;
    let visitor = Visitor::signed_in(&world, &world.a).await;
    let id = visitor.form_id("/account/new-link").await;
    let fields = [
        ("form", &*id),
        ("custom_id", "spring-sale"),
        ("web_url", " https://shop.example.com/sale "),
        ("social_preview.title", "Sale"),
        ("social_preview.description", "one\r\ntwo"),
        ("agent_context.action", "purchase"),
        ("ios_deep_link", ""),
    ];
    for _ in 0..2 {
        let made = visitor.post("/account/new-link", &fields).await;
        assert_eq!(went(&made), (303, "/account/links/spring-sale?done=link-made"), "sent twice, made once");
    }
    let stored = world.a.get("/v1/links/spring-sale").await.json();
    assert_eq!(stored["web_url"], "https://shop.example.com/sale");
    assert_eq!(stored["social_preview"], json!({"title": "Sale", "description": "one\ntwo", "image_url": null}));
    assert_eq!(stored["agent_context"]["action"], "purchase");
    assert_eq!(stored["ios_deep_link"], json!(null));
    let page = text_of(&visitor.get("/account/links/spring-sale?done=link-made").await);
    assert!(page.contains("Your link is ready.") && page.contains("https://shop.example.com/sale"));
    assert!(!text_of(&visitor.get("/account/links/spring-sale?done=%3Cb%3E").await).contains("class=\"notice\""));

    for (change, status, at, text) in [
        (
            vec![("form", "1"), ("web_url", " ")],
            400,
            "web-url",
            "Enter at least one destination: a web page, an app or a store.",
        ),
        (
            vec![("form", "1"), ("qr.dotType", "classy")],
            400,
            "web-url",
            "Enter at least one destination: a web page, an app or a store.",
        ),
        (vec![("custom_id", "spring-sale")], 409, "custom-id", "This ID is already in use. Choose another one."),
        (vec![("custom_id", "-")], 400, "custom-id", ""),
        (vec![("web_url", "shop"), ("custom_id", "kept-id")], 400, "web-url", "Enter the full URL"),
        (vec![("ios_store_url", "https://example.com/")], 400, "ios-store-url", "Must be an App Store URL"),
        (vec![("agent_context.action", "steal")], 400, "agent-context-action", ""),
        (
            vec![("agent_context.cta", &"x".repeat(121))],
            400,
            "agent-context-cta",
            "Must be at most 120 characters (currently 121).",
        ),
    ] {
        let reply = visitor.post("/account/new-link", &change).await;
        let page = reply.text();
        assert_eq!(reply.status, status, "{change:?}");
        let error = page.split(&format!("id=\"{at}-error\">")).nth(1).and_then(|rest| rest.split('<').next());
        let error = error.unwrap_or_else(|| panic!("{change:?} has no error at {at}"));
        assert!(error.starts_with(text) && error.ends_with('.'), "{error}");
        assert!(page.contains(&format!("aria-describedby=\"{at}")) || at == "agent-context-action", "{page}");
        assert!(page.contains("<title>Error: "));
        if let Some((_, kept)) = change.iter().find(|(_, value)| *value == "kept-id") {
            assert!(page.contains(&format!("value=\"{kept}\"")), "the input is kept");
        }
    }

    // Groups of fields are folded, except those in which something was filled in or refused.
    let folded =
        |page: &str| ["", " open"].map(|open| page.matches(&format!("<details class=\"fold\"{open}>")).count());
    assert_eq!(folded(&visitor.get("/account/new-link").await.text()), [6, 0]);
    let refused = visitor.post("/account/new-link", &[("web_url", "shop"), ("ios_store_url", "shop")]).await;
    assert_eq!(folded(&refused.text()), [5, 1]);
    let form = visitor.get("/account/links/spring-sale/edit").await.text();
    assert_eq!(folded(&form), [3, 2]);
    assert!(form.contains("value=\"https://shop.example.com/sale\"") && form.contains("value=\"purchase\" selected"));
    let saved = visitor.post("/account/links/spring-sale/edit", &[("web_url", "https://shop.example.com/new")]).await;
    assert_eq!(went(&saved), (303, "/account/links/spring-sale?done=link-saved"));
    let stored = world.a.get("/v1/links/spring-sale").await.json();
    assert_eq!(stored["web_url"], "https://shop.example.com/new");
    assert_eq!(stored["social_preview"]["title"], "Sale", "fields that are not in the form are kept");
    assert_eq!(stored["agent_context"]["action"], "purchase");
    let blank = [("social_preview.title", ""), ("agent_context.action", "")];
    assert_eq!(visitor.post("/account/links/spring-sale/edit", &blank).await.status, 303);
    let stored = world.a.get("/v1/links/spring-sale").await.json();
    assert_eq!(stored["social_preview"], json!({"title": null, "description": "one\ntwo", "image_url": null}));
    assert_eq!((&stored["agent_context"], &stored["web_url"]), (&json!(null), &json!("https://shop.example.com/new")));
    let blank = [("social_preview.description", ""), ("web_url", "")];
    assert_eq!(visitor.post("/account/links/spring-sale/edit", &blank).await.status, 303);
    let stored = world.a.get("/v1/links/spring-sale").await.json();
    assert_eq!((&stored["social_preview"], &stored["web_url"]), (&json!(null), &json!(null)));
    let refused = visitor.post("/account/links/spring-sale/edit", &[("web_url", "nothing")]).await;
    assert_eq!(refused.status, 400);

    let code = visitor.get("/account/links/spring-sale/qr.png").await;
    assert_eq!((code.status, code.header("content-type")), (200, "image/png"));
    assert_eq!(code.header("content-disposition"), "attachment; filename=\"spring-sale.png\"");
    assert_eq!(visitor.get("/account/links/spring-sale/qr.gif").await.status, 400);

    assert!(
        text_of(&visitor.get("/account/links/spring-sale/delete").await).contains("You can restore it for 30 days.")
    );
    assert_eq!(world.a.get("/v1/links/spring-sale").await.status, 200, "the question deletes nothing");
    let gone = visitor.post("/account/links/spring-sale/delete", &[]).await;
    assert_eq!(went(&gone), (303, "/account/links?done=link-deleted"));
    assert_eq!(world.a.get("/v1/links/spring-sale").await.status, 404);
    let gone = visitor.post("/account/links/spring-sale/delete", &[]).await;
    assert_eq!(went(&gone), (303, "/account/links?done=gone"), "a second press does no harm");

    // The deletion is undone, and then the change before it.
    let list = visitor.get("/account/deleted-links").await.text();
    assert!(list.contains("/account/links/spring-sale/history") && list.contains("Restore spring-sale"), "{list}");
    let history = visitor.get("/account/links/spring-sale/history").await.text();
    assert!(history.contains("This link was deleted"), "{history}");
    assert!(history.contains("https://<wbr>shop.example.com/<wbr>new</code>"), "{history}");
    let rows: Vec<_> = history.split("role=\"rowheader\">").skip(1).map(|row| row.split('<').next()).collect();
    let changes =
        ["Deleted", "Web page, social preview changed", "Social preview, agent context changed", "Web page changed"];
    assert_eq!(rows, changes.map(Some));
    let refused = visitor.post("/account/links/spring-sale/history", &[("version", "99")]).await;
    assert_eq!(refused.status, 404, "it is no longer kept");
    let back = visitor.post("/account/links/spring-sale/history", &[]).await;
    assert_eq!(went(&back), (303, "/account/links/spring-sale?done=link-restored"));
    assert!(text_of(&visitor.get("/account/links/spring-sale?done=link-restored").await).contains("Link restored."));
    let history = visitor.get("/account/links/spring-sale/history").await.text();
    assert!(history.contains("Restored<") && !history.contains("This link was deleted"), "{history}");
    let form = history.split("name=\"form\" value=\"").nth(1).and_then(|rest| rest.split('"').next()).expect("a form");
    for _ in 0..2 {
        let back = visitor.post("/account/links/spring-sale/history", &[("form", form), ("version", "1")]).await;
        assert_eq!(went(&back).0, 303, "a second press does no harm");
    }
    let restored = world.a.get("/v1/links/spring-sale").await.json();
    assert_eq!(restored["web_url"], "https://shop.example.com/sale");
    let versions = world.a.get("/v1/links/spring-sale/history").await.json();
    assert_eq!(versions["versions"][0]["change"], "restored");
    let history = visitor.get("/account/links/spring-sale/history").await.text();
    let changed = "Restored<p class=\"mute\">Web page, social preview, agent context changed</p>";
    assert!(history.contains(changed), "{history}");
    assert_ne!(versions["versions"][1]["version"], versions["versions"][0]["version"]);
    assert!(visitor.get("/account/deleted-links").await.text().contains("There are no deleted links"));
    let told = text_of(&visitor.get("/account/links?done=gone").await);
    assert!(told.contains("It was already deleted."), "{told}");
}

/// A link that the operator took down says why, and offers nothing to print.
#[tokio::test]
async fn a_link_that_was_taken_down_says_why() {
    let world = spawn().await;
    world.a.make("phished").await;
    let visitor = Visitor::signed_in(&world, &world.a).await;
    let page = text_of(&visitor.get("/account/links/phished").await);
    assert!(page.contains("class=\"qr\"") && page.contains("<dt>Expires</dt>") && !page.contains("reason</dt>"));
    let tenant = world.a.tenant.as_str();
    let reason = format!(
        "INSERT INTO link_status_changes (tenant_id, link_id, status, reason, changed_at)
         VALUES ('{tenant}', 'phished', 'flagged', 'phishing', 1)"
    );
    world.db.execute(reason).await;
    world.db.execute("UPDATE links SET status = 'flagged', taken_down = TRUE WHERE link_id = 'phished'").await;
    let page = text_of(&visitor.get("/account/links/phished").await);
    let reason = "Operator’s reason</dt><dd class=\"lines\" dir=\"auto\">phishing</dd>";
    for part in ["Flagged as unsafe", "QR code does not work", reason] {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert!(!page.contains("class=\"qr\"") && !page.contains("<dt>Expires</dt>"), "{page}");
}

/// A link says when and why it expires, and how to keep it: the setting only to those who run the service themselves.
#[tokio::test]
async fn a_link_says_why_it_expires() {
    const DOMAIN: &str =
        "To stop links from expiring automatically, <a href=\"/account/domains\">verify your own domain</a>.";
    const SETTING: &str = "you can also set <code>DEEPLINK_UNVERIFIED_LINK_TTL_DAYS=0</code> for new links.";
    let world = spawn().await;
    let visitor = Visitor::signed_in(&world, &world.a).await;
    let expiry = async |id: &str| {
        let page = text_of(&visitor.get(&format!("/account/links/{id}")).await);
        let after = page.split("<dt>Expires</dt><dd>").nth(1).unwrap_or_else(|| panic!("{id}: {page}"));
        after.split("</div>").next().expect("an end").to_owned()
    };
    world.a.make("early-1").await;
    let end = world.clock.now().plus_days(30).to_string();
    let told = expiry("early-1").await;
    assert!(told.contains(&end) && told.contains(DOMAIN) && told.contains(SETTING), "{told}");
    let end = world.clock.now().plus_days(2).to_string();
    world.a.make_of(&json!({"custom_id": "soon-1", "expires_at": end})).await;
    let told = expiry("soon-1").await;
    assert!(told.contains(&end) && !told.contains(DOMAIN) && !told.contains(SETTING), "{told}");
    world.own_domain(&world.a, "go.example.com", Role::Primary).await;
    world.a.make("late-1").await;
    for id in ["early-1", "late-1"] {
        assert_eq!(expiry(id).await, "Never</dd>", "{id}");
    }

    let public = spawn_with(|config| {
        config.public_url = Some("https://links.example.com".parse().expect("a URL"));
        config.mail = Some(MailTransport::Directory(config.data_dir.join("mail")));
    })
    .await;
    public.a.make("early-1").await;
    let visitor = Visitor::signed_in(&public, &public.a).await;
    let page = visitor.ask(Method::GET, "/account/links/early-1").header("host", "links.example.com").send().await;
    assert!(text_of(&page).contains(DOMAIN) && !text_of(&page).contains(SETTING), "{}", page.text());
}

/// The list has pages by cursor and counts the clicks of people.
#[tokio::test]
async fn the_list_of_links_has_pages_and_counts() {
    let world = spawn().await;
    for number in 0..55 {
        world.a.make(&format!("link-{number:02}")).await;
    }
    for _ in 0..3 {
        world.a.tap("link-29").await;
    }
    world.a.tap("link-04").await;
    let visitor = Visitor::signed_in(&world, &world.a).await;
    let first = visitor.get("/account/links").await.text();
    assert_eq!(first.matches("<tr role=\"row\" class=\"link\">").count(), 50);
    assert!(first.contains(">link-29<") && !first.contains(">link-04<"));
    let clicks_in = |page: &str, id: &str| {
        let row = page.split(&format!(">{id}<")).nth(1).expect("a row").to_owned();
        row.split("class=\"number\">").nth(1).and_then(|rest| rest.split('<').next()).map(str::to_owned)
    };
    assert_eq!(clicks_in(&first, "link-29").as_deref(), Some("3"));
    assert_eq!(clicks_in(&first, "link-28").as_deref(), Some("0"));
    let next = first.split("href=\"/account/links?cursor=").nth(1).and_then(|rest| rest.split('"').next());
    let second = visitor.get(&format!("/account/links?cursor={}", next.expect("a next page"))).await.text();
    assert_eq!(second.matches("<tr role=\"row\" class=\"link\">").count(), 5);
    assert_eq!(clicks_in(&second, "link-04").as_deref(), Some("1"));
    assert!(second.contains("href=\"/account/links\"") && !second.contains("/account/links?cursor="));
    let broken = visitor.get("/account/links?cursor=nonsense").await;
    assert_eq!(broken.status, 400);
    assert!(text_of(&broken).contains("This list has changed"));
    assert!(text_of(&broken).contains("<a class=\"main\" href=\"/account/links\">Back to the first page</a>"));
    let searched = visitor.get("/account/links?q=a+%26b&cursor=x").await;
    let back = "<a class=\"main\" href=\"/account/links?q=a+%26b\">Back to the first page</a>";
    assert!(searched.status == 400 && text_of(&searched).contains(back), "the search stays: {}", text_of(&searched));
    assert_eq!(visitor.get("/account/links/link-29").await.text().matches("<figcaption><b>3</b> clicks").count(), 1);

    // A search, whose pages are pages of the search.
    let found = visitor.get("/account/links?q=%20LINK-0%20").await;
    let page = text_of(&found);
    assert_eq!(page.matches("<tr role=\"row\" class=\"link\">").count(), 10);
    assert!(page.contains("value=\"LINK-0\"") && page.contains("contain this text, newest first"), "{page}");
    let all = visitor.get("/account/links?q=link-").await.text();
    let next = all.split("href=\"/account/links?q=link-&#38;cursor=").nth(1).and_then(|rest| rest.split('"').next());
    let second = visitor.get(&format!("/account/links?q=link-&cursor={}", next.expect("a next page"))).await.text();
    assert_eq!(second.matches("<tr role=\"row\" class=\"link\">").count(), 5);
    assert!(second.contains("href=\"/account/links?q=link-\">Newest<"), "{second}");
    let none = text_of(&visitor.get("/account/links?q=%3Cb%3Enowhere").await);
    assert!(none.contains("No links contain “<bdi>&#60;b&#62;nowhere</bdi>”."), "{none}");
    assert!(none.contains("href=\"/account/new-link\">New link"), "{none}");
    assert_eq!(visitor.get(&format!("/account/links?q={}", "x".repeat(2_049))).await.status, 400);
}

/// The list shows the links with a status, and its pages stay at that.
#[tokio::test]
async fn the_list_shows_links_with_a_status() {
    let world = spawn().await;
    let visitor = Visitor::signed_in(&world, &world.a).await;
    let off = json!({"web_url": "https://example.com/", "custom_id": "is-off", "enabled": false, "tags": ["spring"]});
    world.a.post("/v1/links", &off).await;
    world.a.post("/v1/links", &json!({"web_url": "https://example.com/", "custom_id": "is-on"})).await;
    for (query, shown) in [
        ("", [true, true]),
        ("?status=", [true, true]),
        ("?status=disabled", [true, false]),
        ("?status=active&q=is", [false, true]),
        ("?status=disabled&tag=spring", [true, false]),
        ("?status=expired", [false, false]),
    ] {
        let page = visitor.get(&format!("/account/links{query}")).await.text();
        assert_eq!(["is-off", "is-on"].map(|id| page.contains(&format!(">{id}</a>"))), shown, "{query}");
    }
    let page = visitor.get("/account/links?status=disabled").await.text();
    assert!(page.contains("<option value=\"disabled\" selected>Disabled</option>"), "{page}");
    let none = text_of(&visitor.get("/account/links?status=flagged&q=is").await);
    assert!(none.contains("No flagged links contain “<bdi>is</bdi>”."), "{none}");
    let broken = text_of(&visitor.get("/account/links?status=disabled&cursor=x").await);
    assert!(broken.contains("href=\"/account/links?status=disabled\">Back to the first page</a>"), "{broken}");
    assert_eq!(visitor.get("/account/links?status=nix").await.status, 400);
}

/// The ids of a page of the list.
fn rows(page: &str) -> Vec<&str> {
    let rows = page.split("<tr role=\"row\" class=\"link\">").skip(1);
    rows.filter_map(|row| row.split("href=\"/account/links/").nth(1)?.split('"').next()).collect()
}

/// The list shows the links of a period and in another order, and its pages stay at that.
#[tokio::test]
async fn the_list_shows_a_period_and_has_other_orders() {
    let world = spawn().await;
    world.a.make("early").await;
    world.clock.advance(Duration::from_hours(8 * 24));
    for number in 0..51 {
        world.a.make(&format!("link-{number:02}")).await;
    }
    for id in ["link-20", "link-03", "link-03", "early"] {
        world.a.tap(id).await;
    }
    let visitor = Visitor::signed_in(&world, &world.a).await;
    let page = async |query: &str| text_of(&visitor.get(&format!("/account/links{query}")).await);
    assert!(!page("").await.contains("name=\"domain\""), "there is one host");
    for (query, first, last) in [
        ("?sort=newest", "link-50", "link-01"),
        ("?sort=oldest", "early", "link-48"),
        ("?created=today&sort=oldest", "link-00", "link-49"),
        ("?created=7d&sort=oldest&q=link", "link-00", "link-49"),
        ("?created=30d&sort=oldest&q=&tag=&status=&domain=", "early", "link-48"),
    ] {
        let page = page(query).await;
        let ids = rows(&page);
        assert_eq!((ids.len(), ids[0], ids[49]), (50, first, last), "{query}");
    }
    let oldest = page("?sort=oldest").await;
    for part in [
        "Your links, oldest first.",
        "<option value=\"oldest\" selected>Oldest first</option>",
        "<option value=\"\">Created any time</option><option value=\"today\">Created today</option>\
         <option value=\"7d\">Created last 7 days</option>",
        ">Newer</a>",
    ] {
        assert!(oldest.contains(part), "{part}: {oldest}");
    }
    // "The last 7 days" are others on the next day, but not on the next page.
    let first = page("?created=7d&sort=oldest").await;
    let next = first.split("href=\"/account/links?created=7d&#38;sort=oldest&#38;cursor=").nth(1);
    let cursor = next.and_then(|rest| rest.split('"').next()).expect("a next page");
    world.clock.advance(Duration::from_hours(24));
    let second = page(&format!("?created=7d&sort=oldest&cursor={cursor}")).await;
    assert_eq!(rows(&second), ["link-50"]);
    assert!(second.contains("href=\"/account/links?created=7d&#38;sort=oldest\">Oldest</a>"), "{second}");
    let all = page("?sort=oldest").await;
    let of_all = all.split("cursor=").nth(1).and_then(|rest| rest.split('"').next()).expect("a next page");
    for (other, cursor) in [
        ("sort=newest&q=link", cursor),
        ("created=7d", cursor),
        ("created=7d&sort=oldest&q=link", cursor),
        ("created=7d&sort=oldest&status=active", cursor),
        ("created=7d&sort=oldest", of_all),
        ("sort=clicks", of_all),
        ("created=7d&sort=clicks", cursor),
    ] {
        let other = visitor.get(&format!("/account/links?{other}&cursor={cursor}")).await;
        assert_eq!(other.status, 400, "a cursor of another list: {}", other.text());
    }

    let most = page("?sort=clicks").await;
    assert_eq!(rows(&most), ["link-03", "early", "link-20"]);
    assert!(most.contains("The most-clicked links of the last 30 days, at most 50."), "{most}");
    let some = page("?sort=clicks&q=link&created=30d").await;
    assert_eq!(rows(&some), ["link-03", "link-20"]);
    assert!(some.contains("Matching links of the 100 most-clicked links of the last 30 days, at most 50."), "{some}");
    for (query, text) in [
        ("?sort=clicks&status=flagged", "None of the 100 most-clicked links of the last 30 days match."),
        ("?created=today", "No links created today."),
        ("?created=today&q=x", "No links created today contain “<bdi>x</bdi>”."),
        ("?created=12m&q=none", "No links created in the last 12 months contain “<bdi>none</bdi>”."),
    ] {
        let page = page(query).await;
        assert!(page.contains(text) && page.contains("href=\"/account/links\">All links</a>"), "{query}: {page}");
    }
    let nobody = Visitor::signed_in(&world, &world.b).await;
    let none = text_of(&nobody.get("/account/links?sort=clicks").await);
    assert!(none.contains("No links were clicked in the last 30 days."), "{none}");
    assert!(text_of(&nobody.get("/account/links?sort=oldest").await).contains("No links yet"));
    for query in ["sort=name", "created=1d", "domain=a%20b", "sort=newest&sort=oldest"] {
        assert_eq!(visitor.get(&format!("/account/links?{query}")).await.status, 400, "{query}");
    }
}

/// The list of an account with several domains shows the links of one.
#[tokio::test]
async fn the_list_shows_the_links_of_a_domain() {
    let world = spawn().await;
    world.b.make("taken").await;
    for domain in ["one.example.com", "two.example.com"] {
        world.own_domain(&world.a, domain, Role::Primary).await;
        world.clock.advance(Duration::from_secs(1));
    }
    world.own_domain(&world.a, "app.example.com", Role::Alternate).await;
    world.a.make("taken").await;
    world.a.make("plain").await;
    let visitor = Visitor::signed_in(&world, &world.a).await;
    let page = async |query: &str| text_of(&visitor.get(&format!("/account/links{query}")).await);
    let all = page("").await;
    let options =
        all.split("<select id=\"domain\" name=\"domain\">").nth(1).and_then(|rest| rest.split("</select>").next());
    assert_eq!(
        options,
        Some(
            "<option value=\"\">All domains</option><option value=\"one.example.com\">one.example.com</option>\
             <option value=\"two.example.com\">two.example.com</option>"
        )
    );
    let one = page("?domain=One.example.com").await;
    assert_eq!(rows(&one), ["plain", "taken"]);
    assert!(one.contains("<option value=\"one.example.com\" selected>") && one.contains("Matching links"), "{one}");
    let two = page("?domain=two.example.com&sort=oldest").await;
    assert!(two.contains("No links with the domain <bdi>two.example.com</bdi>."), "{two}");
    // The domain of a link outlives it in the account.
    assert_eq!(world.a.delete("/v1/domains/one.example.com").await.status, 204);
    assert_eq!(rows(&page("?domain=two.example.com").await), ["plain"]);
    let gone = page("?domain=one.example.com").await;
    assert!(rows(&gone) == ["taken"] && gone.contains("<option value=\"one.example.com\" selected>"), "{gone}");
    // A tag that no link has any more stays chosen too.
    world.a.make_of(&json!({"custom_id": "tagged", "tags": ["Spring"]})).await;
    assert_eq!(rows(&page("?tag=spring").await), ["tagged"]);
    assert_eq!(world.a.delete("/v1/tags/spring").await.status, 204);
    let untagged = page("?tag=Spring").await;
    assert!(untagged.contains("No links with the tag “<bdi>Spring</bdi>”."), "{untagged}");
    assert!(untagged.contains("<option value=\"Spring\" selected>Spring</option>"), "{untagged}");
    // Without case, this tag is longer than a tag may be.
    let longest = format!("{}ß", "a".repeat(39));
    world.a.make_of(&json!({"custom_id": "longest", "tags": [longest]})).await;
    assert_eq!(rows(&page(&format!("?tag={}%C3%9F", "a".repeat(39))).await), ["longest"]);
    let both = page("?tag=Spring&domain=two.example.com").await;
    assert!(both.contains("“<bdi>Spring</bdi>” and the domain <bdi>two.example.com</bdi>."), "{both}");
}

/// The page of a link says what each device gets, and devices that get the same are named together.
#[tokio::test]
async fn a_link_explains_what_each_device_gets() {
    let world = spawn().await;
    let visitor = Visitor::signed_in(&world, &world.a).await;
    let card = async |id: &str| {
        let page = text_of(&visitor.get(&format!("/account/links/{id}")).await);
        let card = page.split("id=\"by-device\">").nth(1).and_then(|rest| rest.split("</section>").next());
        let rows = card.unwrap_or_else(|| panic!("no card: {page}")).split("<dt>").skip(1).map(|row| {
            let row = row.replace("</dt><dd>", ": ").replace("<p class=\"hint\">", " | ");
            ["<code class=\"take\">", "</code>", "</p>", "</dd></div>"]
                .iter()
                .fold(row, |row, tag| row.replace(tag, ""))
                .trim()
                .to_owned()
        });
        rows.map(|row| row.trim_end_matches("</dl>").trim().to_owned()).collect::<Vec<_>>()
    };
    world.a.make("spring-42").await;
    assert_eq!(
        card("spring-42").await,
        ["All devices: Redirect to: https://example.com/spring-42 | \
          The web page is the link’s only destination, so everyone is redirected to it."]
    );
    let body = json!({
        "custom_id": "get-app", "ios_deep_link": "myapp://sale?a=1&b=2",
        "ios_store_url": "https://apps.apple.com/app/id123456789", "android_deep_link": "myapp://sale",
    });
    world.a.make_of(&body).await;
    let rows = card("get-app").await;
    assert_eq!(rows.len(), 6, "{rows:?}");
    assert!(rows[0].starts_with("iPhone: Landing page with a button to: myapp://sale?a=1&#38;b=2 | "), "{rows:?}");
    assert!(
        rows[1].starts_with("iPad: Landing page with a button to: myapp://sale?a=1&#38;b=2 | An iPad sends"),
        "{rows:?}"
    );
    assert!(rows[3].starts_with("Mac: Landing page without a main button | "), "{rows:?}");
    assert!(
        rows[5].starts_with("Instagram on an iPhone: Landing page with a button to: https://apps.apple.com"),
        "{rows:?}"
    );
    assert_eq!(world.a.put("/v1/links/get-app", &json!({"enabled": false})).await.status, 200);
    let off = card("get-app").await;
    assert_eq!(
        off,
        ["All devices: Notice | The link is disabled, so everyone gets a notice that it is not available."]
    );
    world.expect_clicks(&[]).await;
}
