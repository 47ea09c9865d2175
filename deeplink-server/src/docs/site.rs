//! Every page of the documentation, with the navigation, and what the search looks at.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use askama::Template;
use serde_json::Value;

use super::fixed;
use super::guide::{self, Guide};
use super::markdown::{Document, Section};
use super::operation::Operation;
use super::reference::{self, Code, Errors, Tag};
use super::schema::{self, Object};
use super::search::{self, Entry, Hit};
use crate::http::fixed::Fixed;
use crate::openapi;
use crate::pages::COMMON_CSS;
use crate::visit::page::{BASE_CSS, compact_css};

pub(super) const HOME: &str = "/docs";
const REFERENCE: &str = "/docs/reference";
const ERRORS: &str = "/docs/reference/errors";
pub(super) const SEARCH: &str = "/docs/search";

pub(super) static CSS: LazyLock<String> =
    LazyLock::new(|| compact_css(&[BASE_CSS, COMMON_CSS, include_str!("../../templates/docs/docs.css")]));

/// What all pages share.
struct Frame<'a> {
    css: &'static str,
    title: &'a str,
    /// What the page is about, for search engines; empty if its title says all.
    about: &'a str,
    path: &'a str,
    groups: &'a [Group],
    /// What was searched for.
    query: &'a str,
}

impl<'a> Frame<'a> {
    fn new(groups: &'a [Group], title: &'a str, path: &'a str) -> Self {
        Self { css: &CSS, title, about: "", path, groups, query: "" }
    }

    fn about(self, about: &'a str) -> Self {
        Self { about, ..self }
    }
}

/// A part of the navigation.
struct Group {
    name: &'static str,
    pages: Vec<Listed>,
}

impl Group {
    fn has(&self, path: &str) -> bool {
        self.pages.iter().any(|page| page.path == path)
    }
}

/// A page in the navigation.
struct Listed {
    path: String,
    title: String,
}

impl Listed {
    fn new(path: impl Into<String>, title: impl Into<String>) -> Self {
        Self { path: path.into(), title: title.into() }
    }
}

#[derive(Template)]
#[template(path = "docs/contents.html")]
struct ContentsPage<'a> {
    frame: Frame<'a>,
    groups: &'static [(&'static str, &'static [Guide])],
    tags: &'a [Tag],
}

#[derive(Template)]
#[template(path = "docs/guide.html")]
struct GuidePage<'a> {
    frame: Frame<'a>,
    /// The anchor of the title.
    anchor: &'a str,
    html: &'a str,
    /// The sections below the title.
    sections: &'a [Section],
    next: Option<&'static Guide>,
}

#[derive(Template)]
#[template(path = "docs/reference.html")]
struct ReferencePage<'a> {
    frame: Frame<'a>,
    tags: &'a [Tag],
}

#[derive(Template)]
#[template(path = "docs/tag.html")]
struct TagPage<'a> {
    frame: Frame<'a>,
    tag: &'a Tag,
}

#[derive(Template)]
#[template(path = "docs/errors.html")]
struct ErrorsPage<'a> {
    frame: Frame<'a>,
    errors: &'a Errors,
}

#[derive(Template)]
#[template(path = "docs/search.html")]
struct SearchPage<'a> {
    frame: Frame<'a>,
    /// The best results, and how many there are.
    hits: Vec<Hit<'a>>,
    total: usize,
}

#[derive(Template)]
#[template(path = "docs/missing.html")]
struct MissingPage<'a> {
    frame: Frame<'a>,
}

/// Everything that is served.
pub(super) struct Site {
    groups: Vec<Group>,
    /// The pages by their paths.
    pub(super) pages: HashMap<String, Fixed>,
    /// The page for a path that is none of them.
    pub(super) missing: String,
    entries: Vec<Entry>,
}

pub(super) static SITE: LazyLock<Site> = LazyLock::new(|| {
    let document: Value = serde_json::from_str(openapi::text()).unwrap_or_default();
    let tags = reference::tags(&document);
    let mut site = Site { groups: Vec::new(), pages: HashMap::new(), missing: String::new(), entries: Vec::new() };
    let groups = groups(&tags);
    site.add_guides(&groups);
    site.add_reference(&groups, &tags, &reference::errors(&document));
    let about = "How to create links, open apps from them, measure results and run the service.";
    let frame = Frame::new(&groups, "Documentation", HOME).about(about);
    site.add(HOME, &ContentsPage { frame, groups: guide::GROUPS, tags: &tags });
    let missing = MissingPage { frame: Frame::new(&groups, "Page not found", "") }.render().unwrap_or_default();
    Site { groups, missing, ..site }
});

fn groups(tags: &[Tag]) -> Vec<Group> {
    let guides = guide::GROUPS.iter().map(|(name, guides)| {
        let pages = guides.iter().map(|guide| Listed::new(guide.path(), guide.title())).collect();
        Group { name, pages }
    });
    let overview = [Listed::new(REFERENCE, "All operations"), Listed::new(ERRORS, "Error codes")];
    let tags = tags.iter().map(|tag| Listed::new(tag.path(), tag.title.as_str()));
    let reference = Group { name: "API reference", pages: overview.into_iter().chain(tags).collect() };
    guides.chain([reference]).collect()
}

impl Site {
    /// Adds a page. One that cannot be rendered is missing, which the tests of all pages find.
    fn add(&mut self, path: &str, page: &impl Template) {
        if let Ok(html) = page.render() {
            self.pages.insert(path.to_owned(), fixed(html));
        }
    }

    fn add_guides(&mut self, groups: &[Group]) {
        let mut guides = guide::all().peekable();
        while let Some(guide) = guides.next() {
            let (title, path) = (guide.title(), guide.path());
            let Document { html, sections } = guide.document();
            for section in &sections {
                let path = format!("{path}#{}", section.anchor);
                self.entries.push(Entry::new(&section.heading, title, path, &section.text));
            }
            let Some((Section { anchor, .. }, sections)) = sections.split_first() else { continue };
            let (frame, next) = (Frame::new(groups, title, &path).about(guide.about), guides.peek().copied());
            self.add(&path, &GuidePage { frame, anchor, html: &html, sections, next });
        }
    }

    fn add_reference(&mut self, groups: &[Group], tags: &[Tag], errors: &Errors) {
        let frame = Frame::new(groups, "API reference", REFERENCE).about("Every operation of the API, by topic.");
        self.add(REFERENCE, &ReferencePage { frame, tags });
        let frame = Frame::new(groups, "Error codes", ERRORS).about("The error object, and what each code means.");
        self.add(ERRORS, &ErrorsPage { frame, errors });
        for tag in tags {
            let path = tag.path();
            self.add(&path, &TagPage { frame: Frame::new(groups, &tag.title, &path).about(&tag.about), tag });
            for Operation { id, method, path: of, heading, words, callers, .. } in tag.all() {
                let method = if callers.is_some() { method.as_str() } else { "event" };
                let title = format!("{heading} ({method} {of})");
                self.entries.push(Entry::new(&title, "API reference", format!("{path}#{id}"), words));
            }
        }
        self.add_objects(tags, errors);
        for Code { name, words, status, .. } in &errors.codes {
            let title = format!("{name} ({status})");
            self.entries.push(Entry::new(&title, "Error codes", format!("{ERRORS}#{name}"), words));
        }
    }

    /// Adds each object to the search, on the first page that shows it.
    fn add_objects(&mut self, tags: &[Tag], errors: &Errors) {
        let shown = tags.iter().flat_map(|tag| tag.objects.iter().map(move |object| (tag.path(), object)));
        let mut seen = HashSet::new();
        let of_errors = errors.objects.iter().map(|object| (ERRORS.to_owned(), object));
        for (path, Object { name, words, .. }) in shown.chain(of_errors) {
            if seen.insert(name) {
                self.entries.push(Entry::new(name, "API reference", format!("{path}#{name}"), words));
            }
        }
        let words = schema::words(&errors.fields);
        self.entries.push(Entry::new("The error object", "Error codes", format!("{ERRORS}#object"), &words));
    }

    /// The page with what was found.
    pub(super) fn results(&self, words: &[String]) -> askama::Result<String> {
        let query = words.join(" ");
        let frame = Frame { query: &query, ..Frame::new(&self.groups, "Search", SEARCH) };
        let (hits, total) = search::find(&self.entries, words);
        SearchPage { frame, hits, total }.render()
    }
}
