//! Compares what is stored with what the clients were told.
//!
//! | Word | Means |
//! |---|---|
//! | lost | acknowledged, and not there or different |
//! | phantom | there, and never sent |
//! | doubled | one request, several effects; a click that is there twice |
//! | torn | part of a batch |
//! | refused | answered with 503, and there all the same |

use std::collections::HashMap;

use crate::journal::{Journal, Outcome, address, metadata, referer};
use crate::load::Client;
use crate::report;
use crate::store::{Found, Stored};

/// The findings, in words.
#[derive(Debug, Default)]
pub(crate) struct Verdict {
    pub(crate) faults: Vec<String>,
    /// Creations whose outcome was open and can be settled by repeating them: their indexes, by client.
    pub(crate) open: Vec<Vec<usize>>,
}

impl Verdict {
    pub(crate) fn fault(&mut self, kind: &str, text: impl std::fmt::Display) {
        self.faults.push(format!("{kind}: {text}"));
    }

    /// Fails the test if anything was found.
    pub(crate) fn assert_clean(&self, when: &str) {
        let shown: Vec<_> = self.faults.iter().take(20).map(String::as_str).collect();
        assert!(shown.is_empty(), "{when}: {} faults, such as\n{}", self.faults.len(), shown.join("\n"));
    }
}

/// Compares, and records in the journals the outcomes that are now known.
pub(crate) fn judge(clients: &mut [Client], found: &Found) -> Verdict {
    let mut verdict = Verdict::default();
    for contradiction in &found.contradictions {
        verdict.fault("contradiction", contradiction);
    }
    let mut by_token: HashMap<&str, Vec<&Stored>> = HashMap::new();
    for stored in found.links.values() {
        by_token.entry(token_of(stored)).or_default().push(stored);
    }
    let (mut sent, mut visited, mut reported) = (0, 0, 0);
    for client in clients {
        let journal = &mut client.journal;
        for wrong in journal.wrong.drain(..) {
            verdict.fault("wrong answer", wrong);
        }
        judge_creations(journal, &by_token, &mut verdict);
        judge_links(journal, found, &mut verdict);
        judge_visits(journal, found, &mut verdict);
        reported += report::judge(journal, found, &mut verdict);
        sent += journal.creations.iter().filter(|creation| by_token.contains_key(&*creation.token)).count();
        visited += journal.visits.iter().filter(|visit| found.clicks.contains_key(&referer(&visit.token))).count();
    }
    if sent != by_token.len() {
        verdict.fault("phantom", format!("{} links or batches were never sent", by_token.len() - sent));
    }
    if reported != found.reports.len() {
        verdict.fault("phantom", format!("{} installs or users are of no report", found.reports.len() - reported));
    }
    if visited != found.clicks.len() {
        verdict.fault("phantom", format!("{} clicks are of no visit", found.clicks.len() - visited));
    }
    verdict
}

/// The token between host and version in the web URL.
fn token_of(stored: &Stored) -> &str {
    let path = stored.web_url.strip_prefix("https://example.com/");
    path.and_then(|path| path.split_once('/')).map_or(&*stored.web_url, |(token, _)| token)
}

fn judge_creations(journal: &mut Journal, by_token: &HashMap<&str, Vec<&Stored>>, verdict: &mut Verdict) {
    let mut open = Vec::new();
    for at in 0..journal.creations.len() {
        let creation = &journal.creations[at];
        let rows = by_token.get(&*creation.token).map_or(&[][..], Vec::as_slice);
        match &creation.outcome {
            Outcome::Nowhere if !rows.is_empty() => verdict.fault("refused", format!("{:?}", creation.request)),
            Outcome::Nowhere => {}
            // Their existence and contents are checked per link.
            Outcome::There(ids) => {
                if let Some(more) = rows.iter().find(|row| !ids.contains(&row.id)) {
                    verdict.fault("doubled", format!("{} beside {ids:?}", more.id));
                }
            }
            Outcome::Open => {
                let mut ids: Vec<_> = rows.iter().map(|row| row.id.clone()).collect();
                if creation.has_key {
                    open.push(at);
                }
                if ids.is_empty() {
                    journal.creations[at].outcome = Outcome::Nowhere;
                    continue;
                }
                if !creation.named.is_empty() {
                    // In the order of the answer.
                    ids.sort_by_key(|id| creation.named.iter().position(|named| named == id));
                }
                if ids.len() < creation.rows {
                    verdict.fault("torn", format!("{} of {}: {:?}", ids.len(), creation.rows, creation.request));
                } else if ids.len() > creation.rows || !creation.named.is_empty() && creation.named != ids {
                    verdict.fault("doubled", format!("{ids:?} of {:?}", creation.request));
                }
                journal.is_there(at, ids);
            }
        }
    }
    verdict.open.push(open);
}

fn judge_links(journal: &mut Journal, found: &Found, verdict: &mut Verdict) {
    for (id, known) in &mut journal.links {
        let is = match found.links.get(id) {
            None => None,
            Some(stored) => {
                let as_stored = |version: &u32| {
                    stored.web_url == address(&known.token, *version)
                        && stored.metadata == metadata(&known.token, *version)
                };
                let Some(version) = known.possible.iter().flatten().copied().find(as_stored) else {
                    verdict.fault("lost", format!("{stored:?} is at none of {:?}", known.possible));
                    continue;
                };
                Some(version)
            }
        };
        if known.possible.contains(&is) {
            known.possible = vec![is];
        } else {
            verdict.fault("lost", format!("{id} of {} is gone, not at one of {:?}", known.token, known.possible));
        }
    }
}

fn judge_visits(journal: &Journal, found: &Found, verdict: &mut Verdict) {
    for visit in &journal.visits {
        let clicks = found.clicks.get(&referer(&visit.token)).map_or(&[][..], Vec::as_slice);
        match clicks {
            [] if visit.answered => verdict.fault("lost", format!("the click of a redirect: {visit:?}")),
            [] => {}
            [link] if *link == visit.link => {}
            [link] => verdict.fault("lost", format!("the click of {visit:?} is for {link}")),
            more => verdict.fault("doubled", format!("{} clicks of {visit:?}", more.len())),
        }
    }
}
