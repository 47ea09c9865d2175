//! What each device gets from a link, and why: a card on the link's page.

use deeplink_core::explanation::{ExplainQuery, ExplainedOutcome, Explanation, SampleVisitor};

use crate::error::ApiError;
use crate::state::App;
use crate::visit::explanation::Address;

/// Devices that get the same.
pub(super) struct Answer {
    pub(super) devices: String,
    /// What they get, in front of the target if there is one.
    pub(super) what: &'static str,
    pub(super) target: Option<String>,
    pub(super) reason: String,
}

/// The answers to the devices that people use, each answer once.
pub(super) async fn by_device(app: &App, address: &Address) -> Result<Vec<Answer>, ApiError> {
    let mut answers: Vec<Answer> = Vec::new();
    for device in SampleVisitor::DEVICES {
        let why = address.explain(app, &ExplainQuery::from(device)).await?;
        let target = why.target_of(device);
        let what = what(&why, target.is_some());
        let reason = reason(&why, device);
        let same =
            |known: &&mut Answer| known.what == what && known.target.as_deref() == target && known.reason == reason;
        match answers.iter_mut().find(same) {
            Some(known) => known.devices.extend([", ", device.label]),
            None => answers.push(Answer {
                devices: device.label.to_owned(),
                what,
                target: target.map(str::to_owned),
                reason,
            }),
        }
    }
    if let [all] = answers.as_mut_slice() {
        "All devices".clone_into(&mut all.devices);
    }
    Ok(answers)
}

/// The reason, with the page's apostrophes. The API's is that of the headers, which an iPad shares with a Mac.
fn reason(why: &Explanation, device: SampleVisitor) -> String {
    if device.is_ipad && why.ipad_target.is_some() {
        return "An iPad sends the same headers as a Mac, so the page itself detects it and shows this button."
            .to_owned();
    }
    why.reason.replace('\'', "’")
}

fn what(why: &Explanation, has_target: bool) -> &'static str {
    match why.outcome {
        ExplainedOutcome::Redirect => "Redirect to",
        ExplainedOutcome::Landing if !has_target => "Landing page without a main button",
        ExplainedOutcome::Landing => "Landing page with a button to",
        ExplainedOutcome::Notice => "Notice",
        _ => "“Not found” page",
    }
}
