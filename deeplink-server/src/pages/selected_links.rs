//! What is done to the links that are selected in their list: they are enabled, disabled, tagged or deleted together, all of
//! them or none.

use std::sync::Arc;

use axum::extract::{FromRequest, Request, State};
use axum::response::Response;
use deeplink_core::bulk::{BulkChange, BulkDelete, BulkUpdate};
use deeplink_core::error::{ErrorCode, Invalid};
use deeplink_core::link::{DELETED_DAYS, LinkDetail, UpdateLink};
use deeplink_core::patch::Patch;
use http::Uri;

use super::confirm::Question;
use super::form::{Field, Form, FormError, Group, View};
use super::frame::{Back, Section};
use super::headers::see_other;
use super::link_filter::{LIST, LinkListQuery};
use super::person::Person;
use super::{PageResult, link_list, notice, tags};
use crate::api::bulk_change;
use crate::error::ApiError;
use crate::http::extract::{BODY_LIMIT, Query, form_body};
use crate::http::once::Once;
use crate::state::{App, Shared};

/// Where the form is submitted to, with the query of the list. It cannot be below the list: any name there may be a link's ID.
pub(super) const PATH: &str = "/account/selected-links";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action {
    Enable,
    Disable,
    AddTags,
    RemoveTags,
    Delete,
}

/// The actions that can be chosen: the value in the form, the option, and the code of the notice afterwards.
const ACTIONS: [(Action, &str, &str, &str); 5] = [
    (Action::Enable, "enable", "Enable", "links-enabled"),
    (Action::Disable, "disable", "Disable", "links-disabled"),
    (Action::AddTags, "add_tags", "Add tags", "links-tagged"),
    (Action::RemoveTags, "remove_tags", "Remove tags", "links-untagged"),
    (Action::Delete, "delete", "Delete", "links-deleted"),
];

/// The fields of the form, apart from a checkbox for each link.
pub(super) fn group() -> Group {
    let actions = ACTIONS.map(|(_, value, words, _)| (value, words));
    let actions = std::iter::once(("", "Choose an action")).chain(actions);
    Group::plain(vec![
        Field::choice("action", "Action for selected links", "", actions),
        Field::line("tags", "Tags, separated by commas", "").placeholder("spring, poster"),
    ])
}

/// The form as it was sent: the selected links, and its other fields.
pub(super) struct Selection {
    ids: Vec<String>,
    form: Form,
}

impl FromRequest<Shared> for Selection {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &Shared) -> Result<Self, ApiError> {
        let sent = form_body(request, BODY_LIMIT).await?;
        let ids = sent.every("link").map(str::to_owned).collect();
        let others: Vec<_> = sent.pairs().iter().filter(|(name, _)| name != "link").cloned().collect();
        Ok(Self { ids, form: Form::of(&others)? })
    }
}

/// What a form asks for, checked.
enum Asked {
    Update(Box<BulkChange>),
    Delete(Vec<(u64, String)>),
}

impl Selection {
    /// Applies the rules that need nothing but the form. Also returns the code of the notice.
    fn check(&self) -> Result<(Asked, &'static str), FormError> {
        if self.ids.is_empty() {
            return Err(FormError::whole("Select at least one link."));
        }
        let chosen = self.form.value("action");
        let Some((action, .., done)) = ACTIONS.into_iter().find(|(_, value, ..)| *value == chosen) else {
            return Err(FormError::in_field("action", "Choose an action."));
        };
        let update = BulkUpdate::new(&self.ids);
        let asked = match action {
            Action::Enable => update.set(switched(true)).check().map(changed),
            Action::Disable => update.set(switched(false)).check().map(changed),
            Action::AddTags => update.add_tags(self.tags()?).check().map(changed),
            Action::RemoveTags => update.remove_tags(self.tags()?).check().map(changed),
            Action::Delete => BulkDelete::new(&self.ids).check().map(Asked::Delete),
        };
        asked.map(|asked| (asked, done)).map_err(|invalid| FormError::invalid(&of_form(invalid)))
    }

    fn tags(&self) -> Result<Vec<String>, FormError> {
        let tags = tags::in_form(&self.form, "tags").filter(|tags| !tags.is_empty());
        tags.ok_or_else(|| FormError::in_field("tags", "Enter at least one tag."))
    }
}

fn changed(change: BulkChange) -> Asked {
    Asked::Update(Box::new(change))
}

fn switched(enabled: bool) -> UpdateLink {
    let mut update = UpdateLink::new();
    update.enabled = Patch::Set(enabled);
    update
}

/// The form has one field for the tags that are added and for those that are removed.
fn of_form(mut invalid: Invalid) -> Invalid {
    for field in ["add_tags", "remove_tags"] {
        if invalid.field.as_deref() == Some(field) {
            invalid.message = invalid.message.replacen(field, "tags", 1);
            invalid.field = Some("tags".into());
        }
    }
    invalid
}

/// Does what was chosen to the selected links, and returns to their list. A deletion is confirmed first.
pub(super) async fn apply(State(app): State<Shared>, person: Person, query: Query, selection: Selection) -> PageResult {
    let list = LinkListQuery::parse(&query)?;
    let cursor = query.one("cursor")?;
    let back = |done: &str, Counts { changed, unchanged }: Counts| {
        let (changed, unchanged) = (changed.to_string(), (unchanged > 0).then(|| unchanged.to_string()));
        let notice = [("done", Some(done)), ("n", Some(&*changed)), ("unchanged", unchanged.as_deref())];
        see_other(&list.href_at(LIST, [("cursor", cursor)].into_iter().chain(notice)))
    };
    let refused = match selection.check() {
        Ok((Asked::Delete(ids), _)) if !selection.form.has("confirmed") => {
            match bulk_change::all_for(&app, &person.caller, &ids).await {
                Ok(links) => return Ok(question(&app, &person, &list, cursor, links)),
                Err(error) => FormError::of(error)?,
            }
        }
        Ok((asked, done)) => match perform(&app, &person, asked).await {
            Ok(counts) => return Ok(back(done, counts)),
            // The confirmation may have been submitted twice.
            Err(error) if selection.form.has("confirmed") && is_gone(&error, &selection.ids) => {
                return Ok(back("links-gone", Counts { changed: selection.ids.len() as u64, unchanged: 0 }));
            }
            Err(error) => FormError::of(error)?,
        },
        Err(error) => error,
    };
    link_list::page(&app, &person, &query, &selection.ids, &View::Refused(Some(&selection.form), refused)).await
}

/// How many links an action changed, and how many were so already.
struct Counts {
    changed: u64,
    unchanged: u64,
}

/// Does it.
async fn perform(app: &Shared, person: &Person, asked: Asked) -> Result<Counts, ApiError> {
    // Done twice, it has the same result.
    let (caller, once) = (Arc::clone(&person.caller), Once::none(person.caller.turn()));
    match asked {
        Asked::Update(change) => {
            let count = change.link_ids.len() as u64;
            let changed = bulk_change::update_for(app, caller, once, *change).await?.into_made()?;
            Ok(Counts { changed, unchanged: count.saturating_sub(changed) })
        }
        Asked::Delete(ids) => {
            let deleted = bulk_change::delete_for(app, caller, once, ids).await?.into_made()?.deleted;
            Ok(Counts { changed: deleted, unchanged: 0 })
        }
    }
}

/// Whether none of these links exists.
fn is_gone(error: &ApiError, ids: &[String]) -> bool {
    let ApiError::Rows(rows) = error else { return false };
    rows.len() == ids.len() && rows.iter().all(|row| row.code == ErrorCode::NotFound)
}

/// Asks for confirmation.
fn question(
    app: &App,
    person: &Person,
    list: &LinkListQuery,
    cursor: Option<&str>,
    links: Vec<LinkDetail>,
) -> Response {
    let lead = if links.len() == 1 {
        "Anyone who clicks it gets a “not found” page, wherever it is printed or posted. You can restore it"
    } else {
        "Anyone who clicks them gets a “not found” page, wherever they are printed or posted. You can restore them"
    };
    let count = notice::of_links(links.len() as u64);
    let back = list.href_at(LIST, [("cursor", cursor)]);
    let question = Question {
        section: Section::LINKS,
        title: format!("Delete {count}?"),
        subject: "",
        lead: &format!("{lead} for {DELETED_DAYS} days."),
        submit: format!("Delete {count}"),
        is_typed: false,
        keep: "Cancel",
        back: Back { path: &back, name: Section::LINKS.name },
    };
    let ids: Vec<String> = links.iter().map(|link| link.link_id.clone()).collect();
    let mut fields = vec![("action", "delete"), ("confirmed", "yes")];
    fields.extend(ids.iter().map(|id| ("link", id.as_str())));
    question.ask_about(app, person, links, (&list.href_at(PATH, [("cursor", cursor)]), &fields))
}

/// Redirects to the list: a reload or a sign-in comes back without the form.
pub(super) async fn back(uri: Uri) -> Response {
    let query = uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    see_other(&format!("{LIST}{query}"))
}
