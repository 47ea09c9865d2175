//! The forms that create and change a link, with a preview of what they make of it. The QR code's design is in that of a new
//! link; afterward it has its own page, [`super::qr_look`].

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use deeplink_core::link::{
    Action, LinkDetail, MAX_AGENT_DESCRIPTION, MAX_CTA, MAX_NAME, MAX_PREVIEW_DESCRIPTION, MAX_PREVIEW_TITLE, check_end,
};
use deeplink_core::patch::Patch;
use deeplink_core::zone::Zone;

use super::form::{Field, Form, FormError, FormPage, FormView, Group, Kind, View};
use super::frame::{Back, Frame, LINK_FORM, Section, answer};
use super::headers::see_other;
use super::link_fields::{form_of, link_in, update_in};
use super::person::Person;
use super::qr_draft::{self, Draft};
use super::{PageResult, qr_look, tags, time};
use crate::api;
use crate::db::hosts::{self, TenantBranding};
use crate::db::{DbError, qr_logos};
use crate::http::extract::Path;
use crate::http::once::Once;
use crate::state::{App, Shared};
use crate::visit::landing::Sketch;
use crate::visit::page::host_of;

/// The field of the button that shows the preview and saves nothing.
const PREVIEW: &str = "preview";
/// Maximum number of registered apps whose store pages are suggested.
const MAX_SUGGESTIONS: usize = 5;

/// The form for a new link.
pub(super) async fn new(State(app): State<Shared>, person: Person) -> Response {
    new_page(&app, &person, &Form::default(), &View::Opened(None)).await
}

/// Creates a link, or shows its preview. The same form sent twice creates one.
pub(super) async fn create(State(app): State<Shared>, person: Person, form: Form) -> PageResult {
    if form.has(PREVIEW) {
        let refused = qr_look::refusal(&app, &person, &form, &[]).await?;
        return Ok(new_page(&app, &person, &form, &refused.unwrap_or(View::Opened(None))).await);
    }
    let is_other = |name: &str| ["form", "enabled"].contains(&name) || name.starts_with(qr_look::PREFIX);
    if form.names().all(|name| is_other(name) || form.value(name).is_empty()) {
        let error = FormError::in_field("web_url", "Enter at least one destination: a web page, an app or a store.");
        return Ok(new_page(&app, &person, &form, &View::Refused(Some(&form), error)).await);
    }
    let (now, zone) = (app.clock.now(), &person.who.zone);
    let check = |form: &Form| check_end(link_in(form, zone)?.check()?.expires_at, now);
    if let Some(refused) = View::checked(&form, stand_in, check) {
        return Ok(new_page(&app, &person, &form, &refused).await);
    }
    let once = Once::form(&person.caller, "/account/new-link", form.value("form"), &form.whole());
    match api::links::create_for(&app, Arc::clone(&person.caller), once, link_in(&form, zone)?).await {
        Ok(answer) => {
            let id = answer.into_made()?.link_id;
            Ok(see_other(&format!("/account/links/{id}?done=link-made")))
        }
        Err(error) => Ok(new_page(&app, &person, &form, &View::refused(&form, error)?).await),
    }
}

/// A valid destination, which UTM parameters need.
fn stand_in(field: &str) -> Option<(&'static str, &'static str)> {
    (field == "web_url").then_some(("web_url", "https://example.com/"))
}

/// The form that changes a link.
pub(super) async fn edit(State(app): State<Shared>, person: Person, Path(id): Path<String>) -> PageResult {
    let link = api::links::get_for(&app, &person.caller, &id).await?;
    let form = form_of(&link, &person.who.zone);
    Ok(edit_page(&app, &person, &link, &form, &View::Opened(None)).await)
}

/// Applies what differs in the form to a link, or shows its preview.
pub(super) async fn update(
    State(app): State<Shared>,
    person: Person,
    Path(id): Path<String>,
    form: Form,
) -> PageResult {
    // A link that does not exist is a 404, whatever the form contains.
    let link = api::links::get_for(&app, &person.caller, &id).await?;
    if form.has(PREVIEW) {
        return Ok(edit_page(&app, &person, &link, &form, &View::Opened(None)).await);
    }
    let (now, zone) = (app.clock.now(), &person.who.zone);
    let check = |form: &Form| {
        let update = update_in(form, &link, zone)?;
        // What was wrong may have been the only change.
        let Patch::Set(end) = (if update.is_empty() { Patch::Keep } else { update.check()?.expires_at }) else {
            return Ok(());
        };
        check_end(Some(end), now)
    };
    if let Some(refused) = View::checked(&form, stand_in, check) {
        return Ok(edit_page(&app, &person, &link, &form, &refused).await);
    }
    let saved = see_other(&format!("/account/links/{id}?done=link-saved"));
    let update = update_in(&form, &link, zone)?;
    if update.is_empty() {
        return Ok(saved);
    }
    match api::links::update_for(&app, Arc::clone(&person.caller), id, update).await {
        Ok(_) => Ok(saved),
        Err(error) => Ok(edit_page(&app, &person, &link, &form, &View::refused(&form, error)?).await),
    }
}

async fn new_page(app: &App, person: &Person, values: &Form, view: &View<'_>) -> Response {
    let hint = "The last part of the short link, as in go.example.com/spring-sale: 3 to 64 letters, digits and hyphens, with a letter or digit at each end. Leave empty to generate one.";
    let id = Field::line("custom_id", "ID", hint).max_length(64).placeholder("spring-sale");
    let page = FormPage {
        section: Section::LINKS,
        title: "New link",
        lead: "One link that opens the right destination on every device. Everything except the ID can be changed later.",
        submit: "Create link",
        back: Section::LINKS.back(),
    };
    let account = Account::of(app, person, view).await;
    let url = app.link_url("", account.branding.primary.as_deref());
    let mut groups = vec![Group::plain(vec![web_field().placeholder("https://shop.example.com/sale"), id])];
    groups.extend(more_groups(&account.branding.android_packages));
    groups.extend([qr_draft::group(&account.logos), owner_group(app, &person.who.zone)]);
    let code = (values.has(PREVIEW) && view.error().is_none()).then(|| Draft::of(values));
    let preview = (Sketch::of(&account.branding, host_of(&url), |name| values.value(name)), code);
    show(app, person, &page, groups, preview, values, view)
}

async fn edit_page(app: &App, person: &Person, link: &LinkDetail, values: &Form, view: &View<'_>) -> Response {
    let id = &*link.link_id;
    let page = FormPage {
        section: Section::LINKS,
        title: &format!("Edit {id}"),
        lead: "Changes take effect with the next click.",
        submit: "Save changes",
        back: Back { path: &format!("/account/links/{id}"), name: id },
    };
    let branding = Account::of(app, person, view).await.branding;
    let mut groups = vec![Group::plain(vec![web_field()])];
    groups.extend(more_groups(&branding.android_packages));
    groups.push(owner_group(app, &person.who.zone));
    let sketch = Sketch::of(&branding, host_of(&link.url), |name| values.value(name));
    show(app, person, &page, groups, (sketch, None), values, view)
}

/// What the forms show of the account.
#[derive(Default)]
struct Account {
    /// What its landing pages show.
    branding: TenantBranding,
    /// The names of its uploaded logos.
    logos: Vec<String>,
}

impl Account {
    /// Of the person. A form that is shown again because the database is unavailable does not wait for it a second time.
    async fn of(app: &App, person: &Person, view: &View<'_>) -> Self {
        if view.outcome().status.is_server_error() {
            return Self::default();
        }
        Self::read(app, person).await.unwrap_or_else(|error| {
            tracing::warn!(%error, "branding and logos could not be read; showing the form without them");
            Self::default()
        })
    }

    async fn read(app: &App, person: &Person) -> Result<Self, DbError> {
        let (mut reader, tenant) = (app.db.read().await?, &person.caller.tenant);
        let branding = hosts::branding_of(&mut reader.conn(), tenant, |domain| app.origin_of(domain)).await?;
        Ok(Self { branding, logos: qr_logos::names(&mut reader.conn(), tenant).await? })
    }
}

/// The form with its preview.
fn show(
    app: &App,
    person: &Person,
    page: &FormPage<'_>,
    groups: Vec<Group>,
    (sketch, code): (Sketch, Option<Draft>),
    values: &Form,
    view: &View<'_>,
) -> Response {
    let form = FormView::new(app, groups, values, view);
    let mut frame = Frame::of(app, person, page.section, page.title).with(&LINK_FORM).showing(view);
    frame.own_css.push_str(&sketch.css);
    let page = LinkFormPage { frame: &frame, page, action: &person.path, form, sketch, code };
    answer(app, view.outcome(), &frame, &page)
}

#[derive(Template)]
#[template(path = "pages/link_form.html")]
struct LinkFormPage<'a> {
    frame: &'a Frame,
    page: &'a FormPage<'a>,
    action: &'a str,
    form: FormView,
    sketch: Sketch,
    /// The QR code, if it is previewed.
    code: Option<Draft>,
}

fn web_field() -> Field {
    Field::url(
        "web_url",
        "Destination",
        "For computers, and for phones without your app if the link has no store page.",
    )
}

fn more_groups(packages: &[String]) -> [Group; 4] {
    let mut play = Field::url("android_store_url", "Google Play page", "For Android phones without the app.")
        .placeholder("https://play.google.com/store/apps/details?id=com.example.app");
    let page_of = |package: &String| format!("https://play.google.com/store/apps/details?id={package}");
    play.suggestions = packages.iter().take(MAX_SUGGESTIONS).map(page_of).collect();
    let apps = vec![
        Field::url("ios_deep_link", "iOS deep link", "A URL that your iOS app opens.").placeholder("myapp://sale"),
        Field::url("ios_store_url", "App Store page", "For iPhones and iPads without the app.")
            .placeholder("https://apps.apple.com/app/id123456789"),
        Field::url("android_deep_link", "Android deep link", "A URL that your Android app opens.")
            .placeholder("myapp://sale"),
        play,
    ];
    let utm = vec![
        Field::line("utm_source", "Source", "Where visitors come from, such as newsletter."),
        Field::line("utm_medium", "Medium", "The kind of channel, such as email."),
        Field::line("utm_campaign", "Campaign", "The promotion’s name, such as spring-sale."),
        Field::line("utm_term", "Term", "A paid search keyword."),
        Field::line("utm_content", "Content", "The variant of the ad or link."),
    ];
    let preview = vec![
        Field::line("social_preview.title", "Title", "").max_length(MAX_PREVIEW_TITLE),
        Field::area("social_preview.description", "Description", "").max_length(MAX_PREVIEW_DESCRIPTION),
        Field::url("social_preview.image_url", "Image URL", "Recommended: 1200 × 630 pixels."),
    ];
    let actions = Action::ALL.iter().map(|action| (action.as_str().to_owned(), label_of(action).to_owned()));
    let none = std::iter::once((String::new(), "None".to_owned()));
    let cta_hint = "Such as “Get 20% off”. If it is short (about 48 characters), it is also the label of the landing page’s button.";
    let agents = vec![
        Field::choice("agent_context.action", "Action", "What people can do there.", none.chain(actions)),
        Field::line("agent_context.cta", "Call to action", cta_hint).max_length(MAX_CTA),
        Field::area("agent_context.description", "Description", "").max_length(MAX_AGENT_DESCRIPTION),
    ];
    [
        Group::new("Apps", "Phones with your app open it; other phones go to the store.", apps).folded(),
        Group::new(
            "UTM parameters",
            "Added to the destination’s URL, so your analytics show where visitors came from.",
            utm,
        )
        .folded(),
        Group::new("Social preview", "Shown in messaging apps, on social networks, and on the landing page.", preview)
            .folded(),
        Group::new("Agent context", "Tells AI agents what the link is for. Also shown on the landing page.", agents)
            .folded(),
    ]
}

fn owner_group(app: &App, zone: &Zone) -> Group {
    let mut expiry = format!("Optional. The time is in {}.", time::zone_name(zone));
    if app.config.unverified_link_ttl_days > 0 {
        expiry += " Until your account has a verified domain, links also expire automatically.";
    }
    let states = [("true", "Enabled"), ("false", "Disabled")];
    let fields = vec![
        Field::line("name", "Name", "Only you and your team see it.").max_length(MAX_NAME),
        tags::field(),
        tags::aliases_field(),
        Field::choice("enabled", "Status", "People who open a disabled link see a notice.", states),
        Field::minute("expires_at", "Expires", expiry),
        Field::url(
            "expired_url",
            "Redirect after expiry",
            "Where visitors go after the link expires. If this is empty, they see a notice.",
        ),
        Field::line(
            "imported_clicks",
            "Imported clicks",
            "Clicks counted by a previous service. They are shown separately and not added to the clicks counted here. Only you and your team see them.",
        ),
    ];
    Group::new("Name, tags, aliases, status and expiry", "", fields).folded()
}

/// An action in words.
pub(super) fn label_of(action: &Action) -> &'static str {
    match action {
        Action::Purchase => "Purchase",
        Action::Subscribe => "Subscribe",
        Action::Signup => "Sign up",
        Action::Download => "Download",
        Action::Read => "Read",
        Action::Book => "Book",
        _ => "Open",
    }
}
