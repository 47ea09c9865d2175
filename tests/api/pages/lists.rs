//! Pages of long lists: each part links to the next, and choices offer all items.

use std::collections::BTreeSet;

use serde_json::json;

use super::{Visitor, text_of};
use deeplink_testing::{World, spawn};

/// Gives A 230 of everything that can be that numerous.
async fn fill(world: &World) {
    let tenant = &world.a.tenant;
    for (columns, row) in [
        (
            "affiliates (id, tenant_id, name, partner_key, status, created_at, updated_at)",
            "('aff_{id}', '{tenant}', 'row-{at}!', 'row-{at}', 'active', 1, 1)",
        ),
        (
            "domains (id, tenant_id, domain, role, verification_token, claimed_at, created_at, verified_at)",
            "('dom_{id}', '{tenant}', 'row-{at}.example.com', 'primary', '{id}', 1, 1, 1)",
        ),
        (
            "users (id, tenant_id, email, verified, is_owner, created_at)",
            "('usr_{id}', '{tenant}', 'row-{at}@example.com', FALSE, FALSE, 1)",
        ),
    ] {
        let row = |at: u32| {
            let row = row.replace("{id}", &format!("{at:024x}")).replace("{at}", &format!("{at:03}"));
            row.replace("{tenant}", tenant.as_str())
        };
        let rows: Vec<_> = (0..230).map(row).collect();
        world.db.execute(format!("INSERT INTO {columns} VALUES {}", rows.join(", "))).await;
    }
}

/// The rows of [`fill`] that a page names.
fn rows(page: &str) -> BTreeSet<String> {
    page.split("row-").skip(1).filter_map(|rest| rest.get(..3)).map(str::to_owned).collect()
}

/// A page shows 100 rows and links to the next ones until there are none.
#[tokio::test]
async fn r4_a_long_list_leads_to_its_older_rows() {
    let world = spawn().await;
    fill(&world).await;
    let visitor = Visitor::signed_in(&world, &world.a).await;
    for path in ["/account/affiliates", "/account/domains", "/account/team"] {
        let mut next = Some(path.to_owned());
        let (mut seen, mut pages) = (BTreeSet::new(), 0);
        while let Some(at) = next {
            let page = text_of(&visitor.get(&at).await);
            let shown = rows(&page);
            assert!(shown.len() <= 100 && shown.is_disjoint(&seen), "{at}");
            seen.extend(shown);
            pages += 1;
            assert_eq!(page.contains(&format!("href=\"{path}\">Newest</a>")), at != path, "{at}");
            let older =
                page.split(&format!("href=\"{path}?cursor=")).nth(1).and_then(|rest| rest.split_once("\">Older"));
            next = older.map(|(cursor, _)| format!("{path}?cursor={cursor}"));
        }
        assert_eq!((pages, seen.len()), (3, 230), "{path}");
        let broken = visitor.get(&format!("{path}?cursor=nonsense")).await;
        assert_eq!(broken.status, 400);
        let way = format!("<a class=\"main\" href=\"{path}\">Back to the first page</a>");
        assert!(text_of(&broken).contains(&way), "{}", broken.text());
    }
}

/// Choices offer all items, not just one page of them.
#[tokio::test]
async fn r4_choices_offer_all_rows() {
    let world = spawn().await;
    fill(&world).await;
    let visitor = Visitor::signed_in(&world, &world.a).await;
    for (path, value) in [("/account/webhooks", "<option value=\"aff_"), ("/account/keys", "<option>row-")] {
        let page = text_of(&visitor.get(path).await);
        let offered = page.matches(value).count();
        assert!(offered >= 230 && rows(&page).len() == 230, "{path}: {offered}");
    }
}

#[tokio::test]
async fn links_show_their_names_and_destinations() {
    let world = spawn().await;
    let web = "https://shop.example.com/sale";
    world.a.make_of(&json!({"custom_id": "named", "name": "Spring", "web_url": web})).await;
    world.a.make_of(&json!({"custom_id": "nowhere"})).await;
    let page = text_of(&Visitor::signed_in(&world, &world.a).await.get("/account/links").await);
    let both = format!("<small dir=\"auto\">Spring</small><small>{web}</small>");
    assert!(page.contains(&both), "{page}");
    assert!(page.contains("nowhere</a><small>No destination</small>"), "{page}");
}
