//! Links: one link, and the forms that create, change and delete one. Their list is in [`super::link_list`].

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use deeplink_core::link::{
    Action, AgentContext, CreateLink, LinkDetail, LinkStatus, MAX_AGENT_DESCRIPTION, MAX_CTA, MAX_NAME,
    MAX_PREVIEW_DESCRIPTION, MAX_PREVIEW_TITLE, SocialPreview, UpdateLink, check_end,
};
use deeplink_core::patch::Patch;
use deeplink_core::time::Timestamp;
use deeplink_core::zone::Zone;

use super::chart::{Count, Report};
use super::confirm::Question;
use super::form::{Field, Form, FormError, FormPage, Group, View};
use super::frame::{Back, Frame, Section, answer};
use super::headers::{after_deletion, see_other};
use super::person::Person;
use super::range::Range;
use super::tags::{self, TagLink};
use super::{PageResult, explanations, qr_look, time};
use crate::api;
use crate::api::explanations::takedown_of;
use crate::db::domains;
use crate::http::extract::{Path, Query};
use crate::http::once::Once;
use crate::state::{App, Shared};
use crate::visit::explanation::Address;

/// A status in words, and the class of its badge.
pub(super) struct Status {
    pub(super) word: &'static str,
    pub(super) class: &'static str,
}

impl From<&LinkStatus> for Status {
    fn from(status: &LinkStatus) -> Self {
        let (word, class) = match status {
            LinkStatus::Active => ("Active", "good"),
            LinkStatus::Expired => ("Expired", "over"),
            LinkStatus::Flagged => ("Flagged as unsafe", "bad"),
            _ => ("Disabled", "over"),
        };
        Self { word, class }
    }
}

/// A link's name, else its title.
pub(super) fn name_of(link: &LinkDetail) -> Option<String> {
    let title = || link.social_preview.as_ref().and_then(|preview| preview.title.clone());
    link.name.clone().or_else(title)
}

/// The first destination of a link.
pub(super) fn destination_of(link: &LinkDetail) -> Option<String> {
    let destinations =
        [&link.web_url, &link.ios_deep_link, &link.android_deep_link, &link.ios_store_url, &link.android_store_url];
    destinations.into_iter().find_map(Clone::clone)
}

/// The form for a new link.
pub(super) async fn new(State(app): State<Shared>, person: Person) -> Response {
    new_page(&app, &person, &View::Opened(None))
}

/// Creates a link. The same form sent twice creates one.
pub(super) async fn create(State(app): State<Shared>, person: Person, form: Form) -> PageResult {
    if form.names().all(|name| ["form", "enabled"].contains(&name) || form.value(name).is_empty()) {
        let error = FormError::in_field("web_url", "Enter at least one destination: a web page, an app or a store.");
        return Ok(new_page(&app, &person, &View::Refused(Some(&form), error)));
    }
    let (now, zone) = (app.clock.now(), &person.who.zone);
    let check = |form: &Form| check_end(link_in(form, zone).check()?.expires_at, now);
    if let Some(refused) = View::checked(&form, |_| None, check) {
        return Ok(new_page(&app, &person, &refused));
    }
    let once = Once::form(&person.caller, "/account/new-link", form.value("form"), &form.whole());
    match api::links::create_for(&app, Arc::clone(&person.caller), once, link_in(&form, zone)).await {
        Ok(answer) => {
            let id = answer.into_made()?.link_id;
            Ok(see_other(&format!("/account/links/{id}?done=link-made")))
        }
        Err(error) => Ok(new_page(&app, &person, &View::refused(&form, error)?)),
    }
}

fn link_in(form: &Form, zone: &Zone) -> CreateLink {
    let mut link = CreateLink::new();
    link.custom_id = form.filled("custom_id");
    for (name, url) in link.destinations_mut().each() {
        *url = form.filled(name);
    }
    link.social_preview = preview_in(form, SocialPreview::default());
    link.agent_context = context_in(form, AgentContext::default());
    link.name = form.filled("name");
    link.enabled = form.filled("enabled").map(|word| word == "true");
    link.expires_at = form.filled("expires_at").map(|text| moment_in(text, zone));
    link.expired_url = form.filled("expired_url");
    link.tags = tags::in_form(form, "tags");
    link.aliases = tags::in_form(form, "aliases");
    link.imported_clicks = form.filled("imported_clicks").map(|text| count_in(&text));
    link
}

/// A count as a form sends it, such as `1,204`. Anything else becomes one that is refused.
fn count_in(text: &str) -> i64 {
    text.replace([',', ' '], "").parse().unwrap_or(-1)
}

/// The value of a field; a field missing from the form keeps its current value.
fn value_or(form: &Form, name: &str, now: Option<String>) -> Option<String> {
    if form.has(name) { form.filled(name) } else { now }
}

fn preview_in(form: &Form, now: SocialPreview) -> Option<SocialPreview> {
    let preview = SocialPreview {
        title: value_or(form, "social_preview.title", now.title),
        description: value_or(form, "social_preview.description", now.description),
        image_url: value_or(form, "social_preview.image_url", now.image_url),
    };
    (preview != SocialPreview::default()).then_some(preview)
}

fn context_in(form: &Form, now: AgentContext) -> Option<AgentContext> {
    let action = value_or(form, "agent_context.action", now.action.map(|action| action.as_str().to_owned()));
    let context = AgentContext {
        action: action.map(|word| Action::from(word.as_str())),
        cta: value_or(form, "agent_context.cta", now.cta),
        description: value_or(form, "agent_context.description", now.description),
    };
    (context != AgentContext::default()).then_some(context)
}

/// A moment as a form sends it, to the minute and without an offset, as RFC 3339. Anything else is left to be refused.
fn moment_in(text: String, zone: &Zone) -> String {
    let moment = if text.len() == MINUTE { zone.moment(&text) } else { None };
    moment.map_or(text, |at| at.to_string())
}

/// Length of `2026-11-20T09:30`.
const MINUTE: usize = 16;

fn new_page(app: &App, person: &Person, view: &View<'_>) -> Response {
    let hint = "The last part of the short link, as in go.example.com/spring-sale: 3 to 64 letters, digits and hyphens, with a letter or digit at each end. Leave empty to generate one.";
    let id = Field::line("custom_id", "ID", hint).max_length(64).placeholder("spring-sale");
    let mut groups = vec![Group::plain(vec![web_field().placeholder("https://shop.example.com/sale"), id])];
    groups.extend(more_groups());
    groups.push(owner_group(app, &person.who.zone));
    let page = FormPage {
        section: Section::LINKS,
        title: "New link",
        lead: "One link that opens the right destination on every device. Everything except the ID can be changed later.",
        submit: "Create link",
        back: Section::LINKS.back(),
    };
    page.show(app, person, groups, &Form::default(), view)
}

fn web_field() -> Field {
    Field::url(
        "web_url",
        "Destination",
        "For computers, and for phones without your app if the link has no store page.",
    )
}

fn more_groups() -> [Group; 3] {
    let apps = vec![
        Field::url("ios_deep_link", "iOS deep link", "A URL that your iOS app opens.").placeholder("myapp://sale"),
        Field::url("ios_store_url", "App Store page", "For iPhones and iPads without the app.")
            .placeholder("https://apps.apple.com/app/id123456789"),
        Field::url("android_deep_link", "Android deep link", "A URL that your Android app opens.")
            .placeholder("myapp://sale"),
        Field::url("android_store_url", "Google Play page", "For Android phones without the app.")
            .placeholder("https://play.google.com/store/apps/details?id=com.example.app"),
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
            "Where visitors go after the link expires. Without one, they see a notice.",
        ),
        Field::line(
            "imported_clicks",
            "Imported clicks",
            "Clicks counted by a previous service. They are shown separately and not added to the clicks counted here. Only you and your team see them.",
        ),
    ];
    Group::new("Name, tags, aliases, status and expiry", "", fields).folded()
}

fn label_of(action: &Action) -> &'static str {
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

#[derive(Template)]
#[template(path = "pages/link.html")]
struct LinkPage<'a> {
    frame: &'a Frame,
    link: &'a LinkDetail,
    status: Status,
    /// Whether the operator flagged or disabled it.
    is_taken_down: bool,
    /// The operator's reason.
    takedown: Option<String>,
    created: Timestamp,
    expires: Option<Timestamp>,
    is_expired: bool,
    /// Whether the end is that of an account without a verified domain.
    ends_without_domain: bool,
    /// Whether the service is on the person's own machine, so that its settings are theirs.
    is_loopback: bool,
    report: Report,
    tags: Vec<TagLink>,
    /// Clicks that a previous service counted.
    imported: Option<Count>,
    /// Label and URL of each destination.
    destinations: Vec<(&'static str, &'a str)>,
    explained: Vec<explanations::Answer>,
    action: Option<&'static str>,
    /// The QR code as an image source that needs no escaping between double quotes.
    qr: Option<Arc<str>>,
    /// Whether the image fails if the server of its logo does.
    fetches_logo: bool,
}

/// One link.
pub(super) async fn show(
    State(app): State<Shared>,
    person: Person,
    Path(id): Path<String>,
    query: Query,
) -> PageResult {
    let now = app.clock.now();
    let (link, is_taken_down, takedown, address) = {
        let mut reader = app.db.read().await?;
        let mut db = reader.conn();
        let link = api::links::find(&mut db, &person.caller, &id).await?;
        let primary = domains::primary_of(&mut db, &person.caller.tenant).await?;
        let mut address = Address::of(&app, &mut db, &link, primary.as_deref(), None).await?;
        let takedown = takedown_of(&mut db, &person.caller, &link).await?;
        address.takedown.clone_from(&takedown);
        let is_taken_down = link.is_taken_down;
        (app.detail(link, primary.as_deref(), now), is_taken_down, takedown, address)
    };
    // Nobody should print a code that shows only a notice.
    let qr = match &link.qr {
        _ if is_taken_down => None,
        Some(_) => Some(qr_look::shown(&link).into()),
        None => app.codes.on_page(person.caller.tenant.as_str(), &link.url).await,
    };
    let destinations = [
        ("Web page", &link.web_url),
        ("iOS app", &link.ios_deep_link),
        ("App Store", &link.ios_store_url),
        ("Android app", &link.android_deep_link),
        ("Google Play", &link.android_store_url),
    ];
    let range = Range::read(format!("/account/links/{id}"), &query, now, &person.who.zone)?;
    let report = Report::of(&app, &person.caller, "", std::slice::from_ref(&link.link_id), range).await;
    let status = report.status();
    let frame = Frame::of(&app, &person, Section::LINKS, id).after(&query);
    let page = LinkPage {
        frame: &frame,
        status: Status::from(&link.status),
        is_taken_down,
        takedown,
        created: link.created_at,
        expires: link.expires_at,
        is_expired: link.status == LinkStatus::Expired,
        ends_without_domain: link.expires_at != link.owner_expires_at,
        is_loopback: app.is_loopback,
        report,
        destinations: destinations.into_iter().filter_map(|(name, url)| Some((name, url.as_deref()?))).collect(),
        explained: explanations::by_device(&app, &address).await?,
        action: link.agent_context.as_ref().and_then(|context| context.action.as_ref()).map(label_of),
        tags: tags::links_of(&link.tags),
        fetches_logo: link.qr.as_ref().is_some_and(qr_look::fetches_logo),
        imported: link.imported_clicks.map(Count::from),
        link: &link,
        qr,
    };
    Ok(answer(&app, status, &frame, &page))
}

/// The form that changes a link.
pub(super) async fn edit(State(app): State<Shared>, person: Person, Path(id): Path<String>) -> PageResult {
    let form = form_of(&api::links::get_for(&app, &person.caller, &id).await?, &person.who.zone);
    Ok(edit_page(&app, &person, &id, &form, &View::Opened(None)))
}

/// The form of a link as it is.
fn form_of(link: &LinkDetail, zone: &Zone) -> Form {
    let preview = link.social_preview.clone().unwrap_or_default();
    let context = link.agent_context.clone().unwrap_or_default();
    Form::with([
        ("web_url", link.web_url.as_deref()),
        ("ios_deep_link", link.ios_deep_link.as_deref()),
        ("ios_store_url", link.ios_store_url.as_deref()),
        ("android_deep_link", link.android_deep_link.as_deref()),
        ("android_store_url", link.android_store_url.as_deref()),
        ("social_preview.title", preview.title.as_deref()),
        ("social_preview.description", preview.description.as_deref()),
        ("social_preview.image_url", preview.image_url.as_deref()),
        ("agent_context.action", context.action.as_ref().map(Action::as_str)),
        ("agent_context.cta", context.cta.as_deref()),
        ("agent_context.description", context.description.as_deref()),
        ("name", link.name.as_deref()),
        ("enabled", Some(if link.enabled { "true" } else { "false" })),
        ("expires_at", link.owner_expires_at.map(|at| minute_of(at, zone)).as_deref()),
        ("expired_url", link.expired_url.as_deref()),
        ("tags", Some(&tags::text_of(&link.tags))),
        ("aliases", Some(&tags::text_of(&link.aliases))),
        ("imported_clicks", link.imported_clicks.map(|count| count.to_string()).as_deref()),
    ])
}

/// A moment as a form shows it.
fn minute_of(moment: Timestamp, zone: &Zone) -> String {
    zone.as_utc(moment).to_string().chars().take(MINUTE).collect()
}

/// Applies what differs in the form to a link: an empty field clears the value, an absent one keeps it.
pub(super) async fn update(
    State(app): State<Shared>,
    person: Person,
    Path(id): Path<String>,
    form: Form,
) -> PageResult {
    // A link that does not exist is a 404, whatever the form contains.
    let link = api::links::get_for(&app, &person.caller, &id).await?;
    let saved = see_other(&format!("/account/links/{id}?done=link-saved"));
    let zone = &person.who.zone;
    if update_in(&form, &link, zone).is_empty() {
        return Ok(saved);
    }
    let now = app.clock.now();
    let check = |form: &Form| {
        let update = update_in(form, &link, zone);
        // What was wrong may have been the only change.
        let Patch::Set(end) = (if update.is_empty() { Patch::Keep } else { update.check()?.expires_at }) else {
            return Ok(());
        };
        check_end(Some(end), now)
    };
    if let Some(refused) = View::checked(&form, |_| None, check) {
        return Ok(edit_page(&app, &person, &id, &form, &refused));
    }
    match api::links::update_for(&app, Arc::clone(&person.caller), id.clone(), update_in(&form, &link, zone)).await {
        Ok(_) => Ok(saved),
        Err(error) => Ok(edit_page(&app, &person, &id, &form, &View::refused(&form, error)?)),
    }
}

fn update_in(form: &Form, now: &LinkDetail, zone: &Zone) -> UpdateLink {
    let shown = form_of(now, zone);
    let differs = |name: &str| form.has(name) && form.filled(name) != shown.filled(name);
    let has = |part: &str| form.names().any(|name| name.starts_with(part) && differs(name));
    let patch = |name: &str| match form.filled(name).filter(|_| differs(name)) {
        Some(value) => Patch::Set(value),
        None if differs(name) => Patch::Clear,
        None => Patch::Keep,
    };
    let mut update = UpdateLink::new();
    for (name, url) in update.destinations_mut().each() {
        *url = patch(name);
    }
    if has("social_preview.") {
        let preview = preview_in(form, now.social_preview.clone().unwrap_or_default());
        update.social_preview = preview.map_or(Patch::Clear, Patch::Set);
    }
    if has("agent_context.") {
        let context = context_in(form, now.agent_context.clone().unwrap_or_default());
        update.agent_context = context.map_or(Patch::Clear, Patch::Set);
    }
    (update.name, update.expired_url) = (patch("name"), patch("expired_url"));
    update.tags = tags::change_in(form, "tags", &now.tags);
    update.aliases = tags::change_in(form, "aliases", &now.aliases);
    update.imported_clicks = patch("imported_clicks").map(|text| count_in(&text));
    // The form shows minutes: one that was not changed keeps its seconds.
    update.expires_at = patch("expires_at").map(|text| moment_in(text, zone));
    if let Patch::Set(word) = patch("enabled") {
        update.enabled = Patch::Set(word == "true");
    }
    update
}

fn edit_page(app: &App, person: &Person, id: &str, values: &Form, view: &View<'_>) -> Response {
    let mut groups = vec![Group::plain(vec![web_field()])];
    groups.extend(more_groups());
    groups.push(owner_group(app, &person.who.zone));
    let page = FormPage {
        section: Section::LINKS,
        title: &format!("Edit {id}"),
        lead: "Changes apply from the next click.",
        submit: "Save changes",
        back: Back { path: &format!("/account/links/{id}"), name: id },
    };
    page.show(app, person, groups, values, view)
}

/// Asks for confirmation.
pub(super) async fn confirm(State(app): State<Shared>, person: Person, Path(id): Path<String>) -> PageResult {
    let link = api::links::get_for(&app, &person.caller, &id).await?;
    let lead = "Anyone who clicks it gets a “not found” page, wherever it is printed or posted. You can restore it for 30 days.";
    let back = Back { path: &format!("/account/links/{id}"), name: &id };
    Ok(Question::delete(Section::LINKS, "link", &link.url, lead, back).ask(&app, &person, None))
}

/// Deletes a link.
pub(super) async fn delete(State(app): State<Shared>, person: Person, Path(id): Path<String>, _: Form) -> PageResult {
    let deleted = api::links::delete_for(&app, Arc::clone(&person.caller), id).await;
    after_deletion(deleted, "/account/links", "link-deleted")
}
