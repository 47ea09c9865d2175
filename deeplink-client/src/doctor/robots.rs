//! What `robots.txt` disallows for crawlers that read association files (RFC 9309).

/// The crawlers that fetch association files.
const READERS: [&str; 2] = ["aasa-bot", "googlebot"];

/// The crawler that may not fetch this path, if any.
pub(super) fn barred(robots: &str, path: &str) -> Option<&'static str> {
    READERS.into_iter().find(|reader| !allows(robots, reader, path))
}

fn allows(robots: &str, reader: &str, path: &str) -> bool {
    let own = rules(robots, |agent| agent.eq_ignore_ascii_case(reader));
    let rules = own.unwrap_or_else(|| rules(robots, |agent| agent == "*").unwrap_or_default());
    // The longest pattern decides; between two equally long ones, the one that allows.
    let decided =
        rules.iter().filter(|rule| matches(rule.pattern, path)).max_by_key(|rule| (rule.pattern.len(), rule.allow));
    decided.is_none_or(|rule| rule.allow)
}

struct Rule<'a> {
    allow: bool,
    pattern: &'a str,
}

/// The rules of every group for such an agent; `None` when there is no such group.
fn rules(robots: &str, is_meant: impl Fn(&str) -> bool) -> Option<Vec<Rule<'_>>> {
    let mut found: Option<Vec<Rule<'_>>> = None;
    let (mut meant, mut in_heading) = (false, false);
    for line in robots.lines() {
        let line = line.split('#').next().unwrap_or_default();
        let Some((name, value)) = line.split_once(':') else { continue };
        let (name, value) = (name.trim().to_ascii_lowercase(), value.trim());
        match name.as_str() {
            "user-agent" => {
                meant = is_meant(value) || in_heading && meant;
                in_heading = true;
                if meant {
                    found.get_or_insert_default();
                }
            }
            "allow" | "disallow" => {
                in_heading = false;
                if meant && !value.is_empty() {
                    found.get_or_insert_default().push(Rule { allow: name == "allow", pattern: value });
                }
            }
            _ => {}
        }
    }
    found
}

/// Whether a path matches a pattern: `*` matches anything, a final `$` the end.
fn matches(pattern: &str, path: &str) -> bool {
    let (pattern, anchored) = pattern.strip_suffix('$').map_or((pattern, false), |pattern| (pattern, true));
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| path.strip_prefix(first)) else { return false };
    let mut last = None;
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
        last = Some(part);
    }
    !anchored || rest.is_empty() || last.is_some_and(|last| rest.ends_with(last))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_bars_the_association_files() {
        let file = "/.well-known/assetlinks.json";
        for (robots, by) in [
            ("", None),
            ("User-agent: *\nDisallow:\n", None),
            ("User-agent: *\nDisallow: /\n", Some("aasa-bot")),
            ("user-agent: *\ndisallow: /.well-known/ # all of it\n", Some("aasa-bot")),
            ("User-agent: *\nDisallow: /\nAllow: /.well-known/\n", None),
            ("User-agent: *\nDisallow: /*.json$\n", Some("aasa-bot")),
            ("User-agent: *\nDisallow: /*.json$\nAllow: /.well-known/assetlinks.json\n", None),
            ("User-agent: Googlebot\nDisallow: /.well\n", Some("googlebot")),
            ("User-agent: Bingbot\nUser-agent: Googlebot\nDisallow: /\n", Some("googlebot")),
            ("User-agent: Bingbot\nDisallow: /\n\nUser-agent: *\nDisallow: /private\n", None),
            ("User-agent: *\nDisallow: /\n\nUser-agent: AASA-Bot\nUser-agent: Googlebot\nDisallow: /x\n", None),
            ("<html>not found</html>", None),
        ] {
            assert_eq!(barred(robots, file), by, "{robots}");
        }
    }
}
