//! Errors in a form, in words for people: the API's messages are for programs, which know fields by name.

use deeplink_core::error::{ErrorCode, Invalid, RowError};
use http::StatusCode;

use super::form::Form;
use super::frame::Outcome;
use super::guard;
use crate::error::ApiError;

const NO_LINK: &str = "This link no longer exists.";
const DISABLED_LINK: &str = "The operator of this service has disabled this link.";

/// Why a form was refused.
pub(super) struct FormError {
    pub(super) outcome: Outcome,
    /// The first fault, or what is wrong with the form as a whole.
    pub(super) text: String,
    /// The fields at fault, each with what is wrong with it.
    faults: Vec<(String, String)>,
}

impl FormError {
    /// Takes an error that the form can show; other errors get their own page.
    pub(super) fn of(error: ApiError) -> Result<Self, ApiError> {
        if let ApiError::Rows(rows) = &error {
            return Ok(Self::of_rows(rows));
        }
        let body = error.body();
        let status = error.status();
        let is_about_input =
            matches!(status.as_u16(), 400 | 402 | 403 | 409) || matches!(body.code, ErrorCode::AffiliateNotFound);
        let retry_after = error.retry_after();
        let text = match status.as_u16() {
            _ if is_about_input => text_of(&body.code, body.field.as_deref(), &error.to_string()),
            // The error is temporary, so the input is kept.
            429 | 503 if retry_after.is_some() => {
                if status.is_server_error() {
                    tracing::warn!(%error, "form could not be processed; showing it again");
                }
                let (heading, advice) = guard::text_of(&body.code, status);
                format!("{heading}. {advice}")
            }
            _ => return Err(error),
        };
        let faults = body.field.map(|field| (name_of(&field).to_owned(), text.clone())).into_iter().collect();
        Ok(Self { outcome: Outcome { status, retry_after }, text, faults })
    }

    /// Why rows of a batch were refused: each reason after the IDs that it is about.
    fn of_rows(rows: &[RowError]) -> Self {
        let mut reasons: Vec<(String, Vec<&str>)> = Vec::new();
        for row in rows {
            let reason = text_of(&row.code, row.field.as_deref(), &row.message);
            let id = row.custom_id.as_deref().unwrap_or_default();
            match reasons.iter_mut().find(|(known, _)| *known == reason) {
                Some((_, ids)) => ids.push(id),
                None => reasons.push((reason, vec![id])),
            }
        }
        let reasons = reasons.iter().map(|(reason, ids)| {
            let reason = if ids.len() > 1 { about_several(reason) } else { reason.clone() };
            format!("{}: {reason}", ids.join(", "))
        });
        let text: Vec<String> = std::iter::once("Nothing was changed.".to_owned()).chain(reasons).collect();
        Self::whole(&text.join(" "))
    }

    /// What is wrong with the form, in no field.
    pub(super) fn whole(text: &str) -> Self {
        Self { outcome: StatusCode::BAD_REQUEST.into(), text: text.to_owned(), faults: Vec::new() }
    }

    /// A broken rule.
    pub(super) fn invalid(invalid: &Invalid) -> Self {
        let text = text_of(&invalid.code, invalid.field.as_deref(), &invalid.message);
        match &invalid.field {
            Some(field) => Self::in_field(name_of(field), &text),
            None => Self::whole(&text),
        }
    }

    /// An error that the page itself found in a field.
    pub(super) fn in_field(field: &str, text: &str) -> Self {
        let faults = vec![(field.to_owned(), text.to_owned())];
        Self { outcome: StatusCode::BAD_REQUEST.into(), text: text.to_owned(), faults }
    }

    /// Everything that `check` refuses about a form. A check stops at the first fault, so it runs again with that field
    /// emptied, or, where it is required, with a valid value that stands in: `stand_in` gives the field to set for a
    /// field at fault, and its value.
    pub(super) fn all(
        form: &Form,
        stand_in: impl Fn(&str) -> Option<(&'static str, &'static str)>,
        check: impl Fn(&Form) -> Result<(), Invalid>,
    ) -> Option<Self> {
        let mut rest = form.clone();
        let mut faults: Vec<(String, String)> = Vec::new();
        while let Err(Invalid { code, field: Some(field), message }) = check(&rest) {
            let name = name_of(&field);
            if faults.iter().any(|(known, _)| known == name) {
                break;
            }
            faults.push((name.to_owned(), text_of(&code, Some(&field), &message)));
            let (name, value) = stand_in(name).unwrap_or((name, ""));
            rest.set(name, value);
        }
        let (_, text) = faults.first()?;
        Some(Self { outcome: StatusCode::BAD_REQUEST.into(), text: text.clone(), faults })
    }

    /// Shows what is about no field beside this one, unless it is only temporary.
    pub(super) fn beside(mut self, field: &str) -> Self {
        if self.faults.is_empty() && self.outcome.retry_after.is_none() {
            self.faults.push((field.to_owned(), self.text.clone()));
        }
        self
    }

    /// What is wrong with a field.
    pub(super) fn at(&self, name: &str) -> Option<&str> {
        self.faults.iter().find(|(field, _)| field == name).map(|(_, text)| text.as_str())
    }

    /// What a page shows apart from its fields, of which these show their own faults.
    pub(super) fn besides(&self, shown: &[&str]) -> Option<&str> {
        let hidden = self.faults.iter().find(|(field, _)| !shown.contains(&field.as_str()));
        match hidden {
            Some((_, text)) => Some(text.as_str()),
            None => self.faults.is_empty().then_some(self.text.as_str()),
        }
    }
}

/// The status of a page that shows a form with this error.
pub(super) fn status_of(error: Option<&FormError>) -> Outcome {
    error.map_or(StatusCode::OK.into(), |error| error.outcome)
}

/// What is wrong with a link, as a sentence about several.
fn about_several(reason: &str) -> String {
    match reason {
        NO_LINK => "These links no longer exist.".to_owned(),
        DISABLED_LINK => "The operator of this service has disabled these links.".to_owned(),
        _ => reason.replacen("The link would", "The links would", 1),
    }
}

/// The name of the form's field for a field of a request: one field has all elements of a list.
fn name_of(field: &str) -> &str {
    field.split_once('[').map_or(field, |(name, _)| name)
}

/// An error message for people.
fn text_of(code: &ErrorCode, field: Option<&str>, message: &str) -> String {
    let fixed = match code {
        ErrorCode::MissingFields => "This field is required.",
        ErrorCode::InvalidExpiresAt => "Choose a future time, within the next 100 years.",
        ErrorCode::DisabledByOperator => DISABLED_LINK,
        ErrorCode::TagLimit => {
            "Your account already has 1,000 different tags. To add another, first delete one that you no longer use."
        }
        ErrorCode::InvalidCustomId if message.ends_with("letter or digit at each end") => {
            "Use 3 to 64 letters, digits and hyphens, with a letter or a digit at each end."
        }
        ErrorCode::BatchTooLarge => "Select at most 100 links.",
        // Only rows of a batch can be refused with it, and they are links.
        ErrorCode::NotFound => NO_LINK,
        ErrorCode::LinkIdTaken => "This ID is already in use. Choose another one.",
        ErrorCode::EmptyEvents => "Choose at least one event.",
        ErrorCode::EmptyUpdate => "Nothing was changed.",
        ErrorCode::InvalidEmail => "This is not a valid email address.",
        ErrorCode::KeyLimit => {
            "You have reached the maximum number of keys. To add another, first delete one that you no longer use."
        }
        ErrorCode::LastKey => "This is your last key, and an account needs at least one. Create another one first.",
        ErrorCode::CredentialLimit => {
            "This affiliate has reached the maximum number of credentials. To add another, first delete one."
        }
        ErrorCode::LastUser => "This is the last person who can sign in, so they cannot be removed.",
        ErrorCode::UserExists => "This person is already on your team.",
        ErrorCode::PartnerKeyTaken => "Another affiliate already has this key. Choose another one.",
        ErrorCode::NameTaken => "Another source already has this name. Choose another one.",
        ErrorCode::InvalidTier => "This plan is not available for purchase. Choose another one.",
        ErrorCode::NoCustomer => "This account has no billing profile yet, so there is nothing to manage.",
        ErrorCode::NoSubscription => "You have no subscription to cancel.",
        ErrorCode::ThreatDetected if message.ends_with("threat list") => {
            "This URL is on a list of unsafe sites, so links cannot point to it."
        }
        ErrorCode::AlternateLimit => "You already have a verified alternate domain. Only one is allowed.",
        ErrorCode::InvalidLogo if message.ends_with("use PNG") => {
            "Lossless WebP and WebP with compressed transparency are not supported. Upload the image as a PNG."
        }
        ErrorCode::InvalidLogo if message.ends_with("too large") => {
            "This image has too many pixels. Choose a smaller one."
        }
        ErrorCode::InvalidLogo => "This is not a PNG, JPEG or WebP image.",
        ErrorCode::InvalidThemeColor => "Enter a color such as #0a7cff.",
        _ if message.ends_with("not an absolute URL") => {
            if field.is_some_and(|field| field.ends_with("deep_link")) {
                "Enter the full URL, starting with https:// or your app’s scheme, such as myapp://."
            } else {
                "Enter the full URL, starting with https://."
            }
        }
        _ => "",
    };
    if !fixed.is_empty() {
        return fixed.to_owned();
    }
    let rest = field.and_then(|field| message.strip_prefix(field)).map(|rest| match rest.strip_prefix(": ") {
        Some(why) => why.to_owned(),
        None if rest.starts_with(" must ") => rest.trim_start().to_owned(),
        None => format!("this{rest}"),
    });
    let text = rest.unwrap_or_else(|| message.to_owned());
    let mut characters = text.chars();
    let first: String = characters.next().map(|first| first.to_uppercase().collect()).unwrap_or_default();
    format!("{first}{}.", characters.as_str().trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use deeplink_core::app::CreateApp;
    use deeplink_core::link::CreateLink;

    use super::*;

    #[test]
    fn refusals_are_sentences() {
        for (field, message, text) in [
            (Some("web_url"), "web_url: must start with http:// or https://", "Must start with http:// or https://."),
            (
                Some("agent_context.cta"),
                "agent_context.cta must be at most 120 characters (currently 130)",
                "Must be at most 120 characters (currently 130).",
            ),
            (None, "the plan includes 50 links; there are 50", "The plan includes 50 links; there are 50."),
            (
                Some("domain"),
                "this account already has go.example.com; the list of domains shows its DNS records",
                "This account already has go.example.com; the list of domains shows its DNS records.",
            ),
        ] {
            assert_eq!(text_of(&ErrorCode::BadRequest, field, message), text);
        }
    }

    #[test]
    fn the_icon_and_the_color_of_a_form_are_explained() {
        let fault = |icon: &str, color: &str| {
            let app = CreateApp::ios("com.example.app", "ABCDE12345").icon_url(icon).theme_color(color);
            app.validate().expect_err("a fault")
        };
        for (invalid, text) in [
            (fault("example.com/icon.png", "#0a7cff"), "Enter the full URL, starting with https://."),
            (fault("https://example.com/icon.png", "blue"), "Enter a color such as #0a7cff."),
        ] {
            assert_eq!(text_of(&invalid.code, invalid.field.as_deref(), &invalid.message), text);
        }
    }

    #[test]
    fn a_form_is_told_all_its_faults_at_once() {
        let stand_in = |field: &str| (field == "bundle_id").then_some(("bundle_id", "com.example.app"));
        let check = |form: &Form| {
            let mut app = CreateApp::ios(form.value("bundle_id"), "ABCDE12345");
            app.icon_url = form.filled("icon_url");
            app.theme_color = form.filled("theme_color");
            app.validate()
        };
        let values = |bundle, icon, colour| {
            Form::with([("bundle_id", Some(bundle)), ("icon_url", Some(icon)), ("theme_color", Some(colour))])
        };
        let error = FormError::all(&values("x", "icon", "#12"), stand_in, check).expect("faults");
        assert!(["bundle_id", "icon_url", "theme_color"].iter().all(|field| error.at(field).is_some()));
        assert_eq!((error.faults.len(), error.at("bundle_id")), (3, Some(&*error.text)));
        assert!(FormError::all(&values("com.example.a", "", ""), stand_in, check).is_none());
        // A field that nothing stands in for is named once.
        let error = FormError::all(&values("x", "icon", ""), |_| None, check).expect("a fault");
        assert_eq!(error.faults.len(), 1);
        // A list is one field.
        let check = |form: &Form| CreateLink::new().aliases(form.filled("aliases")).validate();
        let error = FormError::all(&Form::with([("aliases", Some("a b"))]), |_| None, check).expect("a fault");
        assert!(error.at("aliases").is_some_and(|text| text.starts_with("Use an ID, or up to 3 path segments")));
    }
}
