//! Markdown as HTML. Headings have the anchors that GitHub gives them, so that a link leads to the same place in both.

use std::collections::HashMap;

use deeplink_core::error::ErrorCode;
use pulldown_cmark::{CodeBlockKind, CowStr, Event, HeadingLevel, Options, Parser, Tag, TagEnd, html};

use super::tables::Tables;

/// A heading and what is below it, up to the next heading.
pub(super) struct Section {
    /// The anchor of the heading.
    pub(super) anchor: String,
    level: HeadingLevel,
    pub(super) heading: String,
    /// The text, without markup.
    pub(super) text: String,
}

impl Section {
    /// Whether the section is below another section of the page.
    pub(super) fn is_nested(&self) -> bool {
        self.level > HeadingLevel::H2
    }
}

/// A page in Markdown.
pub(super) struct Document {
    /// The body, without the heading of the page.
    pub(super) html: String,
    /// The first is the page's title with the text below it.
    pub(super) sections: Vec<Section>,
}

/// The longest names of options and programs that are not broken.
const WHOLE: usize = 24;

/// Renders a guide.
pub(super) fn document(source: &str) -> Document {
    let events: Vec<_> = Parser::new_ext(source, Options::ENABLE_TABLES).collect();
    let sections = sections(&events);
    let html = body(events, &sections);
    Document { html, sections }
}

fn sections(events: &[Event<'_>]) -> Vec<Section> {
    let (mut sections, mut in_heading, mut anchors) = (Vec::<Section>::new(), false, HashMap::new());
    for event in events {
        if let Event::Start(Tag::Heading { level, .. }) = event {
            let (anchor, heading, text) = (String::new(), String::new(), String::new());
            sections.push(Section { anchor, level: *level, heading, text });
            in_heading = true;
        }
        let Some(section) = sections.last_mut() else { continue };
        match event {
            Event::End(TagEnd::Heading(_)) => {
                in_heading = false;
                section.anchor = anchor(&section.heading, &mut anchors);
            }
            Event::Text(text) | Event::Code(text) if in_heading => section.heading.push_str(text),
            Event::Text(text) | Event::Code(text) => section.text.push_str(text),
            Event::SoftBreak | Event::HardBreak => section.text.push(' '),
            Event::End(TagEnd::Paragraph | TagEnd::Item | TagEnd::CodeBlock | TagEnd::TableCell) => {
                section.text.push(' ');
            }
            _ => {}
        }
    }
    sections
}

/// The anchor of a heading; a repeated one has a number.
fn anchor(heading: &str, seen: &mut HashMap<String, usize>) -> String {
    let kept = heading.chars().filter(|character| character.is_alphanumeric() || " -_".contains(*character));
    let anchor = kept.collect::<String>().to_lowercase().replace(' ', "-");
    let count = seen.entry(anchor.clone()).or_default();
    *count += 1;
    if *count == 1 { anchor } else { format!("{anchor}-{}", *count - 1) }
}

fn body(events: Vec<Event<'_>>, sections: &[Section]) -> String {
    let mut anchors = sections.iter().map(|section| CowStr::from(section.anchor.as_str()));
    let (mut in_title, mut in_rust, mut in_file) = (false, false, false);
    let mut tables = Tables::default();
    let mut shown = Vec::with_capacity(events.len());
    for event in events {
        if let Some(markup) = tables.markup(&event, sections) {
            shown.push(Event::InlineHtml(markup.into()));
            continue;
        }
        let next = match event {
            Event::Start(Tag::Heading { level, classes, attrs, .. }) => {
                let id = anchors.next();
                in_title = level == HeadingLevel::H1;
                tables.next_section();
                if in_title {
                    continue;
                }
                Event::Start(Tag::Heading { level, id, classes, attrs })
            }
            Event::End(TagEnd::Heading(HeadingLevel::H1)) => {
                in_title = false;
                continue;
            }
            _ if in_title => continue,
            Event::Start(Tag::CodeBlock(kind)) => {
                let mark = if let CodeBlockKind::Fenced(mark) = &kind { &**mark } else { "" };
                in_rust = mark.starts_with("rust");
                // Commands, and output in columns, are not wrapped: people scroll them with the keyboard, too.
                markup("<pre class=\"wide\" tabindex=\"0\"><code>")
            }
            Event::End(TagEnd::CodeBlock) => {
                in_rust = false;
                markup("</code></pre>\n")
            }
            Event::Text(text) if in_rust => Event::Text(without_hidden_lines(&text).into()),
            Event::Start(Tag::Link { link_type, dest_url, title, id }) => match target(&dest_url) {
                Some(url) => Event::Start(Tag::Link { link_type, dest_url: url.into(), title, id }),
                None => {
                    in_file = true;
                    markup("<code>")
                }
            },
            Event::End(TagEnd::Link) if in_file => {
                in_file = false;
                markup("</code>")
            }
            // The browser would break it after a hyphen.
            Event::Code(code) if code.contains('-') && code.chars().count() <= WHOLE => {
                Event::InlineHtml(format!("<code class=\"option\">{}</code>", escaped(&code)).into())
            }
            other => inert(other),
        };
        shown.push(next);
    }
    let mut text = String::new();
    html::push_html(&mut text, shown.into_iter());
    text
}

/// A text as HTML.
pub(super) fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    html::push_html(&mut escaped, std::iter::once(Event::Text(text.into())));
    escaped
}

fn markup(text: &'static str) -> Event<'static> {
    Event::InlineHtml(CowStr::Borrowed(text))
}

/// HTML in Markdown is shown as text.
fn inert(event: Event<'_>) -> Event<'_> {
    match event {
        Event::Html(text) | Event::InlineHtml(text) => Event::Text(text),
        other => other,
    }
}

/// Where a link of a guide leads; `None` for files of the repository, which are not served.
fn target(url: &str) -> Option<String> {
    let (file, anchor) = url.find('#').map_or((url, ""), |at| url.split_at(at));
    match file.strip_prefix("../") {
        Some("sdk/deeplink.js") => Some("/sdk/deeplink.js".to_owned()),
        Some(_) => None,
        None if url.contains("://") => Some(url.to_owned()),
        None => Some(file.strip_suffix(".md").map_or_else(|| url.to_owned(), |name| format!("/docs/{name}{anchor}"))),
    }
}

/// Rust without the lines that rustdoc hides.
fn without_hidden_lines(code: &str) -> String {
    code.split_inclusive('\n').filter(|line| !line.starts_with("# ") && line.trim_end() != "#").collect()
}

/// Renders a text of the OpenAPI document. Error codes link to their explanations.
pub(super) fn text(source: &str) -> String {
    let mut text = String::new();
    html::push_html(&mut text, Parser::new(source).map(linked));
    text
}

/// The same for the inside of a line or a cell.
pub(super) fn line(source: &str) -> String {
    let events = Parser::new(source).filter(|event| !matches!(event, Event::Start(Tag::Paragraph)));
    let events = events.map(|event| match event {
        Event::End(TagEnd::Paragraph) => Event::SoftBreak,
        other => linked(other),
    });
    let mut text = String::new();
    html::push_html(&mut text, events);
    text.truncate(text.trim_end().len());
    text
}

fn linked(event: Event<'_>) -> Event<'_> {
    match event {
        Event::Code(code) if ErrorCode::from(&*code).status().is_some() => {
            Event::InlineHtml(format!("<a href=\"/docs/reference/errors#{code}\"><code>{code}</code></a>").into())
        }
        other => inert(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anchors_are_those_of_github() {
        let page = document("# Title\n\n## One: `a_b`, two\n\n## One\n\n## One\n\n### Übers-icht 2\n");
        let anchors: Vec<_> = page.sections.iter().map(|section| section.anchor.as_str()).collect();
        assert_eq!(anchors, ["title", "one-a_b-two", "one", "one-1", "übers-icht-2"]);
        assert!(page.html.starts_with("<h2 id=\"one-a_b-two\">One: <code>a_b</code>, two</h2>"), "{}", page.html);
    }

    #[test]
    fn links_lead_to_what_is_served() {
        for (url, expected) in [
            ("domains.md", Some("/docs/domains")),
            ("moving-in.md#aliases", Some("/docs/moving-in#aliases")),
            ("#aliases", Some("#aliases")),
            ("https://example.com/a.md", Some("https://example.com/a.md")),
            ("../sdk/deeplink.js", Some("/sdk/deeplink.js")),
            ("../CHANGELOG.md", None),
            ("../README.md#tests", None),
        ] {
            assert_eq!(target(url).as_deref(), expected, "{url}");
        }
        let html = document("# T\n\nSee [CHANGELOG.md](../CHANGELOG.md).").html;
        assert_eq!(html, "<p>See <code>CHANGELOG.md</code>.</p>\n");
    }

    #[test]
    fn markup_in_texts_is_shown() {
        assert_eq!(document("# T\n\n<b>x</b>\n").html, "<p>&lt;b&gt;x&lt;/b&gt;</p>\n");
        assert_eq!(line("a <i>b</i>\n\nc"), "a &lt;i&gt;b&lt;/i&gt;\nc");
        assert!(text("Taken (`link_id_taken`)").contains("href=\"/docs/reference/errors#link_id_taken\""));
    }

    #[test]
    fn lines_that_rustdoc_hides_are_hidden() {
        let html = document("# T\n\n```rust,no_run\n# fn main() {\nlet x = 1;\n# }\n```\n").html;
        assert_eq!(html, "<pre class=\"wide\" tabindex=\"0\"><code>let x = 1;\n</code></pre>\n");
    }

    /// On phones, the cells of a row are below each other.
    #[test]
    fn cells_of_wide_tables_name_their_columns() {
        let html = document("# T\n\n| a | `b` \"c\" | d |\n|---|:-:|---|\n| 1 | *2* | |\n").html;
        let row = "<tr role=\"row\"><td role=\"cell\">1</td><td role=\"cell\" data-label=\"b &quot;c&quot;\"><em>2</em></td>\
                   <td role=\"cell\" data-label=\"d\"></td></tr>\n</tbody>\n</table>\n</div>\n";
        assert!(html.ends_with(row), "{html}");
        let html = document("# T\n\n| a | b |\n|---|---|\n| 1 | 2 |\n").html;
        assert!(html.contains("<td role=\"cell\">1</td><td role=\"cell\">2</td>"), "{html}");
    }

    #[test]
    fn short_options_and_programs_are_not_broken() {
        let html = document("# T\n\n`--a<b` `a_b` `-a-name-that-is-much-longer-than-a-line`\n").html;
        let long = "<code>-a-name-that-is-much-longer-than-a-line</code>";
        assert_eq!(html, format!("<p><code class=\"option\">--a&lt;b</code> <code>a_b</code> {long}</p>\n"));
    }

    #[test]
    fn what_may_not_fit_is_scrolled_and_has_a_name() {
        let wide = "| a | b | c |\n|---|---|---|\n| 1 | 2 | 3 |\n";
        let html = document(&format!("# T\n\n## A \"b\"\n\n{wide}\n{wide}\n## C\n\n{wide}")).html;
        let labels = html.split("aria-label=\"").skip(1).filter_map(|rest| rest.split('"').next());
        assert_eq!(labels.collect::<Vec<_>>(), ["Table: A &quot;b&quot;", "Table 2: A &quot;b&quot;", "Table: C"]);
        assert_eq!(html.matches("tabindex").count(), 3);
        assert_eq!(html.matches("</table>\n</div>").count(), 3);
        let html = document("# T\n\n| a | b |\n|---|---|\n| 1 | 2 |\n").html;
        assert!(html.starts_with("<table ") && !html.contains("tabindex") && !html.contains("<div"), "{html}");
        assert!(document("# T\n\n```sh\nls\n```\n").html.starts_with("<pre class=\"wide\" tabindex=\"0\">"));
    }
}
