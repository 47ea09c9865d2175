//! Domains: the list with the form for one more, the records that one needs, and the look for them.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use deeplink_core::domain::{CreateDomain, CreatedDomain, DomainDetail, DomainRole, DomainVerification};
use http::StatusCode;

use super::confirm::Question;
use super::form::{Field, Form, Group, Kind, Trouble, fill, status_of};
use super::frame::{Frame, Outcome, Section, answer};
use super::headers::{after_deletion, see_other};
use super::person::Person;
use super::when::When;
use crate::api;
use crate::api::domain_verify::Saw;
use crate::error::ApiError;
use crate::http::extract::{Path, Query};
use crate::http::once::Once;
use crate::state::{App, Shared};

struct Shown {
    name: String,
    role: &'static str,
    is_verified: bool,
    created: When,
}

impl From<DomainDetail> for Shown {
    fn from(domain: DomainDetail) -> Self {
        let role = if domain.role == DomainRole::Alternate { "Opens apps" } else { "Links live here" };
        Self { role, is_verified: domain.verified, created: domain.created_at.into(), name: domain.domain }
    }
}

#[derive(Template)]
#[template(path = "pages/domains.html")]
struct ListPage<'a> {
    frame: &'a Frame,
    domains: Vec<Shown>,
    groups: Vec<Group>,
    trouble: Option<String>,
}

/// The list, newest first.
pub(super) async fn list(State(app): State<Shared>, person: Person, query: Query) -> Result<Response, ApiError> {
    list_page(&app, &person, Some(&query), &Form::default(), None).await
}

async fn list_page(
    app: &App,
    person: &Person,
    query: Option<&Query>,
    form: &Form,
    trouble: Option<&Trouble>,
) -> Result<Response, ApiError> {
    let domains = api::domains::list_for(app, &person.caller).await?.into_iter().map(Shown::from).collect();
    let roles = [("primary", "Links live here"), ("alternate", "Opens apps from the link’s page")];
    let mut groups = vec![Group::of(
        "",
        "",
        vec![
            Field::line("domain", "Domain", "A name that you can set DNS records for.")
                .required()
                .up_to(253)
                .such_as("go.example.com"),
            Field::choice(
                "role",
                "What it does",
                "Most accounts need only the first. An iPhone opens an app only from a page of another host, and that is what the second is for.",
                roles,
            ),
        ],
    )];
    let elsewhere = fill(&mut groups, form, trouble);
    let frame = Frame::of(app, person, Section::DOMAINS, "Domains").failed(trouble.is_some()).after(query);
    let page = ListPage { frame: &frame, domains, groups, trouble: elsewhere };
    Ok(answer(app, status_of(trouble), &frame, &page))
}

/// Claims a domain.
pub(super) async fn create(State(app): State<Shared>, person: Person, form: Form) -> Result<Response, ApiError> {
    let mut domain = CreateDomain::new(form.value("domain"));
    domain.role = form.filled("role").map(|role| DomainRole::from(role.as_str()));
    let role = domain.role.clone().unwrap_or(DomainRole::Primary);
    match api::domains::create_for(Arc::clone(&app), &person.caller, Once::none(), domain).await {
        Ok(answer) => {
            let made: CreatedDomain = answer.said()?;
            Ok(see_other(&format!("/account/domains/{}?done=domain-added", made.domain)))
        }
        Err(error) => match api::domains::find(&app, &person.caller, form.value("domain")).await {
            // The form was sent twice, or the domain is there already, which is as good.
            Ok(own) if own.role == role => Ok(see_other(&format!("/account/domains/{}?done=domain-there", own.domain))),
            _ => list_page(&app, &person, None, &form, Some(&Trouble::of(error)?)).await,
        },
    }
}

#[derive(Template)]
#[template(path = "pages/domain.html")]
struct DomainPage<'a> {
    frame: &'a Frame,
    domain: Shown,
    txt_record: String,
    token: String,
    cname_target: String,
    /// What the last look found.
    look: Option<Look>,
}

/// What a look did not find.
struct Look {
    /// Whole sentences.
    text: String,
    found: Vec<String>,
}

/// One domain, with the records that it needs.
pub(super) async fn show(
    State(app): State<Shared>,
    person: Person,
    Path(name): Path<String>,
    query: Query,
) -> Result<Response, ApiError> {
    let domain = named(&app, &person, &name).await?;
    let frame = Frame::of(&app, &person, Section::DOMAINS, domain.domain.clone()).after(&query);
    Ok(page(&app, &frame, domain, None, StatusCode::OK.into()))
}

async fn named(app: &App, person: &Person, name: &str) -> Result<DomainDetail, ApiError> {
    api::domains::find(app, &person.caller, name).await
}

fn page(app: &App, frame: &Frame, domain: DomainDetail, look: Option<Look>, outcome: Outcome) -> Response {
    let page = DomainPage {
        frame,
        txt_record: domain.txt_record.clone().unwrap_or_default(),
        token: domain.verification_token.clone().unwrap_or_default(),
        cname_target: domain.cname_target.clone().unwrap_or_default(),
        domain: domain.into(),
        look,
    };
    answer(app, outcome, frame, &page)
}

/// A verified domain's record is gone.
const MISSING: &str =
    "The TXT record is not there now. Set it again, or the domain is no longer verified in about 3 days.";
/// A verified domain's record cannot be looked for.
const UNASKED: &str = "DNS could not be asked, so nothing is known and nothing has changed. Try again in a moment.";

impl Look {
    fn only(text: &str) -> Self {
        Self { text: text.to_owned(), found: Vec::new() }
    }
}

/// Looks for the proof. What it does not find is said on the same page; to look again does no harm.
pub(super) async fn verify(
    State(app): State<Shared>,
    person: Person,
    Path(name): Path<String>,
    _: Form,
) -> Result<Response, ApiError> {
    let domain = named(&app, &person, &name).await?;
    let looked = async {
        let claim = api::domain_verify::claim_of(&app, &person.caller, &name).await?;
        api::domain_verify::verify_claim(Arc::clone(&app), claim, Once::none()).await
    };
    let (look, outcome) = match looked.await {
        Ok((answer, saw)) => {
            let found: DomainVerification = answer.said()?;
            let done = if domain.verified { "domain-stands" } else { "domain-verified" };
            match (saw, domain.verified) {
                (Saw::Proof, _) if found.verified => {
                    return Ok(see_other(&format!("/account/domains/{}?done={done}", domain.domain)));
                }
                (Saw::Nothing, true) => (Look::only(UNASKED), Outcome::from(StatusCode::OK)),
                (_, true) => (Look { text: MISSING.to_owned(), found: found.txt_found }, StatusCode::OK.into()),
                (_, false) => {
                    let text = format!("It is not verified yet: {}.", found.reason.unwrap_or_default());
                    (Look { text, found: found.txt_found }, StatusCode::OK.into())
                }
            }
        }
        Err(error) => {
            let trouble = Trouble::of(error)?;
            (Look::only(&trouble.text), trouble.outcome())
        }
    };
    let frame = Frame::of(&app, &person, Section::DOMAINS, domain.domain.clone()).failed(true);
    Ok(page(&app, &frame, domain, Some(look), outcome))
}

/// Asks once more.
pub(super) async fn confirm(
    State(app): State<Shared>,
    person: Person,
    Path(name): Path<String>,
) -> Result<Response, ApiError> {
    let domain = named(&app, &person, &name).await?;
    let back = format!("/account/domains/{}", domain.domain);
    let action = format!("{back}/delete");
    let lead = if domain.verified {
        "Links under it stop at once, wherever they are printed or posted, and its publishable keys stop with them. They go on under this service’s own address."
    } else {
        "It is only a claim, so nothing stops. You can add it again, with another token."
    };
    let question = Question {
        section: Section::DOMAINS,
        title: "Delete this domain?",
        name: &domain.domain,
        lead,
        action: &action,
        submit: "Delete the domain",
        back: &back,
    };
    Ok(question.ask(&app, &person, None))
}

/// Gives a domain up.
pub(super) async fn delete(
    State(app): State<Shared>,
    person: Person,
    Path(name): Path<String>,
    _: Form,
) -> Result<Response, ApiError> {
    let deleted = api::domains::delete_for(Arc::clone(&app), Arc::clone(&person.caller), &name).await;
    after_deletion(deleted, "/account/domains", "domain-deleted")
}
