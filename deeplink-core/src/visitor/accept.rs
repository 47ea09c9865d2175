//! Which form of response an `Accept` header asks for.
//!
//! This runs on every visit, so the values that real clients send are matched as a whole, and nothing is allocated.

/// The form of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Link data.
    Json,
    /// A page or redirect.
    Html {
        /// Whether HTML was named, not merely implied: an unknown link then gets a page instead of an error object.
        explicit: bool,
    },
}

/// The highest quality of each form in a header, in thousandths.
#[derive(Clone, Copy, Default)]
struct Ranks {
    json: u16,
    html: u16,
}

/// Chooses the form from the lines of the `Accept` header: JSON only where it is named and ranks no lower than HTML.
pub fn wants_json<V: AsRef<[u8]>>(accept: impl IntoIterator<Item = V>) -> Form {
    let mut best = Ranks::default();
    for line in accept {
        let line = ranks(line.as_ref());
        best.json = best.json.max(line.json);
        best.html = best.html.max(line.html);
    }
    if best.json > 0 && best.json >= best.html { Form::Json } else { Form::Html { explicit: best.html > 0 } }
}

/// What current versions of Chromium, Safari and Firefox send on a navigation.
pub(super) const CHROMIUM: &[u8] = b"text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,image/apng,*/*;q=0.8,application/signed-exchange;v=b3;q=0.7";
pub(super) const SAFARI: &[u8] = b"text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";
pub(super) const FIREFOX: &[u8] =
    b"text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,image/png,image/svg+xml,*/*;q=0.8";

fn ranks(line: &[u8]) -> Ranks {
    match line {
        b"" | b"*/*" => Ranks::default(),
        b"application/json" => Ranks { json: 1000, html: 0 },
        CHROMIUM | SAFARI | FIREFOX => Ranks { json: 0, html: 1000 },
        _ => read(line),
    }
}

fn read(line: &[u8]) -> Ranks {
    let mut ranks = Ranks::default();
    for range in unquoted_split(line, b',') {
        let mut parts = unquoted_split(range, b';');
        let name = parts.next().unwrap_or_default().trim_ascii();
        let (json, html) = (is_json(name), is_html(name));
        if !json && !html {
            continue;
        }
        let Some(quality) = quality(parts) else { continue };
        let rank = if json { &mut ranks.json } else { &mut ranks.html };
        *rank = (*rank).max(quality);
    }
    ranks
}

fn is_html(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b"text/html") || name.eq_ignore_ascii_case(b"application/xhtml+xml")
}

fn is_json(name: &[u8]) -> bool {
    const SUFFIX: &[u8] = b"+json";
    let Some(subtype) = after(name, b"application/") else { return name.eq_ignore_ascii_case(b"text/json") };
    let suffixed = || {
        let (stem, suffix) = subtype.split_at_checked(subtype.len().checked_sub(SUFFIX.len())?)?;
        Some(!stem.is_empty() && !stem.contains(&b'*') && suffix.eq_ignore_ascii_case(SUFFIX))
    };
    subtype.eq_ignore_ascii_case(b"json") || suffixed().unwrap_or(false)
}

/// The rest of `text` after `start`, ignoring case.
fn after<'t>(text: &'t [u8], start: &[u8]) -> Option<&'t [u8]> {
    let (head, rest) = text.split_at_checked(start.len())?;
    head.eq_ignore_ascii_case(start).then_some(rest)
}

/// The first `q` of a range's parameters: 1 if there is none, `None` if it is malformed.
pub(super) fn quality<'t>(parameters: impl Iterator<Item = &'t [u8]>) -> Option<u16> {
    let mut found = None;
    for parameter in parameters {
        let parameter = parameter.trim_ascii();
        let equals = parameter.iter().position(|&byte| byte == b'=').unwrap_or(parameter.len());
        let (name, value) = parameter.split_at(equals);
        if name.trim_ascii().eq_ignore_ascii_case(b"q") {
            let quality = thousandths(value.get(1..)?)?;
            found = found.or(Some(quality));
        }
    }
    Some(found.unwrap_or(1000))
}

/// A quality as RFC 9110 writes it: 0 to 1 with at most three decimals.
fn thousandths(value: &[u8]) -> Option<u16> {
    let (whole, decimals) = match value {
        [whole] | [whole, b'.'] => (whole, &[][..]),
        [whole, b'.', decimals @ ..] if decimals.len() <= 3 => (whole, decimals),
        _ => return None,
    };
    let mut quality = match whole {
        b'0' => 0,
        b'1' => 1000,
        _ => return None,
    };
    for (digit, weight) in decimals.iter().zip([100, 10, 1]) {
        quality += u16::from(char::from(*digit).is_ascii_digit().then(|| digit - b'0')?) * weight;
    }
    (quality <= 1000).then_some(quality)
}

/// Splits at a separator, except inside a quoted string.
fn unquoted_split(text: &[u8], separator: u8) -> impl Iterator<Item = &[u8]> {
    let (mut quoted, mut escaped) = (false, false);
    text.split(move |&byte| {
        if escaped {
            escaped = false;
        } else if byte == b'"' {
            quoted = !quoted;
        } else if quoted && byte == b'\\' {
            escaped = true;
        } else {
            return byte == separator && !quoted;
        }
        false
    })
}
