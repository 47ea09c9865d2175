//! What was left out or changed while another service's export was read.

use deeplink_client::Client;
use deeplink_client::bulk::{ForeignHost, ForeignNotes, MarkedRows};
use deeplink_core::domain::DomainRole;
use deeplink_core::text::shell_word;

use crate::context::Context;
use crate::error::{Failure, Outcome};
use crate::import::flags::{Exporter, OnError, Policy};
use crate::progress::{counted, grouped};

/// Prints the notes; `place` formats the location of a line.
pub(super) fn say(
    ctx: &Context,
    name: &str,
    from: Option<Exporter>,
    notes: &ForeignNotes,
    place: &dyn Fn(u64) -> String,
) {
    warnings(ctx, name, notes, place);
    hosts(ctx, name, from, notes);
    columns(ctx, notes);
    addresses(ctx, notes);
    let counted_notes = [
        (notes.cut_names, "name", "truncated to 120 characters"),
        (notes.cut_previews, "preview text", "truncated to the maximum length"),
        (
            notes.crowded,
            "link",
            "imported without the longest metadata values, because the metadata would otherwise exceed the limits",
        ),
    ];
    for (count, noun, what) in counted_notes.into_iter().filter(|(count, ..)| *count > 0) {
        ctx.console.note(&format!("{} {} {what}", counted(count, noun), if count == 1 { "is" } else { "are" }));
    }
    if notes.paths > 0 {
        let (links, have) = (counted(notes.paths, "link"), if notes.paths == 1 { "has" } else { "have" });
        ctx.console.note(&format!(
            "{links} {have} a deep link path without a scheme, which is not imported; --app-scheme sets the scheme"
        ));
    }
    if notes.expired.count > 0 {
        let (links, have) =
            (counted(notes.expired.count, "link"), if notes.expired.count == 1 { "has" } else { "have" });
        let places = places(&notes.expired, place);
        ctx.console.note(&format!(
            "{links} {have} expired ({places}); expired links are accepted only if the account already has them"
        ));
    }
}

/// Compares the domains of the short links with those of the account. Refuses links with aliases if the account cannot have
/// any: the service would reject them one by one.
pub(super) async fn check_domains(ctx: &Context, client: &Client, notes: &ForeignNotes, policy: &Policy) -> Outcome {
    // If the key cannot list domains, the service tells.
    let Ok(domains) = client.domains().list().await else { return Ok(()) };
    let verified: Vec<_> = domains.into_iter().filter(|domain| domain.verified).collect();
    let has_primary = verified.iter().any(|domain| domain.role == DomainRole::Primary);
    if !has_primary && notes.aliased > 0 && policy.on_error == OnError::Stop {
        let links = counted(notes.aliased, "link");
        let have = if notes.aliased == 1 { "has an alias, which requires" } else { "have aliases, which require" };
        let message = format!("{links} {have} a verified primary domain; nothing was sent");
        let hint = "use dl domains add and dl domains verify first, or import without aliases: --set 'aliases=\\N'";
        return Err(Failure::invalid(message).code("invalid_alias").hint(hint).into());
    }
    if !has_primary {
        ctx.console.warn(
            "the account has no verified domain, so the links use the service's own domain, and expire after 30 days \
             unless you verify a domain by then or the service is configured otherwise",
        );
    }
    let is_new = |host: &&ForeignHost| verified.iter().all(|domain| domain.domain != host.host);
    for host in notes.hosts.iter().filter(|host| host.owner.is_none()).filter(is_new) {
        let (links, name) = (counted(host.links, "short link"), shell_word(&host.host));
        ctx.console.note(&format!(
            "{links} on {} will stop working when the domain moves, unless it is added: dl domains add {name}",
            host.host
        ));
    }
    Ok(())
}

fn warnings(ctx: &Context, name: &str, notes: &ForeignNotes, place: &dyn Fn(u64) -> String) {
    if let Some((page, pages)) = notes.page {
        ctx.console.warn(&format!("{name} is page {page} of {pages}; the links on the other pages are not in it"));
    }
    if let Some(links) = notes.full_page {
        ctx.console.warn(&format!(
            "{name} has exactly {links} links, which is the size of a full page; get the next page, too"
        ));
    }
    if notes.disabled.count > 0 {
        let (links, are) =
            (counted(notes.disabled.count, "link"), if notes.disabled.count == 1 { "is" } else { "are" });
        ctx.console.warn(&format!(
            "{links} {are} imported as disabled because of a password, start date, click limit or status in the other service: {}",
            places(&notes.disabled, place)
        ));
    }
}

/// Says which short links stay with the other service.
fn hosts(ctx: &Context, name: &str, from: Option<Exporter>, notes: &ForeignNotes) {
    for host in &notes.hosts {
        let Some(owner) = host.owner else { continue };
        let (links, label) = (counted(host.links, "short link"), owner.label());
        if from.is_some_and(|from| from.provider() == owner) {
            let new = if host.links == 1 {
                "its link gets a new URL, with the same ID unless an option changes it"
            } else {
                "their links get new URLs, with the same IDs unless an option changes them"
            };
            ctx.console.note(&format!("{links} on {} cannot be moved from {label}; {new}", host.host));
        } else {
            let are = if host.links == 1 { "is" } else { "are" };
            ctx.console.warn(&format!(
                "{links} in {name} {are} on {}, a domain of {label}: if the file is an export from {label}, use --from {}",
                host.host,
                Exporter::word_of(owner)
            ));
        }
    }
}

fn places(rows: &MarkedRows, place: &dyn Fn(u64) -> String) -> String {
    let mut places: Vec<String> = rows.lines.iter().map(|line| place(*line)).collect();
    let more = rows.count.saturating_sub(rows.lines.len() as u64);
    if more > 0 {
        places.push(format!("and {} more", grouped(more)));
    }
    places.join(", ")
}

fn columns(ctx: &Context, notes: &ForeignNotes) {
    let list = |names: &[String]| {
        let column = if names.len() == 1 { "column" } else { "columns" };
        let names: Vec<String> = names.iter().map(|name| format!("\"{}\"", name.escape_debug())).collect();
        format!("{column}: {}", names.join(", "))
    };
    let more = if notes.has_more { ", and more" } else { "" };
    if !notes.ignored.is_empty() {
        let ignored = list(&notes.ignored);
        ctx.console.note(&format!(
            "ignored {ignored}{more}; --map COLUMN=name imports one as the name, --map COLUMN=meta.KEY as metadata, which is \
             public"
        ));
    }
    if !notes.details.is_empty() {
        let details = list(&notes.details);
        let them = if notes.details.len() == 1 { "it" } else { "them" };
        ctx.console.note(&format!("ignored {details}; --keep-details keeps {them} as metadata, which is public"));
    }
}

fn addresses(ctx: &Context, notes: &ForeignNotes) {
    let have = |count: u64| if count == 1 { "has" } else { "have" };
    if notes.shortened > 0 {
        let links = counted(notes.shortened, "short link");
        ctx.console.note(&format!(
            "{links} {} a path with several segments; the new short link has only the last one",
            have(notes.shortened)
        ));
    }
    if notes.archived > 0 {
        let links = counted(notes.archived, "archived link");
        ctx.console.note(&format!("{links} will work like any other"));
    }
    if notes.aliased > 0 {
        let links = counted(notes.aliased, "link");
        let (gets, their) = if notes.aliased == 1 { ("gets an alias", "its") } else { ("get aliases", "their") };
        ctx.console.note(&format!(
            "{links} {gets}, so that {their} original path keeps working; this requires a verified primary domain"
        ));
    }
    if notes.others > 0 {
        let links = counted(notes.others, "link");
        ctx.console.note(&format!(
            "{links} {} additional short links that cannot be aliases and will stop working when the domain moves; they are \
             kept in the metadata as imported_other_urls",
            have(notes.others)
        ));
    }
    if notes.sanitized > 0 {
        let ids = counted(notes.sanitized, "ID");
        let original = if notes.sanitized == 1 { "original ID is" } else { "original IDs are" };
        ctx.console.note(&format!(
            "changed {ids} that contained characters that are not allowed; the {original} in the metadata as imported_id"
        ));
    }
    if notes.replaced > 0 {
        let ids = counted(notes.replaced, "ID");
        let why =
            if notes.replaced == 1 { "original is not allowed; it is" } else { "originals are not allowed; they are" };
        ctx.console.note(&format!("generated {ids}, because the {why} in the metadata as imported_id"));
    }
    if notes.roots > 0 {
        let rows = counted(notes.roots, "row");
        let are = if notes.roots == 1 {
            "is a domain's root link, which has"
        } else {
            "are root links of domains, which have"
        };
        ctx.console.note(&format!("{rows} {are} no path; not imported"));
    }
    for (host, url) in &notes.named_roots {
        let (host, url) = (shell_word(host), shell_word(url));
        ctx.console.note(&format!(
            "to redirect visitors who open the domain itself: dl domains update {host} --root-url {url}"
        ));
    }
}
