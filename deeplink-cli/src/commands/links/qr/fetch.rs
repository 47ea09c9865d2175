//! The requests for one code, and the check that it decodes to the link's address.

use bytes::Bytes;
use deeplink_client::qr_reader::{ReadError, read_png};
use deeplink_client::{Client, LinkDetail};
use deeplink_core::qr::{MAX_MARGIN, QrFormat, QrOptions};
use futures_util::future::join3;
use tokio::sync::Semaphore;

use super::look::by_flag;
use crate::context::Context;
use crate::error::{Failure, Outcome, Stop};
use crate::escape;
use crate::exit::Exit;

/// Edge in pixels at which every code has 3 px for each module; some readers fail with fewer.
const READABLE: u32 = 900;
/// Maximum modules per side: version 40, the ring of decorative dots, the widest margin.
const MAX_MODULES: u32 = 177 + 2 * 37 + 2 * MAX_MARGIN;
const _: () = assert!(3 * MAX_MODULES <= READABLE, "3 px for each module of any code");

/// Why the link itself is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Need {
    Nothing,
    /// Only for a warning: the code is useful without it.
    Warning,
    /// The result.
    Result,
}

/// Which answers a code needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Wanted {
    /// The link itself, for its `url`, status and expiry.
    pub(super) link: Need,
    /// The file that the service draws.
    pub(super) image: bool,
    /// The decoded text of that file.
    pub(super) proof: bool,
}

/// The answers for one code.
#[derive(Debug, Default)]
pub(super) struct Fetched {
    pub(super) link: Option<LinkDetail>,
    /// Why a link that was needed for a warning could not be read.
    pub(super) unseen: Option<Box<Failure>>,
    pub(super) image: Option<Bytes>,
}

/// What the service draws.
#[derive(Debug, Clone)]
pub(super) struct Order {
    pub(super) format: QrFormat,
    pub(super) options: QrOptions,
}

impl Order {
    /// The order for an image that can be read back: the same style as a PNG, and large enough. A size alone leaves a link
    /// its look.
    fn readable(&self) -> Self {
        let size = self.options.size.unwrap_or(READABLE).max(READABLE);
        Self { format: QrFormat::Png, options: self.options.clone().size(size) }
    }

    async fn image(&self, client: &Client, id: &str) -> Result<Bytes, deeplink_client::Error> {
        client.links().qr(id, self.format, &self.options).await
    }

    /// Sends all requests concurrently, as `permits` allow, and reads the code back before it is written.
    pub(super) async fn fetch(
        &self,
        ctx: &Context,
        client: &Client,
        permits: &Semaphore,
        id: &str,
        wanted: Wanted,
    ) -> Outcome<Fetched> {
        let second = wanted.proof && self.format != QrFormat::Png;
        let image = async { Ok(if wanted.image { Some(take(permits, self.image(client, id)).await?) } else { None }) };
        let needs = wanted.link != Need::Nothing;
        let link = async { if needs { take(permits, client.links().get(id)).await.map(Some) } else { Ok(None) } };
        let readable = self.readable();
        let proof = async { if second { take(permits, readable.image(client, id)).await.map(Some) } else { Ok(None) } };
        let (image, link, proof) = join3(image, link, proof).await;
        let stop = |error| match ctx.stop(&error) {
            Stop::Failed(failure) => by_flag(*failure).into(),
            other => other,
        };
        let image = image.map_err(stop)?;
        let (link, unseen) = match link.map_err(stop) {
            Ok(link) => (link, None),
            Err(Stop::Failed(why)) if wanted.link == Need::Warning => (None, Some(why)),
            Err(other) => return Err(other),
        };
        let proof = proof.map_err(stop)?;
        if let (true, Some(link), Some(png)) = (wanted.proof, &link, proof.as_ref().or(image.as_ref())) {
            prove(png.clone(), &link.url).await?;
        }
        Ok(Fetched { link, unseen, image })
    }
}

/// Waits for a permit, and then for the answer.
async fn take<T>(permits: &Semaphore, request: impl IntoFuture<Output = T>) -> T {
    // It is never closed, so this cannot fail.
    let _permit = permits.acquire().await;
    request.await
}

/// Reads an image and compares what it says with the link's address.
async fn prove(png: Bytes, url: &str) -> Outcome {
    // Trying to read an unreadable code takes long: meanwhile other requests continue, and Ctrl-C works.
    let read = tokio::task::spawn_blocking(move || read_png(&png)).await;
    let failure = match read {
        Ok(Ok(text)) if text == url => return Ok(()),
        Ok(Ok(text)) => {
            let what = format!("the code contains \"{}\", but the URL of the link is {url}", escape::one_line(&text));
            Failure::new(Exit::CheckFailed, what).code("qr_mismatch").hint("nothing was written; try again")
        }
        Ok(Err(why)) => unreadable(&why),
        // A reader that panics has read nothing.
        Err(_) => unreadable(&ReadError::NoCode),
    };
    Err(failure.into())
}

fn unreadable(why: &ReadError) -> Failure {
    Failure::new(Exit::CheckFailed, why.to_string()).code("qr_unreadable").hint(
        "nothing was written; for a more readable code, use dark on light, a larger --size, --margin 2 or more, or \
         --level H",
    )
}
