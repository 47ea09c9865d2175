//! A logo in a local file: it is uploaded under a name made from the file, which the codes then refer to.

use std::fs;
use std::io;
use std::path::Path;

use deeplink_client::Client;
use deeplink_core::qr::UPLOADED;
use deeplink_core::qr_logo::MAX_LOGO_BYTES;
use deeplink_core::secret::sha256_hex_of;

use crate::context::Context;
use crate::error::{Failure, Outcome, Stop};
use crate::escape;
use crate::exit::Exit;

/// Characters of the digest in a name: the same name means the same file.
const DIGEST: usize = 8;
/// Characters of the file's own name.
const MAX_STEM: usize = deeplink_core::qr::MAX_LOGO_NAME - DIGEST - 1;

/// A file to upload.
#[derive(Debug)]
pub(super) struct Upload {
    /// The name that the logo will have.
    pub(super) name: String,
    shown: String,
    image: Vec<u8>,
}

impl Upload {
    /// The local file that `--logo` names; `None` if it names none.
    pub(super) fn of(logo: &str) -> Outcome<Option<Self>> {
        let path = Path::new(logo);
        let is_path = [".", "/", "~"].iter().any(|start| logo.starts_with(start));
        if logo.contains("://") || logo.starts_with(UPLOADED) || !(path.is_file() || is_path) {
            return Ok(None);
        }
        let shown = escape::one_line(logo).into_owned();
        let failed = |error: io::Error| {
            let failure = Failure::file("read", &shown, &error).field("logo");
            let is_missing = error.kind() == io::ErrorKind::NotFound;
            Stop::from(if is_missing { Failure { exit: Exit::Usage, ..failure } } else { failure })
        };
        // A file that is too large is not read.
        let too_large = || {
            let what = format!("--logo: {shown} is larger than {} KiB", MAX_LOGO_BYTES >> 10);
            Stop::from(Failure::invalid(what).code("payload_too_large").field("logo"))
        };
        if fs::metadata(path).map_err(failed)?.len() > MAX_LOGO_BYTES as u64 {
            return Err(too_large());
        }
        let image = fs::read(path).map_err(failed)?;
        let name = name_of(path, &image);
        Ok(Some(Self { name, shown, image }))
    }

    /// Uploads the file.
    pub(super) async fn send(&self, ctx: &Context, client: &Client) -> Outcome {
        let sent = client.qr_logos().put(&self.name, self.image.clone()).await;
        match sent.map_err(|error| ctx.stop(&error)) {
            Ok(_) => {
                ctx.console.note(&format!("uploaded {} as the logo {}", self.shown, self.name));
                Ok(())
            }
            // The other requests are shown too.
            Err(Stop::NotSent) => Ok(()),
            Err(Stop::Failed(failure)) if failure.code.as_deref() == Some("quota_exceeded") => Err(failure
                .hint("dl qr-logos list shows the account's logos, and dl qr-logos delete deletes one")
                .into()),
            Err(other) => Err(other),
        }
    }
}

/// The file's name without its extension, as far as a logo's name may have it, and the beginning of its digest: another
/// file of that name does not replace the logo.
fn name_of(path: &Path, image: &[u8]) -> String {
    let stem = path.file_stem().map(|stem| stem.to_string_lossy().to_lowercase()).unwrap_or_default();
    let words = stem.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let mut name = words.collect::<Vec<_>>().join("-");
    name.truncate(MAX_STEM);
    let name = name.trim_end_matches('-');
    let name = if name.is_empty() { "logo" } else { name };
    format!("{name}-{}", &sha256_hex_of(image)[..DIGEST])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_made_from_the_file() {
        let long = format!("{}.png", "a".repeat(90));
        for (path, start) in [
            ("acme.png", "acme-"),
            ("./Brand/ACME Logo (2).PNG", "acme-logo-2-"),
            ("été.webp", "t-"),
            ("日本.png", "logo-"),
            (&long, &*format!("{}-", "a".repeat(31))),
        ] {
            let name = name_of(Path::new(path), b"x");
            assert_eq!(name, format!("{start}2d711642"), "{path}");
            assert!(deeplink_core::qr::is_logo_name(&name), "{name}");
        }
        assert_ne!(name_of(Path::new("a.png"), b"x"), name_of(Path::new("a.png"), b"y"));
    }
}
