//! A page as far as the doctor reads it: its elements and what their attributes say.

/// Elements whose content is always text.
const TEXT_ONLY: [&str; 4] = ["script", "style", "textarea", "title"];

/// The elements of a page, in the order in which they begin.
pub(super) struct Page(Vec<Element>);

/// One element. Names are in lower case.
struct Element {
    name: String,
    attributes: Vec<(String, String)>,
}

impl Element {
    fn attr(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

impl Page {
    pub(super) fn read(html: &str) -> Self {
        let (mut elements, mut rest) = (Vec::new(), html);
        while let Some((_, tag)) = rest.split_once('<') {
            rest = tag;
            if let Some(comment) = tag.strip_prefix("!--") {
                rest = comment.split_once("-->").map_or("", |(_, after)| after);
            } else if tag.starts_with(|first: char| first.is_ascii_alphabetic()) {
                // An unterminated tag is not a tag.
                let Some((element, after)) = start_tag(tag) else { break };
                rest = if TEXT_ONLY.contains(&element.name.as_str()) { behind(&element.name, after) } else { after };
                elements.push(element);
            }
        }
        Self(elements)
    }

    /// Where the element with this id leads; empty when it has no `href`, `None` when there is no such element.
    pub(super) fn href(&self, id: &str) -> Option<&str> {
        let element = self.0.iter().find(|element| element.attr("id") == Some(id))?;
        Some(element.attr("href").unwrap_or_default())
    }

    /// Whether the page gives this property a value.
    pub(super) fn has_property(&self, name: &str) -> bool {
        let says = |element: &Element| element.attr("content").is_some_and(|content| !content.is_empty());
        let is_meant = |element: &&Element| element.name == "meta" && element.attr("property") == Some(name);
        self.0.iter().filter(is_meant).any(says)
    }
}

/// The text after the end tag of such an element.
fn behind<'a>(name: &str, content: &'a str) -> &'a str {
    let is_end = |at: usize| {
        let end = content.get(at + 2..at + 2 + name.len());
        end.is_some_and(|end| end.eq_ignore_ascii_case(name))
    };
    content.match_indices("</").find(|(at, _)| is_end(*at)).map_or("", |(at, _)| &content[at..])
}

/// A start tag, and the text after it. `text` begins with the name.
fn start_tag(text: &str) -> Option<(Element, &str)> {
    let is_gap = |c: char| c.is_ascii_whitespace() || c == '/';
    let end = text.find(|c| is_gap(c) || c == '>')?;
    let (name, mut rest) = text.split_at(end);
    let mut attributes = Vec::new();
    loop {
        rest = rest.trim_start_matches(is_gap);
        if let Some(after) = rest.strip_prefix('>') {
            return Some((Element { name: name.to_ascii_lowercase(), attributes }, after));
        }
        // A name may begin with any character, even an equals sign.
        let first = rest.chars().next()?.len_utf8();
        let end = first + rest[first..].find(|c| is_gap(c) || c == '>' || c == '=')?;
        let (name, after) = rest.split_at(end);
        let value;
        (value, rest) = match after.trim_start().strip_prefix('=') {
            Some(after) => attribute_value(after.trim_start())?,
            None => ("", after),
        };
        attributes.push((name.to_ascii_lowercase(), unescaped(value)));
    }
}

/// The attribute value at the start of a text, undecoded, and the text after it.
fn attribute_value(text: &str) -> Option<(&str, &str)> {
    for quote in ['"', '\''] {
        if let Some(inside) = text.strip_prefix(quote) {
            return inside.split_once(quote);
        }
    }
    Some(text.split_at(text.find(|c: char| c.is_ascii_whitespace() || c == '>')?))
}

/// A text with its character references decoded: numeric ones and the five common named ones.
fn unescaped(text: &str) -> String {
    let (mut plain, mut rest) = (String::with_capacity(text.len()), text);
    while let Some((before, reference)) = rest.split_once('&') {
        plain.push_str(before);
        let meant = reference.split_once(';').and_then(|(name, after)| Some((character(name)?, after)));
        let (character, after) = meant.unwrap_or(('&', reference));
        plain.push(character);
        rest = after;
    }
    plain + rest
}

fn character(name: &str) -> Option<char> {
    match name {
        "amp" => return Some('&'),
        "lt" => return Some('<'),
        "gt" => return Some('>'),
        "quot" => return Some('"'),
        "apos" => return Some('\''),
        _ => {}
    }
    let digits = name.strip_prefix('#')?;
    let code = match digits.strip_prefix(['x', 'X']) {
        Some(hex) => u32::from_str_radix(hex, 16),
        None => digits.parse(),
    };
    char::from_u32(code.ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_an_element_leads() {
        for (html, href) in [
            (r#"<a id="open" href="shop://p/42">Open</a>"#, Some("shop://p/42")),
            ("<A HREF='https://example.com/' ID=open>", Some("https://example.com/")),
            ("<a\n id = open\n href = x >", Some("x")),
            (
                r#"<a id="open" href="/?a=1&#38;b=2&amp;c=&#x22;&lt;&gt;&quot;&apos;&d;&#0x;">"#,
                Some("/?a=1&b=2&c=\"<>\"'&d;&#0x;"),
            ),
            (r#"<img src=x/><a class="a>b" id="open" href="y"/>"#, Some("y")),
            (r#"<a id="open" hidden>"#, Some("")),
            (r#"<a id="opener" href="x"><a data-id="open" href="x">"#, None),
            (r#"<!-- <a id="open" href="x"> -->"#, None),
            (r#"<script>"<a id='open' href='x'>"</SCRIPT><a id="open" href="y">"#, Some("y")),
            (r#"<style><a id="open" href="x"></style>"#, None),
            (r#"<script><a id="open" href="x">"#, None),
            (r#"1 < 2 </p> <> <a id="open" href="x">"#, Some("x")),
            (r#"<a id="open" href="x"><a id="open" href="y">"#, Some("x")),
            (r#"<a id="open" href="x" href="y">"#, Some("x")),
            (r#"<a =id="open" href="x">"#, None),
            (r#"<a id="open" href="x"#, None),
            (r#"<a id="open" href"#, None),
            ("<a", None),
            ("", None),
        ] {
            assert_eq!(Page::read(html).href("open"), href, "{html}");
        }
    }

    #[test]
    fn what_is_said_of_a_page() {
        for (html, says) in [
            (r#"<meta property="og:title" content="T">"#, true),
            (r#"<meta property="og:title" content=""><meta content=T property=og:title>"#, true),
            (r#"<meta property="og:title" content="">"#, false),
            (r#"<meta property="og:title">"#, false),
            (r#"<meta name="og:title" content="T">"#, false),
            (r#"<title><meta property="og:title" content="T"></title>"#, false),
            (r#"<p property="og:title" content="T">"#, false),
        ] {
            assert_eq!(Page::read(html).has_property("og:title"), says, "{html}");
        }
    }
}
