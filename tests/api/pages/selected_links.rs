//! Links that are selected in their list and changed together, and the list as a file.

use deeplink_core::link::row::COLUMNS;
use http::Method;
use serde_json::{Value, json};

use super::{Visitor, stored, text_of, went};
use deeplink_testing::{Caller, World, spawn};

/// A form for these links.
fn form<'a>(links: &[&'a str], action: &'a str, tags: &'a str) -> Vec<(&'static str, &'a str)> {
    let links = links.iter().map(|id| ("link", *id));
    links.chain([("action", action), ("tags", tags)]).collect()
}

/// A member of each of these links.
async fn each(caller: &Caller, links: &[&str], member: &str) -> Vec<Value> {
    let mut values = Vec::new();
    for id in links {
        values.push(caller.get(&format!("/v1/links/{id}")).await.json()[member].clone());
    }
    values
}

async fn make(world: &World, ids: &[&str]) {
    for id in ids {
        world.a.make(id).await;
    }
}

#[tokio::test]
async fn selected_links_are_changed_together() {
    let world = spawn().await;
    let ids = ["link-1", "link-2", "link-3"];
    make(&world, &ids).await;
    let visitor = Visitor::signed_in(&world, &world.a).await;
    let list = visitor.get("/account/links?tag=&q=link&sort=oldest").await.text();
    for part in [
        "action=\"/account/selected-links?q=link&#38;sort=oldest\"",
        "<input type=\"checkbox\" name=\"link\" value=\"link-2\" aria-label=\"Select link-2\">",
        "<option value=\"\" selected>Choose an action</option>",
        "href=\"/account/links.csv?q=link&#38;sort=oldest\">Download CSV</a>",
    ] {
        assert!(list.contains(part), "{part}: {list}");
    }
    let path = "/account/selected-links?q=link&sort=oldest";
    // The notice counts what was changed apart from what was so already.
    for (action, tags, links, done, notice) in [
        ("disable", "", &ids[..1], "links-disabled&n=1", "1 link disabled."),
        ("disable", "", &ids, "links-disabled&n=2&unchanged=1", "2 links disabled. 1 was already disabled."),
        ("disable", "spring", &[ids[0], ids[0]], "links-disabled&n=0&unchanged=1", "1 link was already disabled."),
        ("enable", ",", &ids[1..], "links-enabled&n=2", "2 links enabled."),
        ("enable", "", &ids[1..], "links-enabled&n=0&unchanged=2", "2 links were already enabled."),
        ("add_tags", "spring", &ids[..2], "links-tagged&n=2", "Tags added to 2 links."),
        ("add_tags", "Spring", &ids, "links-tagged&n=1&unchanged=2", "Tags added to 1 link. 2 already had these tags."),
        ("add_tags", " Spring ,poster, spring", &ids, "links-tagged&n=3", "Tags added to 3 links."),
        ("add_tags", "poster,spring", &ids, "links-tagged&n=0&unchanged=3", "3 links already had these tags."),
        ("remove_tags", "POSTER", &ids[2..], "links-untagged&n=1", "Tags removed from 1 link."),
        (
            "remove_tags",
            "poster,other",
            &ids[1..],
            "links-untagged&n=1&unchanged=1",
            "Tags removed from 1 link. 1 did not have these tags.",
        ),
        ("remove_tags", "other", &ids, "links-untagged&n=0&unchanged=3", "3 links did not have these tags."),
    ] {
        let sent = visitor.post(path, &form(links, action, tags)).await;
        let to = format!("/account/links?q=link&sort=oldest&done={done}");
        assert_eq!(went(&sent), (303, &*to), "{action}: {}", sent.text());
        let page = text_of(&visitor.get(&to).await);
        assert!(page.contains(&format!("<p class=\"notice\" role=\"status\">{notice}</p>")), "{page}");
    }
    assert_eq!(each(&world.a, &ids, "enabled").await, [json!(false), json!(true), json!(true)]);
    let one = json!(["spring"]);
    assert_eq!(each(&world.a, &ids, "tags").await, [json!(["poster", "spring"]), one.clone(), one]);
    let history = world.a.get("/v1/links/link-3/history").await.json();
    assert_eq!(history["versions"][0]["bulk"], true);
    for query in [
        "done=links-disabled",
        "done=links-disabled&n=x",
        "done=links-disabled&n=-1",
        "done=links-disabled&n=0&unchanged=0",
        "done=links-disabled&unchanged=1",
        "done=link-made&n=1",
    ] {
        let page = text_of(&visitor.get(&format!("/account/links?{query}")).await);
        assert!(!page.contains("class=\"notice\""), "{query}: {page}");
    }
}

/// What is refused changes nothing, and the list is shown again with what was selected and entered.
#[tokio::test]
async fn a_refused_change_of_selected_links_changes_nothing_and_loses_nothing() {
    let world = spawn().await;
    make(&world, &["link-1", "taken", "full", "full-too"]).await;
    world.b.make("foreign").await;
    let many: Vec<String> = (0..20).map(|at| format!("tag {at}")).collect();
    for id in ["full", "full-too"] {
        assert_eq!(world.a.put(&format!("/v1/links/{id}"), &json!({"tags": many})).await.status, 200);
    }
    world.a.make("taken-too").await;
    world.db.execute("UPDATE links SET status = 'disabled', taken_down = TRUE WHERE link_id LIKE 'taken%'").await;
    let visitor = Visitor::signed_in(&world, &world.a).await;
    let (long, more) = ("x".repeat(41), many.join(",") + ",more");
    let hundred: Vec<String> = (0..101).map(|at| format!("link-{at}")).collect();
    let hundred: Vec<&str> = hundred.iter().map(String::as_str).collect();
    world.at_rest().await;
    let before = stored(&world).await;
    for (links, action, tags, text) in [
        (&["link-1"][..], "", "", "id=\"action-error\">Choose an action.<"),
        (&[], "disable", "", "role=\"alert\">Select at least one link.<"),
        (&["link-1"], "steal", "", "id=\"action-error\">Choose an action.<"),
        (&["link-1"], "add_tags", "", "id=\"tags-error\">Enter at least one tag.<"),
        (&["link-1"], "remove_tags", " , ", "id=\"tags-error\">Enter at least one tag.<"),
        (&["link-1"], "add_tags", &long, "id=\"tags-error\">A tag must be at most 40 characters (currently 41).<"),
        (&["link-1"], "remove_tags", &more, "id=\"tags-error\">Must contain at most 20 tags.<"),
        (
            &["full", "link-1"],
            "add_tags",
            "more",
            ">Nothing was changed. full: The link would have more than 20 tags.<",
        ),
        (
            &["full-too", "link-1", "full"],
            "add_tags",
            "more",
            ">Nothing was changed. full-too, full: The links would have more than 20 tags.<",
        ),
        (
            &["gone", "link-1", "foreign", "taken"],
            "enable",
            "",
            ">Nothing was changed. gone, foreign: These links no longer exist. \
             taken: The operator of this service has disabled this link.<",
        ),
        (
            &["taken-too", "taken", "link-1"],
            "enable",
            "",
            ">Nothing was changed. taken-too, taken: The operator of this service has disabled these links.<",
        ),
        (&["link-1", "a b"], "disable", "", ">Nothing was changed. a b: This link no longer exists.<"),
        // It is not even asked whether to delete them.
        (&["link-1", "foreign"], "delete", "", ">Nothing was changed. foreign: This link no longer exists.<"),
        (&["a b", "gone", "full"], "delete", "", ">Nothing was changed. a b, gone: These links no longer exist.<"),
        (&hundred, "delete", "", "role=\"alert\">Select at most 100 links.<"),
    ] {
        let refused = visitor.post("/account/selected-links?sort=oldest", &form(links, action, tags)).await;
        let page = text_of(&refused);
        assert_eq!(refused.status, 400, "{action}: {page}");
        assert!(page.contains(text), "{text}: {page}");
        assert!(refused.text().contains("<title>Error: Links"), "{}", refused.text());
        assert!(page.contains("Your links, oldest first."), "{page}");
        for id in ["link-1", "taken", "taken-too", "full", "full-too"] {
            let checked = format!("value=\"{id}\" aria-label=\"Select {id}\" checked>");
            assert_eq!(page.contains(&checked), links.contains(&id), "{id}: {page}");
        }
        let is_chosen = page.contains(&format!("<option value=\"{action}\" selected>"));
        assert!(is_chosen != (action == "steal"), "{action}: {page}");
        assert!(page.contains(&format!("name=\"tags\" type=\"text\" value=\"{}\"", tags.trim())), "{page}");
    }
    assert!(before == stored(&world).await, "something was done");
    for body in ["link=link-1&action=enable&action=disable", "link=link-1&tags=a&tags=b&action=add_tags"] {
        let ask = visitor.ask(Method::POST, "/account/selected-links");
        let reply = ask.body_as("application/x-www-form-urlencoded", body.to_owned()).send().await;
        assert_eq!(reply.status, 400, "{body}");
    }
    assert_eq!(visitor.post("/account/selected-links?status=nix", &form(&["link-1"], "disable", "")).await.status, 400);
    assert!(before == stored(&world).await, "something was done");
    let stranger = Visitor::stranger(&world);
    let sent = stranger.post("/account/selected-links?q=a", &form(&["link-1"], "disable", "")).await;
    assert_eq!(went(&sent), (303, "/signin?next=%2Faccount%2Fselected-links%3Fq%3Da"));
    // A reload or a sign-in leads to the list.
    for (path, to) in [
        ("/account/selected-links", "/account/links"),
        ("/account/selected-links?q=a+b&cursor=x", "/account/links?q=a+b&cursor=x"),
    ] {
        assert_eq!(went(&visitor.get(path).await), (303, to), "{path}");
    }
    // The name of the page is no reserved ID, so a link can have it.
    world.a.make("selected-links").await;
    assert_eq!(visitor.get("/account/links/selected-links").await.status, 200);
}

#[tokio::test]
async fn selected_links_are_deleted_once_that_is_confirmed() {
    let world = spawn().await;
    make(&world, &["link-2", "link-3"]).await;
    let named = json!({"custom_id": "link-1", "name": "Spring <sale>", "web_url": "https://shop.example.com/spring"});
    world.a.make_of(&named).await;
    let bare = world.a.make_of(&json!({"custom_id": "bare"})).await;
    let visitor = Visitor::signed_in(&world, &world.a).await;
    let path = "/account/selected-links?q=link";
    let asked = visitor.post(path, &form(&["bare"], "delete", "")).await;
    let page = text_of(&asked);
    let row = format!("<li><bdi>{bare}</bdi><span class=\"mute cut\">No destination</span></li>");
    assert!(page.contains("Delete 1 link?") && page.contains(&row), "{page}");
    let asked = visitor.post(path, &form(&["link-2", "link-1", "link-2"], "delete", "")).await;
    let page = text_of(&asked);
    for part in [
        "Delete 2 links?",
        "<ul class=\"subject\">\n<li><bdi>link-2</bdi>",
        "<li><bdi>link-1</bdi><span class=\"mute cut\" dir=\"auto\">Spring &#60;sale&#62;</span>\
         <span class=\"mute cut\">https://shop.example.com/spring</span></li>\n</ul>",
        "You can restore them for 30 days.",
        "action=\"/account/selected-links?q=link\"",
        "<input type=\"hidden\" name=\"link\" value=\"link-2\">",
        "<a href=\"/account/links?q=link\">Cancel</a>",
    ] {
        assert!(asked.status == 200 && page.contains(part), "{part}: {page}");
    }
    assert_eq!(world.a.get("/v1/links/link-1").await.status, 200, "the question deletes nothing");
    let confirmed = |links: &[&'static str]| {
        let mut fields = form(links, "delete", "");
        fields.push(("confirmed", "yes"));
        fields
    };
    for done in ["links-deleted&n=2", "links-gone&n=2"] {
        let sent = visitor.post(path, &confirmed(&["link-1", "link-2"])).await;
        assert_eq!(went(&sent), (303, &*format!("/account/links?q=link&done={done}")), "{}", sent.text());
    }
    let page = text_of(&visitor.get("/account/links?done=links-deleted&n=2").await);
    assert!(page.contains("2 links deleted. You can restore them for 30 days under “Deleted links”."), "{page}");
    assert!(text_of(&visitor.get("/account/links?done=links-gone&n=2").await).contains("They were already deleted."));
    let refused = visitor.post(path, &confirmed(&["link-2", "link-3"])).await;
    let page = text_of(&refused);
    assert!(
        refused.status == 400 && page.contains(">Nothing was changed. link-2: This link no longer exists.<"),
        "{page}"
    );
    assert!(page.contains("value=\"link-3\" aria-label=\"Select link-3\" checked>"), "{page}");
    assert_eq!(world.a.get("/v1/links/link-3").await.status, 200);
    let one = visitor.post(path, &form(&["link-3"], "delete", "")).await;
    assert!(text_of(&one).contains("Delete 1 link?") && text_of(&one).contains("You can restore it for 30 days."));
    let gone = visitor.post(path, &confirmed(&["link-3"])).await;
    let page = text_of(&visitor.get(gone.header("location")).await);
    assert!(
        page.contains("1 link deleted. You can restore it for 30 days") && page.contains("No links contain"),
        "{page}"
    );
    for id in ["link-1", "link-2", "link-3"] {
        let back = world.a.post(&format!("/v1/links/{id}/restore"), &json!({})).await;
        assert_eq!(back.status, 200, "{}", back.text());
    }
}

/// A page of 50 links with what is usual is within the limit of all pages, and a form returns to its page of the list.
#[tokio::test]
async fn fifty_links_are_a_page_that_their_form_returns_to() {
    let world = spawn().await;
    let row = |at: u32| {
        let mut tags = vec!["spring", "newsletter"];
        tags.truncate(1 + at as usize % 2);
        json!({
            "custom_id": format!("spring-{at:03}"), "name": "Spring sale at the greenhouse", "tags": tags,
            "web_url": format!("https://shop.example.com/spring/{at}"),
        })
    };
    let links: Vec<Value> = (0..60).map(row).collect();
    assert_eq!(world.a.post("/v1/links/bulk", &json!({"links": links})).await.status, 201);
    let visitor = Visitor::signed_in(&world, &world.a).await;
    let first = visitor.get("/account/links?sort=oldest").await;
    assert_eq!(first.text().matches("<tr role=\"row\" class=\"link\">").count(), 50);
    assert!(first.body.len() <= 60 * 1_024, "{} bytes", first.body.len());
    let next =
        first.text().split("sort=oldest&#38;cursor=").nth(1).and_then(|rest| rest.split('"').next().map(str::to_owned));
    let query = format!("sort=oldest&cursor={}", next.expect("a next page"));
    let second = visitor.get(&format!("/account/links?{query}")).await.text();
    let action = format!("action=\"/account/selected-links?{}\"", query.replace('&', "&#38;"));
    assert!(second.contains(&action) && second.contains("value=\"spring-050\""), "{second}");
    let path = format!("/account/selected-links?{query}");
    let refused = visitor.post(&path, &form(&["spring-055"], "add_tags", "")).await;
    let page = text_of(&refused);
    assert!(refused.status == 400 && page.contains("aria-label=\"Select spring-055\" checked>"), "{page}");
    assert_eq!(page.matches("<tr role=\"row\" class=\"link\">").count(), 10);
    let sent = visitor.post(&path, &form(&["spring-055"], "disable", "")).await;
    assert_eq!(went(&sent), (303, &*format!("/account/links?{query}&done=links-disabled&n=1")));
    let back = text_of(&visitor.get(sent.header("location")).await);
    assert!(back.contains("1 link disabled.") && back.contains("value=\"spring-055\""), "{back}");
    let broken = visitor.post("/account/selected-links?cursor=x", &form(&["spring-055"], "add_tags", "")).await;
    assert!(broken.status == 400 && text_of(&broken).contains("This list has changed"), "{}", broken.text());
}

/// The ids of a file, whose first line is the header of an export.
async fn ids_in(visitor: &Visitor<'_>, query: &str) -> Vec<String> {
    let file = visitor.get(&format!("/account/links.csv{query}")).await;
    assert_eq!((file.status, file.header("content-type")), (200, "text/csv; charset=utf-8"), "{query}");
    let text = file.text();
    let (header, lines) = text.split_once("\r\n").expect("a header");
    assert_eq!(header.strip_prefix('\u{feff}'), Some(&*COLUMNS.join(",")));
    lines.split_terminator("\r\n").filter_map(|line| line.split(',').next()).map(str::to_owned).collect()
}

#[tokio::test]
async fn the_list_of_links_is_downloaded_with_its_filters() {
    let world = spawn().await;
    let ids: Vec<String> = (0..150).map(|at| format!("link-{at:03}")).collect();
    for part in ids.chunks(75) {
        let links: Vec<Value> =
            part.iter().map(|id| json!({"custom_id": id, "web_url": "https://example.com/"})).collect();
        assert_eq!(world.a.post("/v1/links/bulk", &json!({"links": links})).await.status, 201);
    }
    for id in ["link-007", "link-149"] {
        assert_eq!(
            world.a.put(&format!("/v1/links/{id}"), &json!({"enabled": false, "tags": ["Spring"]})).await.status,
            200
        );
    }
    for id in ["link-020", "link-003", "link-003"] {
        world.a.tap(id).await;
    }
    let visitor = Visitor::signed_in(&world, &world.a).await;
    assert_eq!(ids_in(&visitor, "?sort=oldest").await, ids, "in pages of 64");
    let newest: Vec<String> = ids.iter().rev().cloned().collect();
    assert_eq!(ids_in(&visitor, "").await, newest);
    for (query, expected) in [
        ("?status=disabled", &["link-149", "link-007"][..]),
        ("?tag=spring&sort=oldest&q=&status=&created=7d", &["link-007", "link-149"]),
        ("?q=LINK-00&created=today&sort=oldest&status=disabled", &["link-007"]),
        ("?sort=clicks", &["link-003", "link-020"]),
        ("?status=flagged", &[]),
    ] {
        assert_eq!(ids_in(&visitor, query).await, expected, "{query}");
    }
    assert_eq!(ids_in(&Visitor::signed_in(&world, &world.b).await, "").await, [""; 0], "nothing of another account");
    let head = visitor.ask(Method::HEAD, "/account/links.csv").send().await;
    let name = "attachment; filename=\"deeplink-links-20";
    assert!(head.status == 200 && head.header("content-disposition").starts_with(name), "{}", head.status);
    assert_eq!((head.header("cache-control"), head.header("x-content-type-options")), ("no-store", "nosniff"));
    for query in ["status=nix", "sort=name", "q=a&q=b"] {
        assert_eq!(visitor.get(&format!("/account/links.csv?{query}")).await.status, 400, "{query}");
    }
    let stranger = Visitor::stranger(&world).get("/account/links.csv?q=a").await;
    assert_eq!(went(&stranger), (303, "/signin?next=%2Faccount%2Flinks.csv%3Fq%3Da"));
    assert_eq!(visitor.post("/account/links.csv", &[]).await.status, 405);
}

/// R9: what anybody wrote reaches no spreadsheet as a formula, and cells are quoted as RFC 4180 says.
#[tokio::test]
async fn r9_the_file_of_links_has_no_formulas() {
    let world = spawn().await;
    for (id, name, cell) in [
        ("cell-1", "=1+1", "'=1+1"),
        ("cell-2", "+1", "'+1"),
        ("cell-3", "-1", "'-1"),
        ("cell-4", "@SUM(A1)", "'@SUM(A1)"),
        ("cell-5", "'=1", "''=1"),
        (
            "cell-6",
            "=HYPERLINK(\"https://evil.example/\",\"x\")",
            "\"'=HYPERLINK(\"\"https://evil.example/\"\",\"\"x\"\")\"",
        ),
        ("cell-7", "one, two", "\"one, two\""),
        ("cell-8", "Ünïcode 👋", "Ünïcode 👋"),
    ] {
        let texts = json!({"description": format!("\t{name}\nmore"), "cta": name});
        world.a.make_of(&json!({"custom_id": id, "name": name, "agent_context": texts})).await;
        let file = Visitor::signed_in(&world, &world.a).await.get(&format!("/account/links.csv?q={id}")).await.text();
        let text = format!("\"'\t{}\nmore\"", name.replace('"', "\"\""));
        assert!(file.contains(&format!(",{cell},{text},")), "{id}: {file}");
        assert!(file.contains(&format!(",{cell},true,")), "{id}: {file}");
    }
}
