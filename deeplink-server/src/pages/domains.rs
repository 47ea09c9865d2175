//! Domains: the list with a form to add one, the DNS records that a domain needs, and its verification.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use deeplink_core::domain::{CreateDomain, DnsRoute, DomainDetail, DomainRole, UpdateDomain};
use deeplink_core::patch::Patch;
use deeplink_core::time::Timestamp;
use http::StatusCode;

use super::PageResult;
use super::confirm::Question;
use super::form::{Field, Form, FormError, FormView, Group, Kind, View, status_of};
use super::frame::{Back, Frame, Outcome, Pager, Section, answer};
use super::headers::{after_deletion, see_other};
use super::person::Person;
use crate::api;
use crate::api::domain_verify::Saw;
use crate::error::ApiError;
use crate::http::extract::{Path, Query};
use crate::http::once::Once;
use crate::http::pages::PageRequest;
use crate::state::{App, Shared};

struct DomainView {
    name: String,
    role: &'static str,
    is_verified: bool,
    created: Timestamp,
}

impl From<DomainDetail> for DomainView {
    fn from(domain: DomainDetail) -> Self {
        let role = if domain.role == DomainRole::Alternate { "Opening apps" } else { "Short links" };
        Self { role, is_verified: domain.verified, created: domain.created_at, name: domain.domain }
    }
}

#[derive(Template)]
#[template(path = "pages/domains.html")]
struct ListPage<'a> {
    frame: &'a Frame,
    domains: Vec<DomainView>,
    pager: Pager,
    form: FormView,
}

/// The list, newest first.
pub(super) async fn list(State(app): State<Shared>, person: Person, query: Query) -> PageResult {
    list_page(&app, &person, View::Opened(Some(&query))).await
}

async fn list_page(app: &App, person: &Person, view: View<'_>) -> PageResult {
    let cursor = view.cursor()?;
    let found = api::domains::list_for(app, &person.caller, PageRequest::at(cursor)).await?;
    let pager = Pager::new("/account/domains", cursor, found.next_cursor);
    let domains = found.items.into_iter().map(DomainView::from).collect();
    let roles = [("primary", "Short links"), ("alternate", "Opening apps from landing pages")];
    let fields = vec![
        Field::line("domain", "Domain", if app.is_loopback { LOCAL_HINT } else { HINT })
            .required()
            .max_length(253)
            .placeholder("go.example.com"),
        Field::choice(
            "role",
            "Used for",
            "Most accounts only need “Short links”. iPhones open an app only from a link to a different domain, so “Opening apps from landing pages” needs a separate domain.",
            roles,
        ),
    ];
    let form = FormView::new(app, vec![Group::plain(fields)], &Form::default(), &view);
    let frame = Frame::list(app, person, Section::DOMAINS, &view);
    Ok(answer(app, view.outcome(), &frame, &ListPage { frame: &frame, domains, pager, form }))
}

const HINT: &str = "A domain or subdomain whose DNS records you can edit.";
const LOCAL_HINT: &str = "A domain or subdomain whose DNS records you can edit; or, to try it on this machine, a name under .localhost, such as shop.localhost.";

/// Claims a domain.
pub(super) async fn create(State(app): State<Shared>, person: Person, form: Form) -> PageResult {
    let mut domain = CreateDomain::new(form.value("domain"));
    domain.role = form.filled("role").map(|role| DomainRole::from(role.as_str()));
    let role = domain.role.clone().unwrap_or(DomainRole::Primary);
    match api::domains::create_for(&app, &person.caller, Once::none(person.caller.turn()), domain).await {
        Ok(answer) => {
            let made = answer.into_made()?;
            let done = if made.verified { "domain-verified" } else { "domain-added" };
            Ok(see_other(&format!("/account/domains/{}?done={done}", made.domain)))
        }
        Err(error) => match api::domains::find(&app, &person.caller, form.value("domain")).await {
            // The form was submitted twice, or the domain was added before, which is just as good.
            Ok(own) if own.role == role => Ok(see_other(&format!("/account/domains/{}?done=domain-there", own.domain))),
            _ => list_page(&app, &person, View::refused(&form, error)?).await,
        },
    }
}

#[derive(Template)]
#[template(path = "pages/domain.html")]
struct DomainPage<'a> {
    frame: &'a Frame,
    domain: DomainView,
    txt_record: String,
    token: String,
    cname_target: String,
    /// The record that sends visitors here: its kind and its value.
    route: Option<(&'static str, &'a str)>,
    /// Whether the service is on the person's own machine, so that its settings are theirs.
    is_loopback: bool,
    /// Whether it needs no records.
    is_local: bool,
    form: FormView,
    /// Why the last verification failed.
    failure: Option<Failure>,
}

/// Why a verification failed.
struct Failure {
    /// Full sentences.
    text: String,
    /// The TXT records that were found instead.
    txt_found: Vec<String>,
}

/// One domain, with the DNS records that it needs.
pub(super) async fn show(
    State(app): State<Shared>,
    person: Person,
    Path(name): Path<String>,
    query: Query,
) -> PageResult {
    let domain = named(&app, &person, &name).await?;
    let frame = Frame::of(&app, &person, Section::DOMAINS, domain.domain.clone()).after(&query);
    Ok(page(&app, &frame, domain, None, StatusCode::OK.into(), &View::Opened(None)))
}

async fn named(app: &App, person: &Person, name: &str) -> Result<DomainDetail, ApiError> {
    api::domains::find(app, &person.caller, name).await
}

fn page(
    app: &App,
    frame: &Frame,
    domain: DomainDetail,
    failure: Option<Failure>,
    outcome: Outcome,
    view: &View<'_>,
) -> Response {
    let fields = vec![
        Field::url("root_url", "Root URL", "Where to send people who open the domain itself, without a link.")
            .placeholder("https://www.example.com"),
        Field::url("not_found_url", "Not found URL", "Where to send people who open a link that does not exist.")
            .placeholder("https://www.example.com/help"),
        Field::choice(
            "long_links",
            "Firebase long links",
            "Links that contain their destination in the query string, such as /?link=https://www.example.com/sale. Visits to them are not counted.",
            [("", "Ignore"), ("true", "Redirect")],
        ),
        Field::area(
            "allowed_hosts",
            "Allowed hosts for long links",
            "Long links lead only to these hosts, one per line. To allow your apps’ store pages, add apps.apple.com and play.google.com.",
        ),
    ];
    let stored = Form::with([
        ("root_url", domain.root_url.as_deref()),
        ("not_found_url", domain.not_found_url.as_deref()),
        ("long_links", domain.long_links.then_some("true")),
        ("allowed_hosts", Some(&domain.allowed_hosts.join("\n"))),
    ]);
    let cname_target = domain.cname_target.clone().unwrap_or_default();
    let page = DomainPage {
        frame,
        txt_record: domain.txt_record.clone().unwrap_or_default(),
        token: domain.verification_token.clone().unwrap_or_default(),
        route: match DnsRoute::to(&cname_target) {
            DnsRoute::By(kind, value) => Some((kind, value)),
            DnsRoute::Nowhere => None,
        },
        cname_target: cname_target.clone(),
        is_loopback: app.is_loopback,
        is_local: domain.verified && domain.domain.parse().is_ok_and(|name| app.needs_no_proof(&name)),
        form: FormView::new(app, vec![Group::plain(fields)], &stored, view),
        domain: domain.into(),
        failure,
    };
    answer(app, outcome, frame, &page)
}

/// Changes where the domain sends people who open no link, and its long links.
pub(super) async fn update(
    State(app): State<Shared>,
    person: Person,
    Path(name): Path<String>,
    form: Form,
) -> PageResult {
    let domain = named(&app, &person, &name).await?;
    let asked_in = |form: &Form| {
        let mut asked = UpdateDomain::new();
        asked.root_url = form.filled("root_url").into();
        asked.not_found_url = form.filled("not_found_url").into();
        if form.has("long_links") {
            asked.long_links = Patch::Set(form.value("long_links") == "true");
        }
        if form.has("allowed_hosts") {
            let hosts = form.value("allowed_hosts").split([',', ' ', '\n']).filter(|host| !host.is_empty());
            asked = asked.allowed_hosts(hosts);
        }
        asked
    };
    let view = match View::checked(&form, |_| None, |form| asked_in(form).check().map(drop)) {
        Some(refused) => refused,
        None => match api::domains::update_for(&app, Arc::clone(&person.caller), &name, asked_in(&form)).await {
            Ok(changed) => return Ok(see_other(&format!("/account/domains/{}?done=domain-saved", changed.domain))),
            Err(error) => View::refused(&form, error)?,
        },
    };
    let frame = Frame::of(&app, &person, Section::DOMAINS, domain.domain.clone()).showing(&view);
    Ok(page(&app, &frame, domain, None, view.outcome(), &view))
}

/// Redirects to the domain: a bookmark or a sign-in comes back without the form.
pub(super) async fn back(Path(name): Path<String>) -> PageResult {
    Ok(see_other(&format!("/account/domains/{}", api::domains::named(&name)?)))
}

/// A verified domain's record is missing.
const MISSING: &str = "The TXT record is missing. Add it again, or the domain will become unverified in about 3 days.";
/// A verified domain's record could not be looked up.
const UNKNOWN: &str = "The DNS lookup failed, so nothing has changed. Try again in a moment.";

impl Failure {
    fn of(text: &str) -> Self {
        Self { text: text.to_owned(), txt_found: Vec::new() }
    }
}

/// Verifies the domain. A failure is shown on the same page; verifying again does no harm.
pub(super) async fn verify(State(app): State<Shared>, person: Person, Path(name): Path<String>, _: Form) -> PageResult {
    let domain = named(&app, &person, &name).await?;
    let looked = async {
        let claim = api::domain_verify::claim_of(&app, &person.caller, &name).await?;
        api::domain_verify::verify_claim(&app, &person.caller, claim, Once::none(person.caller.turn())).await
    };
    let (failure, outcome) = match looked.await {
        Ok((answer, saw)) => {
            let found = answer.into_made()?;
            let done = if domain.verified { "domain-stands" } else { "domain-verified" };
            match (saw, domain.verified) {
                (Saw::Proof, _) if found.verified => {
                    return Ok(see_other(&format!("/account/domains/{}?done={done}", domain.domain)));
                }
                (Saw::Nothing, true) => (Failure::of(UNKNOWN), Outcome::from(StatusCode::OK)),
                (_, true) => (Failure { text: MISSING.to_owned(), txt_found: found.txt_found }, StatusCode::OK.into()),
                (_, false) => {
                    let text = format!("Not verified yet: {}.", found.reason.unwrap_or_default());
                    (Failure { text, txt_found: found.txt_found }, StatusCode::OK.into())
                }
            }
        }
        Err(error) => {
            let error = FormError::of(error)?;
            (Failure::of(&error.text), status_of(Some(&error)))
        }
    };
    let frame = Frame::of(&app, &person, Section::DOMAINS, domain.domain.clone()).failed(true);
    Ok(page(&app, &frame, domain, Some(failure), outcome, &View::Opened(None)))
}

/// Asks for confirmation.
pub(super) async fn confirm(State(app): State<Shared>, person: Person, Path(name): Path<String>) -> PageResult {
    let domain = named(&app, &person, &name).await?;
    let lead = if domain.verified {
        "Short links on it will stop working immediately, wherever they are printed or posted, and so will its publishable keys. The links will keep working on this service’s own domain, except those whose ID another account already uses there."
    } else {
        "It is not verified, so no links are affected. You can add it again later, with a new verification token."
    };
    let back = Back { path: &format!("/account/domains/{}", domain.domain), name: &domain.domain };
    Ok(Question::delete(Section::DOMAINS, "domain", &domain.domain, lead, back).ask(&app, &person, None))
}

/// Deletes a domain.
pub(super) async fn delete(State(app): State<Shared>, person: Person, Path(name): Path<String>, _: Form) -> PageResult {
    let deleted = api::domains::delete_for(&app, Arc::clone(&person.caller), &name).await;
    after_deletion(deleted, "/account/domains", "domain-deleted")
}
