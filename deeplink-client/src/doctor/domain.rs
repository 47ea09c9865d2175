//! A host: its proof in DNS, its routing, its certificate, and its `robots.txt`.

use std::sync::Arc;

use super::probe::{Answer, FaultKind, Site, short};
use super::service::is_ours;
use super::{Finding, Setup, Status, Task, robots};
use crate::clock;

/// Days before its expiry at which a certificate gives a warning.
const SOON: i64 = 14;
/// Bytes of `/health` that are read.
const HEALTH_BYTES: usize = 4_096;
/// Bytes of `robots.txt` that count (RFC 9309: at least 500 KiB).
const ROBOTS_BYTES: usize = 512 * 1024;
/// Files that robots must be able to fetch.
const FILES: [&str; 2] = ["/.well-known/apple-app-site-association", "/.well-known/assetlinks.json"];

pub(super) fn tasks(setup: &Arc<Setup>, site: &Arc<Site>) -> Vec<Task> {
    let host = || site.name.clone();
    let pair = || (Arc::clone(setup), Arc::clone(site));
    let [one, two, three, four] = [0; 4].map(|_| pair());
    vec![
        Task::new("domain.txt", host(), Status::Warn, async move { one.0.check_txt(&one.1).await }),
        Task::new("domain.route", host(), Status::Fail, async move { two.0.check_route(&two.1).await }),
        Task::new("domain.tls", host(), Status::Fail, async move { three.0.check_tls(&three.1).await }),
        Task::new("domain.robots", host(), Status::Fail, async move { four.0.check_robots(&four.1).await }),
    ]
}

impl Setup {
    async fn check_txt(&self, site: &Site) -> Finding {
        if let Some(skip) = self.out_of_reach(&site.name) {
            return skip;
        }
        if site.is_local {
            return Finding::skip("names under .localhost need no TXT record");
        }
        let name = format!("{}.{}", deeplink_core::domain::TXT_LABEL, site.name);
        let token = self.account.domain(&site.name).and_then(|domain| domain.verification_token.as_deref());
        let fix = match token {
            Some(token) => format!("create it again: TXT {name} {token}"),
            None => format!("create it again; to show it: dl domains list --fields domain,{}", "verification_token"),
        };
        let found = match self.probe.names().txt(&name).await {
            Ok(found) => found,
            Err(why) => return Finding::warn(format!("{name}: {why}"), "check the domain's name servers"),
        };
        let is_token = |text: &str| text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        // Byte for byte, as the service compares: one extra space and a re-check removes the verification.
        let proves = |text: &str| match token {
            Some(token) => text == token,
            None => is_token(text),
        };
        if found.iter().any(|text| proves(text)) {
            return Finding::ok("the TXT record exists");
        }
        // A name can have unrelated records; report the one that is nearly right.
        let is_near = |text: &&String| proves(&text.trim().to_ascii_lowercase());
        let what = match found.iter().find(is_near).or(found.first()) {
            Some(other) => format!("{name} contains \"{}\": the domain will become unverified", short(other)),
            None => format!("{name} has no TXT record: the domain will become unverified"),
        };
        Finding::warn(what, fix)
    }

    async fn check_route(&self, site: &Site) -> Finding {
        if let Some(skip) = self.out_of_reach(&site.name) {
            return skip;
        }
        let target = self.account.domain(&site.name).and_then(|domain| domain.cname_target.as_deref());
        let fix = match target {
            Some(target) => format!("point it here: CNAME {} {target}", site.name),
            None => "point it at the service with a CNAME record".to_owned(),
        };
        match site.get("/health", &[], HEALTH_BYTES).await {
            Ok(answer) if is_ours(&answer) => {
                let address = site.ways().await.map(|ways| ways.address.clone()).unwrap_or_default();
                Finding::ok(format!("points to the service ({address})"))
            }
            Ok(answer) => Finding::fail(format!("another server responds: /health returns {}", answer.outline()), fix),
            Err(fault) if fault.kind == FaultKind::Tls => {
                Finding::fail(format!("responds, but {}", fault.text), "see domain.tls")
            }
            Err(fault) => Finding::fail(format!("does not point to the service: {}", fault.text), fix),
        }
    }

    async fn check_tls(&self, site: &Site) -> Finding {
        if let Some(skip) = self.out_of_reach(&site.name) {
            return skip;
        }
        if site.origin.starts_with("http:") {
            return Finding::skip("plain http");
        }
        match site.get("/health", &[], HEALTH_BYTES).await {
            Ok(answer) => lifetime(&answer),
            Err(fault) if matches!(fault.kind, FaultKind::Unreachable | FaultKind::NoWay) => {
                Finding::skip(format!("no response on port 443: {}", fault.text))
            }
            Err(fault) => Finding::fail(
                fault.text,
                format!("phones reject this: the certificate must be valid, include its chain and cover {}", site.name),
            ),
        }
    }

    async fn check_robots(&self, site: &Site) -> Finding {
        if let Some(skip) = self.out_of_reach(&site.name) {
            return skip;
        }
        let answer = match site.get("/robots.txt", &[], ROBOTS_BYTES).await {
            Ok(answer) => answer,
            Err(fault) => return Finding::skip(format!("could not be read: {}", fault.text)),
        };
        match answer.status {
            200 => {}
            500.. => {
                let what = format!("/robots.txt returns {}: crawlers then skip the whole host", answer.outline());
                return Finding::fail(what, "make it return 200 or 404");
            }
            _ => return Finding::ok("/robots.txt blocks nothing"),
        }
        let text = String::from_utf8_lossy(&answer.body);
        let barred = FILES.iter().find_map(|file| Some((file, robots::barred(&text, file)?)));
        match barred {
            None => Finding::ok("/robots.txt allows /.well-known/"),
            Some((file, reader)) => Finding::fail(
                format!("/robots.txt blocks {reader} from {file}"),
                "add to /robots.txt, for every user agent: Allow: /.well-known/",
            ),
        }
    }
}

/// How long the certificate of a trusted server remains valid.
pub(super) fn lifetime(answer: &Answer) -> Finding {
    let Some(end) = answer.certificate_end() else {
        return Finding::warn(
            "the certificate could not be read",
            "inspect it with: openssl s_client -connect HOST:443",
        );
    };
    let days = (end.as_millis() - clock::now().as_millis()) / 86_400_000;
    if days < SOON {
        let what = format!("the certificate expires in {days} days ({end})");
        return Finding::warn(what, "renew it; if renewal is automatic, find out why it has not happened");
    }
    Finding::ok(format!("valid for {days} more days"))
}
