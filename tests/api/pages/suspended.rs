//! Pages of an account that the operator suspended.

use super::{Visitor, all_forms, all_pages, text_of, went};
use crate::suspension::{resume, suspend};
use deeplink_testing::spawn;

const BANNER: &str = "This account is suspended by the operator of this service.";

/// R12: every page of a suspended account says so and shows its usual content; every form is refused with a message and
/// has no effect; signing out works.
#[tokio::test]
async fn r12_pages_of_a_suspended_account_say_so_and_change_nothing() {
    let world = spawn().await;
    let pages = all_pages(&world, &world.b).await;
    let visitor = Visitor::signed_in(&world, &world.b).await;
    for path in &pages {
        assert!(!visitor.get(path).await.text().contains(BANNER), "{path}");
    }
    suspend(&world, world.b.tenant.as_str()).await;
    for path in &pages {
        let page = visitor.get(path).await;
        assert_eq!(page.status, 200, "{path}: {}", page.text());
        assert!(page.header("content-type") != "text/html; charset=utf-8" || text_of(&page).contains(BANNER), "{path}");
    }
    world.at_rest().await;
    let before = super::stored(&world).await;
    let mut forms = all_forms(&pages);
    forms.retain(|(path, _)| path != "/account/signout");
    assert!(forms.len() > 15, "{forms:?}");
    for (path, fields) in forms {
        let refused = visitor.post(&path, &fields).await;
        assert_eq!(refused.status, 403, "{path}: {}", refused.text());
        assert!(text_of(&refused).contains("This account is suspended"), "{path}: {}", refused.text());
    }
    assert!(before == super::stored(&world).await, "something was done");
    let out = visitor.post("/account/signout", &[]).await;
    assert_eq!(went(&out), (303, "/signin?signed_out=1"));
    let again = Visitor::signed_in(&world, &world.b).await;
    resume(&world, world.b.tenant.as_str()).await;
    assert!(!again.get("/account").await.text().contains(BANNER));
}
