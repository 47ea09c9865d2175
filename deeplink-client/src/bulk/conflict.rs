//! Rows whose id is in use: compares the existing link with the row.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use deeplink_core::error::ErrorCode;
use deeplink_core::link::{LinkDetail, LinkFilter};
use deeplink_core::stats::TimeseriesQuery;
use futures_util::TryStreamExt;
use tokio::sync::OnceCell;

use super::OnConflict;
use super::batch::BatchRow;
use super::outcome::RowResult;
use super::template::hash;
use crate::client::Client;
use crate::content::{Content, IMPORTED_CLICKS, update_for};
use crate::error::{Error, Kind};

/// Maximum links fetched one by one; beyond it, the whole list is read instead.
const SINGLE: u64 = 1_000;

/// The result for a row whose id is in use.
#[derive(Debug)]
pub(crate) enum Verdict {
    Settled(RowResult),
    /// The id was generated and is in use: generate the next one.
    NextTry,
    /// The service refuses the run as a whole.
    Stop(Error),
}

/// Compares rows with existing links.
pub(crate) struct Comparer {
    client: Client,
    policy: OnConflict,
    single: AtomicU64,
    /// Requests that changed a link.
    pub(crate) updates: AtomicU64,
    list: OnceCell<Snapshot>,
    /// The affiliate that the key itself belongs to, once known.
    own_affiliate: OnceCell<Option<String>>,
}

impl Comparer {
    pub(crate) fn new(client: Client, policy: OnConflict) -> Self {
        Self {
            client,
            policy,
            single: AtomicU64::new(0),
            updates: AtomicU64::new(0),
            list: OnceCell::new(),
            own_affiliate: OnceCell::new(),
        }
    }

    /// Settles a row without a request, where the policy ignores the existing link.
    pub(crate) fn without_asking(&self, row: &BatchRow, maybe_ours: bool) -> Option<RowResult> {
        if row.made.is_some() || maybe_ours {
            return None;
        }
        match self.policy {
            OnConflict::Fail => Some(taken("the ID is in use")),
            OnConflict::Skip => Some(RowResult::Skipped),
            OnConflict::Verify | OnConflict::Update => None,
        }
    }

    /// Whether a row with this refusal is compared all the same: a link whose end has passed still has its id, and an export
    /// contains it.
    pub(crate) fn may_exist(&self, code: &ErrorCode) -> bool {
        *code == ErrorCode::InvalidExpiresAt && self.policy != OnConflict::Fail
    }

    /// Settles a row by comparing it with the link that has its id. Without such a link, or where another id would have to be
    /// generated, its refusal stands.
    pub(crate) async fn settle(&self, row: &BatchRow, refusal: Option<RowResult>) -> Verdict {
        match (self.compare(row).await, refusal) {
            (Ok(Verdict::NextTry), Some(refusal)) => Verdict::Settled(refusal),
            (Ok(verdict), _) => verdict,
            (Err(error), Some(refusal)) if error.kind() == Kind::NotFound => Verdict::Settled(refusal),
            (Err(error), _) => match error.kind() {
                Kind::NotFound if row.made.is_some() => Verdict::NextTry,
                Kind::NotFound => Verdict::Settled(taken("the ID is in use, and the link belongs to another key")),
                Kind::Auth | Kind::Forbidden | Kind::PaymentRequired => Verdict::Stop(error),
                Kind::BadRequest | Kind::Conflict => Verdict::Settled(RowResult::Rejected {
                    code: error.code().cloned().unwrap_or(ErrorCode::BadRequest),
                    message: error.message().to_owned(),
                }),
                _ => Verdict::Settled(RowResult::Unknown { message: error.to_string() }),
            },
        }
    }

    async fn compare(&self, row: &BatchRow) -> Result<Verdict, Error> {
        let wanted = row.template.link().check().map_err(Error::invalid)?;
        let own = self.own_affiliate.get().and_then(Option::as_deref);
        let content = self.compared(Content::wanted(wanted.clone()).or_affiliate(own));
        if self.single.fetch_add(1, Ordering::Relaxed) >= SINGLE
            && let Some(url) = self.listed(&row.id, &content).await?
        {
            return Ok(Verdict::Settled(RowResult::Existed { url }));
        }
        let link = self.client.links().get(&row.id).await?;
        let found = self.compared(Content::found(&link));
        let mut differences = content.differences(&found);
        // A file from before there were aliases must not take any from printed links, nor their designs or starting counts.
        differences.retain(|difference| match difference.field {
            "aliases" => !wanted.aliases.is_empty(),
            "qr" => wanted.qr.is_some(),
            IMPORTED_CLICKS => wanted.imported_clicks.is_some(),
            _ => true,
        });
        if differences.len() == 1
            && !content.names_affiliate()
            && found.names_affiliate()
            && self.is_scoped(&link).await
        {
            differences.clear();
        }
        if differences.is_empty() {
            return Ok(Verdict::Settled(RowResult::Existed { url: link.url }));
        }
        let named: Vec<&str> = differences.iter().map(|difference| difference.field).collect();
        if row.made.is_some() && named != [IMPORTED_CLICKS] {
            return Ok(Verdict::NextTry);
        }
        Ok(Verdict::Settled(match self.policy {
            OnConflict::Update if !named.contains(&"affiliate_id") => {
                self.updates.fetch_add(1, Ordering::Relaxed);
                let link = self.client.links().update(&row.id, &update_for(wanted, &differences)).await?;
                RowResult::Updated { url: link.url }
            }
            OnConflict::Update => taken("the link is attributed to another affiliate, which cannot be changed"),
            OnConflict::Skip => RowResult::Skipped,
            _ => taken(&format!("the ID is in use with different content ({})", named.join(", "))),
        }))
    }

    /// What is compared of a link: the other service may have counted further clicks since an earlier import, so only an update
    /// looks at them.
    fn compared(&self, content: Content) -> Content {
        if self.policy == OnConflict::Update { content } else { content.without_clicks() }
    }

    /// Whether the key is an affiliate's, whose links are all attributed to that affiliate: such a key may not read click
    /// counts.
    async fn is_scoped(&self, link: &LinkDetail) -> bool {
        let own = self.own_affiliate.get_or_try_init(|| async {
            let asked = self.client.links().timeseries(&link.link_id, &TimeseriesQuery::new()).await;
            match asked.map_err(|error| error.code().cloned()) {
                Ok(_) => Ok(None),
                Err(Some(ErrorCode::ForbiddenScope)) => {
                    Ok(link.affiliate_id.as_ref().map(|affiliate| affiliate.as_str().to_owned()))
                }
                Err(_) => Err(()),
            }
        });
        let affiliate = link.affiliate_id.as_ref().map(deeplink_core::id::AffiliateId::as_str);
        own.await.is_ok_and(|own| own.is_some() && own.as_deref() == affiliate)
    }

    /// The link's address, if the account's list contains the link with this content.
    async fn listed(&self, id: &str, content: &Content) -> Result<Option<String>, Error> {
        let list = self.list.get_or_try_init(|| Snapshot::read(&self.client, |content| self.compared(content))).await?;
        Ok(list.find(id, content))
    }
}

fn taken(message: &str) -> RowResult {
    RowResult::Rejected { code: ErrorCode::LinkIdTaken, message: message.to_owned() }
}

/// The account's links as hashes: 16 bytes each, regardless of content.
struct Snapshot {
    /// Hash of the id, hash of the content with the index of the address's base in its low byte; sorted.
    links: Vec<(u64, u64)>,
    bases: Vec<Arc<str>>,
}

impl Snapshot {
    async fn read(client: &Client, compared: impl Fn(Content) -> Content) -> Result<Self, Error> {
        let mut list = Self { links: Vec::new(), bases: Vec::new() };
        let mut items = client.links().list(&LinkFilter::new()).prefetch().items();
        while let Some(link) = items.try_next().await? {
            let base = list.base(&link);
            if let Some(base) = base {
                let content = content_hash(&compared(Content::found(&link))) & !0xff | u64::from(base);
                list.links.push((hash(link.link_id.as_bytes()), content));
            }
        }
        list.links.sort_unstable();
        Ok(list)
    }

    /// The index of the address's base; links beyond the 255th distinct base are fetched one by one.
    fn base(&mut self, link: &LinkDetail) -> Option<u8> {
        let base = link.url.strip_suffix(link.link_id.as_str())?;
        let known = self.bases.iter().position(|known| **known == *base);
        if known.is_none() {
            self.bases.push(base.into());
        }
        u8::try_from(known.unwrap_or(self.bases.len() - 1)).ok()
    }

    fn find(&self, id: &str, content: &Content) -> Option<String> {
        let wanted = hash(id.as_bytes());
        let from = self.links.partition_point(|(id, _)| *id < wanted);
        let mut same = self.links[from..].iter().take_while(|(id, _)| *id == wanted);
        let (_, found) = same.next()?;
        // Two ids with the same hash cannot be told apart here.
        if same.next().is_some() || found >> 8 != content_hash(content) >> 8 {
            return None;
        }
        let base = self.bases.get(usize::try_from(found & 0xff).ok()?)?;
        Some(format!("{base}{id}"))
    }
}

fn content_hash(content: &Content) -> u64 {
    let mut hasher = DefaultHasher::new();
    content.hash(&mut hasher);
    hasher.finish()
}
