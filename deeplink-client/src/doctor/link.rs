//! One link: what each kind of visitor gets, compared with the decision table; its preview image; its stores.
//!
//! Every visit declares itself a prefetch, so none counts as a click.

use std::sync::Arc;

use deeplink_core::explanation::SampleVisitor;
use deeplink_core::link::{LinkDetail, LinkStatus};
use deeplink_core::resolve::{self, HostContext, LinkView, Outcome, Row};
use deeplink_core::url::domain_origin;
use deeplink_core::visitor::{AgentTraits, Platform, Visitor};
use http::Method;
use tokio::sync::OnceCell;
use url::Url;

use super::page::Page;
use super::probe::{Answer, Fault, Site, ask, short};
use super::{Finding, Setup, Status, Task};

/// Bytes read of a page: room for every address a link can have, wherever the page repeats it.
const PAGE_BYTES: usize = 512 * 1024;
/// Maximum size of a preview image that every network accepts.
const IMAGE_BYTES: usize = 5 * 1024 * 1024;
/// Characters shown of the common prefix of two long addresses.
const SHARED: usize = 30;
/// Minimum side of a preview image that is shown large, in pixels.
const IMAGE_PIXELS: usize = 200;

/// A kind of visitor: a name to show, a User-Agent, and whether a program asks for JSON.
const VISITORS: [(&str, &str, bool); 5] = [
    ("iPhone", SampleVisitor::IPHONE.user_agent, false),
    ("Android", SampleVisitor::ANDROID.user_agent, false),
    ("desktop", SampleVisitor::WINDOWS.user_agent, false),
    ("facebookexternalhit", SampleVisitor::PREVIEW.user_agent, false),
    ("JSON", SampleVisitor::JSON.user_agent, true),
];

/// A link that several checks use; it is fetched once.
struct Case {
    setup: Arc<Setup>,
    id: String,
    detail: OnceCell<Result<LinkDetail, String>>,
}

pub(super) fn tasks(setup: &Arc<Setup>, link: &str) -> Vec<Task> {
    let case = Arc::new(Case { setup: Arc::clone(setup), id: link.to_owned(), detail: OnceCell::new() });
    let mut tasks: Vec<Task> = VISITORS
        .into_iter()
        .map(|(who, agent, json)| {
            let case = Arc::clone(&case);
            Task::new("link.resolve", link, Status::Fail, async move {
                let finding = case.check_visit(agent, json).await;
                match finding.status {
                    // Every visitor was refused.
                    Status::Skip => finding,
                    _ => Finding { message: format!("{who}: {}", finding.message), ..finding },
                }
            })
        })
        .collect();
    let (one, two) = (Arc::clone(&case), case);
    tasks.push(Task::new("link.image", link, Status::Warn, async move { one.check_image().await }));
    tasks.push(Task::new("link.stores", link, Status::Warn, async move { two.check_stores().await }));
    tasks
}

impl Case {
    async fn detail(&self) -> Result<&LinkDetail, Finding> {
        let fetch = async || self.setup.client.links().get(&self.id).await.map_err(|error| error.message().to_owned());
        let detail = self.detail.get_or_init(fetch).await;
        detail.as_ref().map_err(|why| {
            Finding::fail(
                format!("the link could not be read: {}", short(why)),
                "dl links list shows the links of this account",
            )
        })
    }

    /// What a visitor gets at the link's own address.
    async fn visit(&self, link: &LinkDetail, agent: &str, json: bool) -> Result<Answer, Fault> {
        let accept = if json { "application/json" } else { "text/html,application/xhtml+xml,*/*;q=0.8" };
        let headers = [("user-agent", agent), ("accept", accept), ("sec-purpose", "prefetch")];
        match self.own_host(link) {
            None => ask(self.setup.probe.plain(), Method::GET, &link.url, &headers, PAGE_BYTES).await,
            Some((host, path)) => Site::new(&self.setup.probe, &host).get(&path, &headers, PAGE_BYTES).await,
        }
    }

    /// Host and path of a link that is not on the service's own host.
    fn own_host(&self, link: &LinkDetail) -> Option<(String, String)> {
        let url = Url::parse(&link.url).ok()?;
        let host = url.host_str().filter(|host| self.setup.client.base_url().host_str() != Some(host))?;
        if url.scheme() != "https" && !self.setup.probe.is_local(host) {
            return None;
        }
        Some((host.to_owned(), url.path().to_owned()))
    }

    async fn check_visit(&self, agent: &str, json: bool) -> Finding {
        let link = match self.detail().await {
            Ok(link) => link,
            Err(finding) => return finding,
        };
        if let Some((host, _)) = self.own_host(link)
            && let Some(skip) = self.setup.out_of_reach(&host)
        {
            return skip;
        }
        let answer = match self.visit(link, agent, json).await {
            Ok(answer) => answer,
            Err(fault) => {
                return Finding::fail(format!("{}: {}", link.url, fault.text), "see domain.route and domain.tls");
            }
        };
        let fix = "check whether something between visitors and the service modifies or caches responses";
        let judged = if json { judge_json(link, &answer) } else { self.judge_page(link, agent, &answer) };
        match judged.and_then(|found| check_headers(&answer).map(|()| found)) {
            Err(what) => Finding::fail(what, fix),
            Ok(found) if json || link.status == LinkStatus::Active => Finding::ok(found),
            Ok(found) => {
                let what = format!("{found}: the link is {}", link.status);
                Finding::warn(what, "visitors are not redirected; create another link if they should be")
            }
        }
    }

    /// Compares an answer for people with the decision table.
    fn judge_page(&self, link: &LinkDetail, agent: &str, answer: &Answer) -> Result<String, String> {
        let account = &self.setup.account;
        let alternate = account.alternate().map(|host| domain_origin(self.setup.client.base_url(), host));
        let around = HostContext {
            alternate: alternate.as_deref(),
            only_android_package: account.only_package(),
            on_alternate: false,
        };
        let (view, visitor) = (view(link), Visitor::new(AgentTraits::of(agent), None));
        let got = answer.outline();
        let row = Row::of(&view, &around, visitor);
        match resolve::decide(&view, &around, visitor, None).outcome {
            Outcome::Redirect(to) => {
                if answer.status == 302 && answer.header("location") == *to {
                    return Ok(format!("redirect to {} ({row})", short(&to)));
                }
                Err(format!("{got}, expected a redirect to {}", short(&to)))
            }
            Outcome::Landing(plan) => {
                let page = read_landing(answer);
                // An affiliate's key cannot read the domains and apps that determine a phone's button.
                if !account.is_read() && matches!(visitor.platform, Platform::Ios | Platform::Android) {
                    let page = page.map_err(|what| format!("{what}, expected a landing page"))?;
                    let found = page.href("open").map_or_else(no_button, button);
                    return Ok(format!("page with {found} (apps and domains cannot be read, so not compared)"));
                }
                page.and_then(|page| judge_button(page.href("open"), plan.open()))
                    .map_err(|what| format!("{what}, expected the page of row {row}"))?;
                Ok(format!("page with {} ({row})", plan.open().map_or_else(no_button, button)))
            }
            Outcome::Notice => match (answer.status, &link.status) {
                (200, LinkStatus::Flagged) | (410, LinkStatus::Expired | LinkStatus::Disabled) => {
                    Ok("notice".to_owned())
                }
                _ => Err(format!("{got}, expected a notice: the link is {}", link.status)),
            },
        }
    }

    async fn check_image(&self) -> Finding {
        let link = match self.detail().await {
            Ok(link) => link,
            Err(finding) => return finding,
        };
        let image = link.social_preview.as_ref().and_then(|preview| preview.image_url.as_deref());
        let Some(image) = image else { return Finding::skip("no preview image") };
        let fix = "use an image of at least 1200 \u{d7} 630 pixels: dl links update ID --image URL";
        let answer = match ask(
            self.setup.probe.plain(),
            Method::GET,
            image,
            &[("user-agent", SampleVisitor::PREVIEW.user_agent)],
            IMAGE_BYTES,
        )
        .await
        {
            Ok(answer) => answer,
            Err(fault) => return Finding::warn(format!("{}: {}", short(image), fault.text), fix),
        };
        if answer.status != 200 {
            return Finding::warn(format!("{} returns {}", short(image), answer.outline()), fix);
        }
        if answer.cut {
            return Finding::warn("the image is larger than 5 MB", fix);
        }
        match imagesize::blob_size(&answer.body) {
            Err(_) => Finding::warn(format!("{} is not a readable image", short(image)), fix),
            Ok(size) if size.width < IMAGE_PIXELS || size.height < IMAGE_PIXELS => {
                Finding::warn(format!("{} \u{d7} {} pixels is too small", size.width, size.height), fix)
            }
            Ok(size) => Finding::ok(format!("{} \u{d7} {} pixels", size.width, size.height)),
        }
    }

    async fn check_stores(&self) -> Finding {
        let link = match self.detail().await {
            Ok(link) => link,
            Err(finding) => return finding,
        };
        let mut found = Vec::new();
        if let Some(store) = &link.android_store_url {
            let Some(package) = resolve::package_of(Some(store), None) else {
                return Finding::warn(
                    format!("{} does not contain an app ID", short(store)),
                    "it must end with details?id=PACKAGE: dl links update ID --android-store URL",
                );
            };
            let known = self.setup.account.android().any(|app| app.package_name.as_deref() == Some(&*package));
            if self.setup.account.apps.is_some() && !known {
                return Finding::warn(
                    format!("{package} is not one of the account's apps"),
                    format!("dl apps add android --package {package} --sha256 FINGERPRINT"),
                );
            }
            found.push(package.into_owned());
        }
        if let Some(store) = &link.ios_store_url {
            let Some(id) = resolve::store_id(store) else {
                return Finding::warn(
                    format!("{} does not contain an app ID", short(store)),
                    "its path must end with /idNUMBER: dl links update ID --ios-store URL",
                );
            };
            found.push(format!("App Store ID {id}"));
        }
        if found.is_empty() { Finding::skip("no store URL") } else { Finding::ok(found.join(", ")) }
    }
}

fn view(link: &LinkDetail) -> LinkView<'_> {
    LinkView {
        link_id: &link.link_id,
        url: &link.url,
        to: link.destinations().map(Option::as_deref),
        has_social_preview: link.social_preview.is_some(),
        has_agent_context: link.agent_context.is_some(),
        is_active: link.status == LinkStatus::Active,
    }
}

fn read_landing(answer: &Answer) -> Result<Page, String> {
    if answer.status != 200 || answer.media_type() != "text/html" {
        return Err(format!("{} of type \"{}\"", answer.outline(), short(&answer.media_type())));
    }
    let page = Page::read(&String::from_utf8_lossy(&answer.body));
    match ["og:title", "og:url"].into_iter().find(|tag| !page.has_property(tag)) {
        Some(tag) => Err(format!("a page without {tag}")),
        None => Ok(page),
    }
}

/// Compares the primary button's target with the expected one.
fn judge_button(found: Option<&str>, wanted: Option<&str>) -> Result<(), String> {
    match (found, wanted) {
        (None, None) => Ok(()),
        (Some(found), Some(wanted)) if found == wanted => Ok(()),
        (None, Some(wanted)) => Err(format!("a page without a {}", button(wanted))),
        (Some(""), _) => Err("a page whose button has no target".to_owned()),
        (Some(found), Some(wanted)) => {
            let (found, wanted) = apart(found, wanted);
            Err(format!("a page whose button leads to {found}, not {wanted}"))
        }
        (Some(found), None) => Err(format!("a page with a {} instead of none", button(found))),
    }
}

fn button(to: &str) -> String {
    format!("button to {}", short(to))
}

fn no_button() -> String {
    "no button".to_owned()
}

/// Two different texts, cut so that the place where they differ is visible.
fn apart(one: &str, two: &str) -> (String, String) {
    let same = one.chars().zip(two.chars()).take_while(|(one, two)| one == two).count();
    let cut = |text: &str| match same.checked_sub(SHARED) {
        Some(skip) if skip > SHARED => short(&format!("\u{2026}{}", text.chars().skip(skip).collect::<String>())),
        _ => short(text),
    };
    (cut(one), cut(two))
}

fn judge_json(link: &LinkDetail, answer: &Answer) -> Result<String, String> {
    if answer.status != 200 || answer.media_type() != "application/json" {
        return Err(format!("{} of type \"{}\", expected JSON", answer.outline(), short(&answer.media_type())));
    }
    let found: Option<serde_json::Value> = serde_json::from_slice(&answer.body).ok();
    let found = found.filter(|found| found["link_id"] == link.link_id.as_str());
    let Some(found) = found else { return Err("JSON of a different resource".to_owned()) };
    let status = found["_service_meta"]["status"].as_str().unwrap_or("unknown");
    if status == link.status.as_str() {
        Ok(status.to_owned())
    } else {
        Err(format!("JSON says that the link is {}", short(status)))
    }
}

/// Checks the headers of every answer, so that no cache serves one visitor's answer to another.
fn check_headers(answer: &Answer) -> Result<(), String> {
    let vary = answer.header("vary").to_ascii_lowercase();
    let varies = |name: &str| vary.split(',').any(|known| known.trim() == name);
    if let Some(name) = ["accept", "user-agent", "sec-ch-ua-platform"].into_iter().find(|name| !varies(name)) {
        return Err(format!("the Vary header does not contain {name}"));
    }
    let cache = answer.header("cache-control").to_ascii_lowercase();
    if cache.split(',').any(|word| word.trim() == "no-store") {
        Ok(())
    } else {
        Err("the Cache-Control header does not contain no-store".to_owned())
    }
}
