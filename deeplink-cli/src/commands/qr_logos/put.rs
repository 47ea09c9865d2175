//! `dl qr-logos put`.

use std::path::PathBuf;

use clap::Args;

use crate::context::Context;
use crate::error::Outcome;
use crate::help::help;
use crate::{given, output};

/// Upload a logo, or replace the one with this name
#[derive(Debug, Args)]
#[command(after_help = help(
    "The service stores the image as a PNG, and scales large ones down. Codes that were already downloaded keep the \
     previous image. An account has at most 20 logos.",
    &["dl qr-logos put acme logo.png", "dl qr-logos put acme - < logo.png"]
))]
pub(crate) struct Put {
    /// Name of the logo: 1 to 40 lowercase letters, digits and hyphens
    name: String,
    /// PNG, JPEG or WebP file of at most 512 KiB, or - for stdin
    #[arg(value_name = "FILE|-")]
    file: PathBuf,
}

impl Put {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        let sheet = ctx.out.sheet(&output::QR_LOGOS)?;
        given::logo_name(&self.name)?;
        let image = ctx.bytes_of(&self.file, "FILE")?;
        let call = ctx.client().await?.qr_logos().put(&self.name, image).full();
        let logo = call.await.map_err(|error| ctx.stop(&error))?;
        sheet.one(&String::from_utf8_lossy(&logo.raw))
    }
}
