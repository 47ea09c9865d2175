//! The tools: their operations, and their definitions as clients see them.

use std::sync::LazyLock;

use deeplink_core::routes::{self, Route};
use rmcp::model::Tool;

/// The operation of each tool, in the order of the definitions.
const ROUTES: [(&str, Route); 11] = [
    ("create_link", routes::CREATE_LINK),
    ("update_link", routes::UPDATE_LINK),
    ("delete_link", routes::DELETE_LINK),
    ("get_link", routes::GET_LINK),
    ("list_links", routes::LIST_LINKS),
    ("resolve_link", routes::RESOLVE),
    ("explain_link", routes::EXPLAIN_LINK),
    ("link_qr", routes::LINK_QR),
    ("report", routes::FUNNEL),
    ("list_domains", routes::LIST_DOMAINS),
    ("list_tags", routes::LIST_TAGS),
];

static TOOLS: LazyLock<Vec<Tool>> =
    LazyLock::new(|| serde_json::from_str(include_str!("tools.json")).expect("the definitions are valid"));

/// Every definition.
pub(crate) fn all() -> &'static [Tool] {
    &TOOLS
}

/// The tool of this name, with its operation.
pub(crate) fn named(name: &str) -> Option<(Route, &'static Tool)> {
    let at = ROUTES.iter().position(|(known, _)| *known == name)?;
    Some((ROUTES[at].1, TOOLS.get(at)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_definition_stands_beside_its_operation_and_says_whether_it_only_reads() {
        assert_eq!(all().len(), ROUTES.len());
        for (tool, (name, route)) in all().iter().zip(ROUTES) {
            assert_eq!(tool.name, name);
            let hints = tool.annotations.as_ref().expect("annotations");
            // Resolving a link counts a click, which webhooks and reports show.
            let only_reads = route.method == "GET" && name != "resolve_link";
            assert_eq!(hints.read_only_hint, Some(only_reads), "{name}");
            let destroys = matches!(name, "update_link" | "delete_link");
            assert_eq!(hints.destructive_hint, (!only_reads).then_some(destroys), "{name}");
            assert_eq!(tool.input_schema["additionalProperties"], false, "{name}");
        }
    }
}
