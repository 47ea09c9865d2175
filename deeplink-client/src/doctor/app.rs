//! Apps: whether every signing certificate is registered, and whether a tap can open them.

use std::sync::Arc;

use deeplink_core::app::AppDetail;
use deeplink_core::explanation::SampleVisitor;
use deeplink_core::link::{LinkFilter, LinkStatus};
use http::Method;

use super::association::serves;
use super::probe::{Site, ask};
use super::{Finding, Setup, Status, Task};

pub(super) fn tasks(setup: &Arc<Setup>, links: &[String]) -> Vec<Task> {
    let mut tasks: Vec<Task> = setup
        .account
        .android()
        .map(|app| {
            let finding = fingerprints(app);
            let subject = app.package_name.clone().unwrap_or_default();
            Task::new("app.fingerprints", subject, Status::Warn, std::future::ready(finding))
        })
        .collect();
    if setup.account.apps.is_some() {
        let subject = setup.account.alternate().unwrap_or("iOS").to_owned();
        let (setup, links) = (Arc::clone(setup), links.to_vec());
        tasks.push(Task::new(
            "app.alternate",
            subject,
            Status::Fail,
            async move { setup.check_alternate(&links).await },
        ));
    }
    tasks
}

fn fingerprints(app: &AppDetail) -> Finding {
    match app.sha256_fingerprints.as_ref().map_or(0, Vec::len) {
        count @ 2.. => Finding::ok(format!("{count} signing certificates")),
        _ => Finding::warn(
            "only one signing certificate: builds from Google Play are signed with Play's own certificate",
            "add the fingerprint from Play Console \u{2192} App integrity: run dl apps add android again, with both",
        ),
    }
}

impl Setup {
    async fn check_alternate(&self, named: &[String]) -> Finding {
        if self.account.ios().next().is_none() {
            return Finding::skip("the account has no iOS app");
        }
        let Some(alternate) = self.account.alternate() else {
            return Finding::warn(
                "no alternate domain: iOS does not open apps from a page on the link's own host",
                "dl domains add open.example.com --role alternate, then dl domains verify",
            );
        };
        if let Some(skip) = self.out_of_reach(alternate) {
            return skip;
        }
        let site = Site::new(&self.probe, alternate);
        let broken =
            |what: String| Finding::fail(what, format!("see the checks of {alternate}: dl doctor --host {alternate}"));
        if let Err(what) = serves(&site, true).await {
            return broken(what);
        }
        if self.account.android().next().is_some()
            && let Err(what) = serves(&site, false).await
        {
            return broken(what);
        }
        let Some(id) = self.some_link(named).await else {
            return Finding::ok("both files are served; there is no link to test");
        };
        let url = format!("https://{alternate}/{id}");
        let ways = match site.ways().await {
            Ok(ways) => ways,
            Err(why) => return broken(why.to_owned()),
        };
        match ask(
            &ways.any,
            Method::HEAD,
            &url,
            &[("user-agent", SampleVisitor::IPHONE.user_agent), ("accept", "text/html")],
            0,
        )
        .await
        {
            Ok(answer) if answer.status == 302 => Finding::ok(format!("/{id} redirects: {}", answer.outline())),
            Ok(answer) => broken(format!("/{id} returns {}, not a redirect", answer.outline())),
            Err(fault) => broken(format!("/{id}: {}", fault.text)),
        }
    }

    /// A link to try: the first named one that works, else the newest. An inactive link shows a notice on every host,
    /// which says nothing about the host.
    async fn some_link(&self, named: &[String]) -> Option<String> {
        for id in named {
            if let Ok(link) = self.client.links().get(id).await
                && link.status == LinkStatus::Active
            {
                return Some(link.link_id);
            }
        }
        let filter = LinkFilter::new().status(LinkStatus::Active);
        let page = self.client.links().list(&filter).page_size(1).first_page().await.ok()?;
        page.links.into_iter().next().map(|link| link.link_id)
    }
}
