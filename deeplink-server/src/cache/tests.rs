//! Tests of the cache.

use super::*;
use deeplink_core::link::NewLink;

const TENANT: &str = "tnt_0123456789abcdef01234567";

fn link(id: &str) -> Link {
    let mut content = NewLink::default();
    content.destinations.web_url = Some("https://example.com/".into());
    Link::new(TENANT.parse().expect("an id"), id.into(), content, Timestamp::from_millis(0))
}

fn packed(cache: &LinkCache, id: &str, now: u64) -> CachedLink {
    let under = cache.under(TENANT);
    CachedLink::pack(&link(id), "http://localhost/r/abc", Arc::default(), under, now)
}

fn known(cache: &LinkCache, id: &str, now: u64) -> Named {
    Named::Link(Arc::new(packed(cache, id, now)))
}

fn alias(cache: &LinkCache, id: &str) -> Named {
    Named::Alias(cache.alias(TENANT.parse().expect("an id"), id.to_owned(), 0))
}

fn drops(lookup: Lookup) -> DropCounts {
    match lookup {
        Lookup::Ask { drops, .. } => drops,
        other => panic!("expected to ask the database, got {other:?}"),
    }
}

#[test]
fn parts_come_back_as_they_went_in() {
    let known = packed(&LinkCache::new(1 << 20, true), "abc", 0);
    let view = known.view(true);
    assert_eq!((view.link_id, view.url), ("abc", "http://localhost/r/abc"));
    assert_eq!((view.to.web_url, view.to.ios_deep_link), (Some("https://example.com/"), None));
    assert_eq!((known.metadata(), known.agent_context(), known.social_preview()), (None, None, None));
}

#[test]
fn a_fill_that_was_overtaken_by_a_drop_is_not_kept() {
    let cache = LinkCache::new(1 << 20, true);
    let drops = drops(cache.get("abc", 0));
    cache.drop_link("tnt_x", "abc");
    cache.fill("abc", Some(&known(&cache, "abc", 0)), drops, 0);
    assert!(matches!(cache.get("abc", 0), Lookup::Ask { .. }));
}

#[test]
fn an_alias_holds_until_its_link_is_dropped() {
    let cache = LinkCache::new(1 << 20, true);
    let before = drops(cache.get("old", 0));
    cache.fill("old", Some(&alias(&cache, "abc")), before, 0);
    assert!(matches!(cache.get("old", 0), Lookup::Named(Named::Alias(_))));
    cache.drop_link(TENANT, "abc");
    assert!(matches!(cache.get("old", 0), Lookup::Ask { old: Some(_), .. }));
    // Read before its link was dropped, filled after it.
    let before = drops(cache.get("older", 0));
    cache.drop_link(TENANT, "abc");
    cache.fill("older", Some(&alias(&cache, "abc")), before, 0);
    assert!(matches!(cache.get("older", 0), Lookup::Ask { old: None, .. }));
    // A link that is filled is dropped only under its own name.
    let before = drops(cache.get("xyz", 0));
    cache.drop_link(TENANT, "abc");
    cache.fill("xyz", Some(&known(&cache, "xyz", 0)), before, 0);
    assert!(matches!(cache.get("xyz", 0), Lookup::Named(Named::Link(_))));
}

#[test]
fn most_aliases_hold_while_other_links_are_dropped() {
    const ALIASES: usize = 1_000;
    let cache = LinkCache::new(1 << 20, true);
    for number in 0..ALIASES {
        let name = format!("old-{number}");
        let before = drops(cache.get(&name, 0));
        cache.fill(&name, Some(&alias(&cache, &format!("link-{number}"))), before, 0);
    }
    for number in 0..100 {
        cache.drop_link(TENANT, &format!("new-{number}"));
    }
    let holds = |number: &usize| matches!(cache.get(&format!("old-{number}"), 0), Lookup::Named(Named::Alias(_)));
    let held = (0..ALIASES).filter(holds).count();
    // Two names of each are dropped, and share 4,096 counters.
    assert!(held > ALIASES * 9 / 10, "{held} of {ALIASES}");
    cache.forget_tenant(TENANT);
    assert_eq!((0..ALIASES).filter(holds).count(), 0, "what changes the tenant changes its aliases");
}

#[test]
fn a_changed_tenant_is_read_again_and_a_fill_from_before_is_not_kept() {
    let cache = LinkCache::new(1 << 20, true);
    let before = drops(cache.get("abc", 0));
    cache.fill("abc", Some(&known(&cache, "abc", 0)), before, 0);
    assert!(matches!(cache.get("abc", 0), Lookup::Named(_)));
    cache.forget_tenant(TENANT);
    assert!(matches!(cache.get("abc", 0), Lookup::Ask { old: Some(_), .. }));
    // Read before the change, filled after it.
    let old = known(&cache, "xyz", 0);
    let before = drops(cache.get("xyz", 0));
    cache.forget_tenant(TENANT);
    cache.fill("xyz", Some(&old), before, 0);
    assert!(matches!(cache.get("xyz", 0), Lookup::Ask { old: None, .. }));
}

#[test]
fn without_notices_an_entry_is_fresh_for_five_seconds_and_may_answer_for_ten_minutes() {
    let cache = LinkCache::new(1 << 20, true);
    let drops = drops(cache.get("abc", 0));
    cache.fill("abc", Some(&known(&cache, "abc", 0)), drops, 0);
    assert!(matches!(cache.get("abc", 1_000_000), Lookup::Named(_)));
    cache.freshness.set_hears(false);
    assert!(matches!(cache.get("abc", 4_999), Lookup::Named(_)));
    assert!(matches!(cache.get("abc", 5_000), Lookup::Ask { old: Some(_), .. }));
    assert!(matches!(cache.get("abc", 600_000), Lookup::Ask { old: None, .. }));
    cache.freshness.set_hears(true);
    cache.freshness.expire_all(10);
    assert!(matches!(cache.get("abc", 11), Lookup::Ask { old: Some(_), .. }));
}

#[test]
fn absence_is_fresh_for_five_seconds_and_ends_with_a_create() {
    let cache = LinkCache::new(1 << 20, true);
    let drops = drops(cache.get("abc", 0));
    cache.fill("abc", None, drops, 0);
    assert!(matches!(cache.get("abc", 4_999), Lookup::Absent));
    assert!(matches!(cache.get("abc", 5_000), Lookup::Ask { .. }));
    cache.fill("abc", None, drops, 0);
    cache.drop_link("tnt_x", "abc");
    assert!(matches!(cache.get("abc", 0), Lookup::Ask { .. }));
}

#[test]
fn the_cache_stays_within_its_bytes() {
    let cache = LinkCache::new(256 << 10, true);
    for n in 0..10_000 {
        let name = format!("link-{n}");
        let drops = drops(cache.get(&name, 0));
        cache.fill(&name, Some(&known(&cache, &name, 0)), drops, 0);
    }
    assert!(cache.bytes() <= 256 << 10 && cache.len() > 500, "{} bytes, {} links", cache.bytes(), cache.len());
}
