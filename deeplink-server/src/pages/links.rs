//! Links: the list, one link, and the forms that make, change and delete one.

use std::collections::BTreeMap;
use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use deeplink_core::link::{
    Action, AgentContext, CreateLink, LinkDetail, LinkFilter, LinkStatus, MAX_AGENT_DESCRIPTION, MAX_CTA,
    MAX_PREVIEW_DESCRIPTION, MAX_PREVIEW_TITLE, SocialPreview, UpdateLink,
};
use deeplink_core::patch::Patch;
use deeplink_core::time::Timestamp;
use http::header::{CONTENT_DISPOSITION, HeaderValue};
use http::{HeaderMap, StatusCode};

use super::chart::Numbers;
use super::confirm::Question;
use super::form::{Field, Form, FormPage, Group, Trouble, draw_id, fill, status_of};
use super::frame::{Frame, Section, answer};
use super::headers::{after_deletion, see_other};
use super::person::Person;
use super::when::When;
use crate::api;
use crate::db::clicks::{self, By, Kinds, Scope};
use crate::db::{Conn, DbError, domains};
use crate::error::ApiError;
use crate::http::extract::{Path, Query};
use crate::http::once::Once;
use crate::state::{App, Shared};

/// Links of a page.
const OF_A_PAGE: u32 = 25;
/// Days whose clicks are counted.
const DAYS: i64 = 30;

/// A link as the pages show it.
struct Shown {
    id: String,
    /// What people call it: its title, else where it leads.
    leads_to: Option<String>,
    status: Status,
    created: When,
    clicks: i64,
}

/// A status and its sign.
struct Status {
    word: &'static str,
    class: &'static str,
}

impl From<&LinkStatus> for Status {
    fn from(status: &LinkStatus) -> Self {
        let (word, class) = match status {
            LinkStatus::Active => ("Active", "good"),
            LinkStatus::Expired => ("Expired", "over"),
            LinkStatus::Flagged => ("Reported as unsafe", "bad"),
            _ => ("Switched off", "over"),
        };
        Self { word, class }
    }
}

#[derive(Template)]
#[template(path = "pages/links.html")]
struct ListPage<'a> {
    frame: &'a Frame,
    links: Vec<Shown>,
    is_first: bool,
    next: Option<String>,
}

/// Clicks of the last days, by `links.position`.
async fn recent_clicks(db: &mut Conn<'_>, links: &[i64], now: Timestamp) -> Result<BTreeMap<i64, i64>, DbError> {
    let from = now.plus_days(-DAYS).as_millis();
    // From a whole hour on, so that the log is not read.
    let scope = Scope { links, from: from - from.rem_euclid(3_600_000), to: i64::MAX, kinds: Kinds::Funnel };
    clicks::count(db, scope, By::Link).await
}

/// The list, newest first.
pub(super) async fn list(State(app): State<Shared>, person: Person, query: Query) -> Result<Response, ApiError> {
    let cursor = query.one("cursor")?;
    let found = api::links::page_of(&app, &person.caller, LinkFilter::new(), cursor, OF_A_PAGE).await?;
    let now = app.clock.now();
    let places: Vec<i64> = found.links.iter().map(|link| link.position).collect();
    let counts = recent_clicks(&mut app.db.read().await?.conn(), &places, now).await?;
    let links = found.links.into_iter().map(|link| {
        let clicks = counts.get(&link.position).copied().unwrap_or(0);
        let link = app.detail(link, found.primary.as_deref(), now);
        Shown {
            leads_to: name_of(&link),
            status: Status::from(&link.status),
            created: link.created_at.into(),
            id: link.link_id,
            clicks,
        }
    });
    let links = links.collect();
    let frame = Frame::of(&app, &person, Section::LINKS, "Links").after(&query);
    let page = ListPage { frame: &frame, links, is_first: cursor.is_none(), next: found.next_cursor };
    Ok(answer(&app, StatusCode::OK, &frame, &page))
}

/// What tells a link from others at a glance.
fn name_of(link: &LinkDetail) -> Option<String> {
    let title = link.social_preview.as_ref().and_then(|preview| preview.title.clone());
    title.or_else(|| {
        let places =
            [&link.web_url, &link.ios_deep_link, &link.android_deep_link, &link.ios_store_url, &link.android_store_url];
        places.into_iter().find_map(Clone::clone)
    })
}

/// The form for a new link.
pub(super) async fn new(State(app): State<Shared>, person: Person) -> Response {
    make_page(&app, &person, &Form::default(), None)
}

/// Makes a link. The same form sent twice makes one.
pub(super) async fn create(State(app): State<Shared>, person: Person, form: Form) -> Result<Response, ApiError> {
    if form.names().all(|name| name == "form" || form.value(name).is_empty()) {
        let trouble = Trouble::at("web_url", "Say where it leads: a web page, an app or a store.");
        return Ok(make_page(&app, &person, &form, Some(&trouble)));
    }
    let once = Once::form(&person.caller, "/account/new-link", form.value("form"), &form.whole());
    let mut link = CreateLink::new();
    link.custom_id = form.filled("custom_id");
    link.web_url = form.filled("web_url");
    link.ios_deep_link = form.filled("ios_deep_link");
    link.ios_store_url = form.filled("ios_store_url");
    link.android_deep_link = form.filled("android_deep_link");
    link.android_store_url = form.filled("android_store_url");
    link.social_preview = preview_in(&form, SocialPreview::default());
    link.agent_context = context_in(&form, AgentContext::default());
    match api::links::create_for(Arc::clone(&app), Arc::clone(&person.caller), once, link).await {
        Ok(answer) => {
            let path = answer.reply.location.unwrap_or_default();
            let id = path.rsplit('/').next().unwrap_or_default();
            Ok(see_other(&format!("/account/links/{id}?done=link-made")))
        }
        Err(error) => Ok(make_page(&app, &person, &form, Some(&Trouble::of(error)?))),
    }
}

/// What a field says; a field that the form does not have leaves what there is.
fn said(form: &Form, name: &str, now: Option<String>) -> Option<String> {
    if form.has(name) { form.filled(name) } else { now }
}

fn preview_in(form: &Form, now: SocialPreview) -> Option<SocialPreview> {
    let preview = SocialPreview {
        title: said(form, "social_preview.title", now.title),
        description: said(form, "social_preview.description", now.description),
        image_url: said(form, "social_preview.image_url", now.image_url),
    };
    (preview != SocialPreview::default()).then_some(preview)
}

fn context_in(form: &Form, now: AgentContext) -> Option<AgentContext> {
    let action = said(form, "agent_context.action", now.action.map(|action| action.as_str().to_owned()));
    let context = AgentContext {
        action: action.map(|word| Action::from(word.as_str())),
        cta: said(form, "agent_context.cta", now.cta),
        description: said(form, "agent_context.description", now.description),
    };
    (context != AgentContext::default()).then_some(context)
}

fn make_page(app: &App, person: &Person, form: &Form, trouble: Option<&Trouble>) -> Response {
    let mut groups = vec![Group::of(
        "",
        "",
        vec![web_field().such_as("https://shop.example.com/sale"), {
            let hint = "What stands at the end of its address: letters, digits and hyphens, at least 3. Leave it empty, and one is made for you.";
            Field::line("custom_id", "Its own id (optional)", hint).up_to(64).such_as("spring-sale")
        }],
    )];
    groups.extend(more_groups());
    let trouble_elsewhere = fill(&mut groups, form, trouble);
    let frame = Frame::of(app, person, Section::LINKS, "New link").failed(trouble.is_some());
    let page = FormPage {
        frame: &frame,
        lead: "One address that opens the right place on every device. Fill in what you have; everything can be changed later, except the id.",
        groups,
        trouble: trouble_elsewhere,
        action: "/account/new-link",
        hidden: vec![("form", draw_id(app))],
        submit: "Make the link",
        back: "/account/links",
    };
    answer(app, status_of(trouble), &frame, &page)
}

fn web_field() -> Field {
    Field::address("web_url", "Web page", "Where it leads on computers, and on phones without your app.")
}

fn more_groups() -> [Group; 3] {
    let apps = vec![
        Field::address("ios_deep_link", "Opens the iPhone app", "An address that your iOS app opens.")
            .such_as("myapp://sale"),
        Field::address("ios_store_url", "App Store page", "For iPhones and iPads without the app.")
            .such_as("https://apps.apple.com/app/id123456789"),
        Field::address("android_deep_link", "Opens the Android app", "An address that your Android app opens.")
            .such_as("myapp://sale"),
        Field::address("android_store_url", "Google Play page", "For Android phones without the app.")
            .such_as("https://play.google.com/store/apps/details?id=com.example.app"),
    ];
    let preview = vec![
        Field::line("social_preview.title", "Title", "").up_to(MAX_PREVIEW_TITLE),
        Field::area("social_preview.description", "Description", "").up_to(MAX_PREVIEW_DESCRIPTION),
        Field::address("social_preview.image_url", "Picture", "The address of an image, best twice as wide as high."),
    ];
    let actions = Action::ALL.iter().map(|action| (action.as_str().to_owned(), words_of(action).to_owned()));
    let nothing = std::iter::once((String::new(), "Not said".to_owned()));
    let agents = vec![
        Field::choice("agent_context.action", "What people do there", "", nothing.chain(actions)),
        Field::line("agent_context.cta", "Call to action", "A few words, as on a button.").up_to(MAX_CTA),
        Field::area("agent_context.description", "What it is about", "").up_to(MAX_AGENT_DESCRIPTION),
    ];
    [
        Group::of("Apps", "What has your app installed opens it there; other phones go to the store.", apps),
        Group::of(
            "How it looks when it is shared",
            "Shown by messengers and social networks, and on the link’s own page.",
            preview,
        ),
        Group::of("What it is for", "For assistants that read links, and people on the link’s own page.", agents),
    ]
}

fn words_of(action: &Action) -> &'static str {
    match action {
        Action::Purchase => "Buy something",
        Action::Subscribe => "Subscribe",
        Action::Signup => "Open an account",
        Action::Download => "Download something",
        Action::Read => "Read something",
        Action::Book => "Book something",
        _ => "Open something",
    }
}

#[derive(Template)]
#[template(path = "pages/link.html")]
struct LinkPage<'a> {
    frame: &'a Frame,
    link: &'a LinkDetail,
    status: Status,
    created: When,
    expires: Option<When>,
    numbers: Numbers,
    /// Name and address of each place it leads to.
    places: Vec<(&'static str, &'a str)>,
    action: Option<&'static str>,
    /// The code as the source of an image, which needs no escaping between double quotes.
    qr: Option<Arc<str>>,
}

/// One link.
pub(super) async fn show(
    State(app): State<Shared>,
    person: Person,
    Path(id): Path<String>,
    query: Query,
) -> Result<Response, ApiError> {
    let now = app.clock.now();
    let link = {
        let mut reader = app.db.read().await?;
        let mut db = reader.conn();
        let link = api::links::find(&mut db, &person.caller, &id).await?;
        let primary = domains::primary_of(&mut db, &person.caller.tenant).await?;
        app.detail(link, primary.as_deref(), now)
    };
    // A page without the code is better than no page.
    let qr = app.codes.on_page(&link.url).await.inspect_err(|error| tracing::error!(%error, "no code")).ok();
    let places = [
        ("Web page", &link.web_url),
        ("iPhone app", &link.ios_deep_link),
        ("App Store", &link.ios_store_url),
        ("Android app", &link.android_deep_link),
        ("Google Play", &link.android_store_url),
    ];
    let numbers = Numbers::of(&app, &person.caller, "", std::slice::from_ref(&link.link_id)).await;
    let frame = Frame::of(&app, &person, Section::LINKS, id).after(&query);
    let page = LinkPage {
        frame: &frame,
        status: Status::from(&link.status),
        created: link.created_at.into(),
        expires: link.expires_at.map(When::from),
        numbers,
        places: places.into_iter().filter_map(|(name, place)| Some((name, place.as_deref()?))).collect(),
        action: link.agent_context.as_ref().and_then(|context| context.action.as_ref()).map(words_of),
        link: &link,
        qr,
    };
    Ok(answer(&app, StatusCode::OK, &frame, &page))
}

/// The link's code as a file to keep.
pub(super) async fn qr(
    State(app): State<Shared>,
    person: Person,
    Path((id, format)): Path<(String, String)>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    // Large enough to be printed on a poster, and with what survives dirt.
    let mut response = api::qr::draw_for(&app, &person.caller, (&id, &format), "size=1024&level=M", &headers).await?;
    let name = format!("attachment; filename=\"{id}.{format}\"");
    let name = HeaderValue::try_from(name).map_err(|_| ApiError::not_found())?;
    response.headers_mut().insert(CONTENT_DISPOSITION, name);
    Ok(response)
}

/// The form that changes a link.
pub(super) async fn edit(
    State(app): State<Shared>,
    person: Person,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    let link = api::links::get_for(&app, &person.caller, &id).await?;
    let preview = link.social_preview.unwrap_or_default();
    let context = link.agent_context.unwrap_or_default();
    let form = Form::with([
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
    ]);
    Ok(edit_page(&app, &person, &id, &form, None))
}

/// Changes a link to what the form says: an empty field has no value any more, and one that is not in the form stays.
pub(super) async fn update(
    State(app): State<Shared>,
    person: Person,
    Path(id): Path<String>,
    form: Form,
) -> Result<Response, ApiError> {
    // What is not there is not there, whatever the form says.
    let now = api::links::get_for(&app, &person.caller, &id).await?;
    let has = |part: &str| form.names().any(|name| name.starts_with(part));
    let said = |name: &str| match form.filled(name) {
        Some(value) => Patch::Set(value),
        None if form.has(name) => Patch::Clear,
        None => Patch::Keep,
    };
    let mut update = UpdateLink::new();
    update.web_url = said("web_url");
    update.ios_deep_link = said("ios_deep_link");
    update.ios_store_url = said("ios_store_url");
    update.android_deep_link = said("android_deep_link");
    update.android_store_url = said("android_store_url");
    if has("social_preview.") {
        update.social_preview =
            preview_in(&form, now.social_preview.unwrap_or_default()).map_or(Patch::Clear, Patch::Set);
    }
    if has("agent_context.") {
        update.agent_context =
            context_in(&form, now.agent_context.unwrap_or_default()).map_or(Patch::Clear, Patch::Set);
    }
    match api::links::update_for(Arc::clone(&app), Arc::clone(&person.caller), id.clone(), update).await {
        Ok(_) => Ok(see_other(&format!("/account/links/{id}?done=link-saved"))),
        Err(error) => Ok(edit_page(&app, &person, &id, &form, Some(&Trouble::of(error)?))),
    }
}

fn edit_page(app: &App, person: &Person, id: &str, form: &Form, trouble: Option<&Trouble>) -> Response {
    let mut groups = vec![Group::of("", "", vec![web_field()])];
    groups.extend(more_groups());
    let elsewhere = fill(&mut groups, form, trouble);
    let frame = Frame::of(app, person, Section::LINKS, format!("Change {id}")).failed(trouble.is_some());
    let (action, back) = (format!("/account/links/{id}/edit"), format!("/account/links/{id}"));
    let page = FormPage {
        frame: &frame,
        lead: "Whoever taps the link from now on goes where it leads then.",
        groups,
        trouble: elsewhere,
        action: &action,
        hidden: Vec::new(),
        submit: "Save",
        back: &back,
    };
    answer(app, status_of(trouble), &frame, &page)
}

/// Asks once more.
pub(super) async fn confirm(
    State(app): State<Shared>,
    person: Person,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    let link = api::links::get_for(&app, &person.caller, &id).await?;
    let (action, back) = (format!("/account/links/{id}/delete"), format!("/account/links/{id}"));
    let question = Question {
        section: Section::LINKS,
        title: "Delete this link?",
        name: &link.url,
        lead: "Whoever taps it finds nothing any more, wherever it is printed or posted. This cannot be taken back.",
        action: &action,
        submit: "Delete the link",
        back: &back,
    };
    Ok(question.ask(&app, &person, None))
}

/// Deletes a link.
pub(super) async fn delete(
    State(app): State<Shared>,
    person: Person,
    Path(id): Path<String>,
    _: Form,
) -> Result<Response, ApiError> {
    let deleted = api::links::delete_for(Arc::clone(&app), Arc::clone(&person.caller), id).await;
    after_deletion(deleted, "/account/links", "link-deleted")
}
