//! Where a link leads.

use std::borrow::Cow;

use deeplink_core::link::CreateLink;

use super::super::cells::Draft;
use super::super::fields::Field;
use super::kept::Kept;
use super::row::RowCells;
use super::{Fault, ForeignNotes, Role, unplaced};

/// Sets the destinations, and keeps those that have no field. `scheme` is that of deep links that are paths.
pub(super) fn set(
    row: &RowCells<'_>,
    scheme: Option<&str>,
    draft: &mut Draft,
    kept: &mut Kept,
    notes: &mut ForeignNotes,
) -> Result<(), Fault> {
    let mut set = |field: Field, url: &str| draft.apply(&field, Some(url)).map_err(unplaced);
    let (ios, android) = platforms(row);
    if let Some(url) = web(row, ios.has_app || android.has_app) {
        set(Field::WebUrl, url)?;
    }
    let mut has_path = false;
    let mut in_app = |role: &Role, key: &str, kept: &mut Kept| {
        let path = row.text(role)?;
        let link = with_scheme(path, scheme);
        if link.is_none() {
            has_path = true;
            kept.detail(key, path);
        }
        link
    };
    let shared = in_app(&Role::AppPath, "imported_deep_link_path", kept);
    for platform in [ios, android] {
        let own = in_app(&platform.path, platform.path_key, kept);
        let store = platform.store(row, kept);
        if let Some(link) = platform.deep_link(row, own, shared.as_deref()) {
            set(platform.deep_link_field, &link)?;
        }
        if let Some(store) = store {
            set(platform.store_field, &store)?;
        }
    }
    notes.paths += u64::from(has_path);
    Ok(())
}

/// The web page. For a row without an app, the desktop page is used only if there is no other destination.
fn web<'a>(row: &RowCells<'a>, has_app: bool) -> Option<&'a str> {
    let order = if has_app {
        [Role::Web, Role::Desktop, Role::WebFallback, Role::AppLink]
    } else {
        [Role::Web, Role::WebFallback, Role::AppLink, Role::Desktop]
    };
    let url = order.iter().find_map(|role| row.text(role))?;
    row.repeated(url, &order);
    Some(url)
}

/// The columns of a platform, and the fields that they set.
struct Platform {
    is_store: fn(&str) -> bool,
    target: Role,
    fallback: Role,
    path: Role,
    /// The store page of the app that the row names.
    app_page: Option<String>,
    has_app: bool,
    fallback_key: &'static str,
    path_key: &'static str,
    deep_link_field: Field,
    store_field: Field,
}

fn platforms(row: &RowCells<'_>) -> (Platform, Platform) {
    let (number, bundle) = (row.text(&Role::IosApp), row.text(&Role::IosBundle));
    let ios_page = |number: &str| format!("https://apps.apple.com/app/id{}", number.trim_start_matches("id"));
    let ios = Platform {
        is_store: |url| CreateLink::new().ios_store_url(url).validate().is_ok(),
        target: Role::IosTarget,
        fallback: Role::IosFallback,
        path: Role::IosPath,
        app_page: number.map(ios_page),
        has_app: number.or(bundle).is_some(),
        fallback_key: "imported_ios_fallback_url",
        path_key: "imported_ios_deep_link_path",
        deep_link_field: Field::IosDeepLink,
        store_field: Field::IosStoreUrl,
    };
    let package = row.text(&Role::AndroidApp);
    let android = Platform {
        is_store: |url| CreateLink::new().android_store_url(url).validate().is_ok(),
        target: Role::AndroidTarget,
        fallback: Role::AndroidFallback,
        path: Role::AndroidPath,
        app_page: package.map(|name| format!("https://play.google.com/store/apps/details?id={name}")),
        has_app: package.is_some(),
        fallback_key: "imported_android_fallback_url",
        path_key: "imported_android_deep_link_path",
        deep_link_field: Field::AndroidDeepLink,
        store_field: Field::AndroidStoreUrl,
    };
    (ios, android)
}

impl Platform {
    /// The store page. A row that names a web page for people without the app wants none.
    fn store(&self, row: &RowCells<'_>, kept: &mut Kept) -> Option<String> {
        if let Some(target) = row.peek(&self.target).filter(|target| (self.is_store)(target)) {
            row.text(&self.target);
            row.repeated(target, std::slice::from_ref(&self.fallback));
            return Some(target.to_owned());
        }
        match row.peek(&self.fallback) {
            Some(page) if (self.is_store)(page) => row.text(&self.fallback).map(str::to_owned),
            Some(page) => {
                if kept.detail(self.fallback_key, page) {
                    row.text(&self.fallback);
                }
                None
            }
            None => self.app_page.clone(),
        }
    }

    /// The deep link: the platform's own, that of both, or what opens the app that the row names.
    fn deep_link<'a>(
        &self,
        row: &RowCells<'a>,
        own: Option<Cow<'a, str>>,
        shared: Option<&'a str>,
    ) -> Option<Cow<'a, str>> {
        let target = row.peek(&self.target).filter(|target| own.is_none() && !(self.is_store)(target));
        if target.is_some() {
            row.text(&self.target);
        }
        let app_link = || if self.has_app { row.text(&Role::AppLink) } else { None };
        own.or_else(|| target.or(shared).or_else(app_link).map(Cow::Borrowed))
    }
}

/// A deep link, if it has a scheme or gets one. A path follows `scheme://` as it is, as it does at the other service.
fn with_scheme<'a>(path: &'a str, scheme: Option<&str>) -> Option<Cow<'a, str>> {
    if is_absolute(path) {
        return Some(Cow::Borrowed(path));
    }
    scheme.map(|scheme| Cow::Owned(format!("{scheme}://{path}")))
}

/// Whether a text has a scheme.
fn is_absolute(url: &str) -> bool {
    url.split_once(':').is_some_and(|(scheme, _)| {
        scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'))
    })
}
