//! The report on the rows before they are sent.

use deeplink_core::error::ErrorCode;

use crate::context::Context;
use crate::error::{Failure, Item, Outcome};
use crate::exit::Exit;
use crate::import::flags::{OnError, Policy};
use crate::import::{Reading, Ready, Want, unreadable};
use crate::progress::{counted, grouped};

/// Prints every fault, and ends the import if it cannot continue with them.
pub(super) fn faults(ctx: &Context, mut ready: Ready, policy: &Policy, want: Want) -> Outcome<Option<Ready>> {
    let report = ready.checked.report().clone();
    for (first, later, id) in &report.case_pairs {
        let location = (ready.locate)(*later, None);
        ctx.console.note(&format!("{location}: ID \"{id}\" differs only in case from the one on line {first}"));
    }
    if report.invalid == 0 {
        if want == Want::Check {
            ctx.console.say(&format!("{} in {}: all valid; nothing was sent", counted(report.rows, "row"), ready.name));
            if ctx.out.format.is_json() {
                ctx.out.json(&serde_json::json!({ "rows": report.rows, "invalid": 0 }).to_string())?;
                ctx.out.flush()?;
            }
            return Ok(None);
        }
        return Ok(Some(ready));
    }
    let json = ctx.out.json_errors;
    if !json {
        for fault in &report.faults {
            ctx.console.fault(&format!("{}: {fault}", (ready.locate)(fault.line, fault.column)));
        }
    }
    collect(&mut ready)?;
    let shown = u64::try_from(report.faults.len()).unwrap_or(u64::MAX);
    if report.invalid > shown && !json {
        ctx.console.fault(&format!("… and {} more", grouped(report.invalid - shown)));
    }
    if want == Want::Send && policy.on_error == OnError::Continue {
        let (invalid, rows) = (grouped(report.invalid), grouped(report.rows));
        let verbs = if report.invalid == 1 { "is invalid and was" } else { "are invalid and were" };
        ctx.console.warn(&format!("{invalid} of {rows} rows {verbs} skipped"));
        return Ok(Some(ready));
    }
    if let Some(rejects) = ready.rejects.take() {
        rejects.finish().map_err(|error| Failure::file("write", "--rejects", &error))?;
    }
    let verb = if report.invalid == 1 { "is" } else { "are" };
    let what =
        format!("{} of {} {verb} invalid; nothing was sent", grouped(report.invalid), counted(report.rows, "row"));
    let is_id = |fault: &deeplink_client::bulk::RowFault| fault.code == ErrorCode::InvalidCustomId;
    let ids = if report.faults.iter().any(is_id) { id_advice(&ready.reading) } else { String::new() };
    let mut failure = Failure::new(Exit::Invalid, what).hint(format!("{}{ids}", advice(policy)));
    if json {
        failure.items = report.faults.iter().map(|fault| item(&ready, fault)).collect();
    }
    Err(failure.into())
}

/// What helps with IDs of another service that are not allowed here.
fn id_advice(reading: &Reading) -> String {
    let is_foreign = reading.from.is_some();
    let advice = [
        (!reading.sanitize_ids, "--sanitize-ids replaces characters that are not allowed in an ID"),
        (reading.generate_ids.is_none(), "--generate-ids generates IDs instead"),
    ];
    let advice: Vec<&str> = advice.iter().filter(|(helps, _)| is_foreign && *helps).map(|(_, text)| *text).collect();
    if advice.is_empty() { String::new() } else { format!("; {}", advice.join(", and ")) }
}

fn advice(policy: &Policy) -> String {
    match policy.rejects_path() {
        Some(path) => format!("fix the rows, or fix those in {} and import that file", path.display()),
        None => "fix the rows, or skip them with --on-error continue; --rejects FILE collects them".to_owned(),
    }
}

fn item(ready: &Ready, fault: &deeplink_client::bulk::RowFault) -> Item {
    Item {
        index: Some(fault.line),
        id: fault.id.clone(),
        code: fault.code.to_string(),
        message: format!("{}: {}", (ready.locate)(fault.line, fault.column), fault.message),
        field: fault.field.clone(),
        ..Item::default()
    }
}

/// Records the invalid rows, and writes them to a file on request.
fn collect(ready: &mut Ready) -> Outcome {
    let Ready { checked, invalid, rejects, name, .. } = ready;
    let mut written = Ok(());
    let faults = checked.each_fault(|fault| {
        invalid.insert(fault.at);
        if let (Some(rejects), true) = (&mut *rejects, written.is_ok()) {
            written = rejects.write(fault.at, &fault.to_string());
        }
    });
    faults.map_err(|error| unreadable(name, &error))?;
    written.map_err(|error| Failure::file("write", "--rejects", &error).into())
}

/// Shows how the rows would be sent.
pub(super) fn plan(ctx: &Context, ready: &Ready, want: Want) -> Outcome {
    debug_assert!(want == Want::Plan);
    let plan = ready.checked.report().plan;
    let rows = ready.checked.report().rows - ready.checked.report().invalid;
    if ctx.out.format.is_json() {
        let record = serde_json::json!({
            "rows": rows, "groups": plan.groups, "template_rows": plan.template_rows,
            "template_requests": plan.template_requests, "other_rows": plan.other_rows,
            "other_requests": plan.other_requests,
        });
        ctx.out.json(&record.to_string())?;
        return ctx.out.flush();
    }
    ctx.out.line(&format!("{} in {}", counted(rows, "row"), ready.name))?;
    if plan.template_rows > 0 {
        let groups =
            if plan.groups == 1 { "one template".to_owned() } else { format!("{} templates", grouped(plan.groups)) };
        ctx.out.line(&format!(
            "  {} from {groups}, in {} (POST /v1/links/bulk, template and IDs)",
            counted(plan.template_rows, "row"),
            counted(plan.template_requests, "request"),
        ))?;
    }
    if plan.other_rows > 0 {
        ctx.out.line(&format!(
            "  {} without a common template, in {} (POST /v1/links/bulk, links; one by one if the service does not support that \
             form)",
            counted(plan.other_rows, "row"),
            counted(plan.other_requests, "request"),
        ))?;
    }
    ctx.out.flush()?;
    ctx.console.note("--dry-run: nothing was created");
    Ok(())
}
