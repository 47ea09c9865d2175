//! `dl qr-logos get`.

use std::path::PathBuf;

use clap::Args;
use deeplink_core::qr::QrFormat;

use crate::commands::links::qr::destination::Destination;
use crate::context::Context;
use crate::error::{Failure, Outcome};
use crate::help::help;
use crate::{given, output};

/// Download an uploaded logo as a PNG
#[derive(Debug, Args)]
#[command(after_help = help(
    "Without --out, the image goes to stdout, which must be a pipe or a file.",
    &["dl qr-logos get acme --out acme.png", "dl qr-logos get acme > acme.png"]
))]
pub(crate) struct Get {
    /// Name of the logo
    name: String,
    /// File to write, or - for stdout
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Replace an existing file
    #[arg(long)]
    force: bool,
}

impl Get {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        let sheet = ctx.out.sheet(&output::LOGO_FILES)?;
        given::logo_name(&self.name)?;
        let destination = self.out.map_or(Destination::Stdout, Destination::out);
        if destination == Destination::Stdout && ctx.out.terminal {
            let failure = Failure::usage("a PNG is binary, and stdout is a terminal");
            return Err(failure.hint("use --out FILE to save it").into());
        }
        destination.check(std::slice::from_ref(&self.name), QrFormat::Png, self.force)?;
        let image = ctx.client().await?.qr_logos().get(&self.name).await;
        let named = format!("logo {}", self.name);
        let image = image.map_err(|error| ctx.stop_among(&error, "qr-logos").naming(&named))?;
        let path = destination.path(&self.name, QrFormat::Png);
        destination.write(ctx, &path, &image, self.force).await?;
        if destination == Destination::Stdout {
            return Ok(());
        }
        sheet.created(&output::object(&[
            ("name", self.name.as_str().into()),
            ("file", path.to_string_lossy().as_ref().into()),
            ("bytes", image.len().into()),
        ]))
    }
}
