//! `dl sdk attribute`.

use clap::Args;
use deeplink_core::lifecycle::{self, InstallContext};

use crate::context::Context;
use crate::error::{Failure, Outcome};
use crate::help::help;
use crate::{given, output};

/// Record that an app was opened from a link
#[derive(Debug, Args)]
#[command(after_help = help(
    "The first request for an install creates it; each later one records another open. The device model distinguishes \
     a reinstall from a new device. Uses the publishable key from DL_PUBLISHABLE_KEY or DL_PUBLISHABLE_KEY_FILE, or \
     else the secret key; --legacy requires the publishable key and accepts no device flags.",
    &[
    "dl sdk attribute spring-42 --install install-1 --app-version 2.4.0 --os iOS",
    "dl sdk attribute spring-42 --install install-1 --app-version 2.4.0 --legacy",
]
))]
pub(crate) struct Attribute {
    /// ID of the link
    #[arg(value_name = "ID")]
    link: String,
    /// Install ID assigned by your app
    #[arg(long, value_name = "ID")]
    install: String,
    /// App version
    #[arg(long, value_name = "VERSION")]
    app_version: String,
    /// Use the legacy endpoint
    #[arg(long)]
    legacy: bool,
    #[command(flatten)]
    device: Device,
}

/// The device and system of an install.
#[derive(Debug, Args)]
#[command(next_help_heading = "Device")]
struct Device {
    /// Operating system
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    os: Option<String>,
    /// Operating system version
    #[arg(long, value_name = "VERSION")]
    os_version: Option<String>,
    /// Device model
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    device_model: Option<String>,
    /// Device manufacturer
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    device_manufacturer: Option<String>,
    /// Language and region, such as en-GB
    #[arg(long, value_name = "LOCALE")]
    locale: Option<String>,
    /// Device type, such as ios or android
    #[arg(long, value_name = "WORD")]
    platform: Option<String>,
    /// Device region
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    region: Option<String>,
    /// Time zone, such as Europe/Paris
    #[arg(long, value_name = "ZONE")]
    timezone: Option<String>,
}

impl Device {
    /// The context, if any field is set.
    fn context(self) -> Option<InstallContext> {
        let mut context = InstallContext::new();
        (context.os, context.os_version) = (self.os, self.os_version);
        (context.device_model, context.device_manufacturer) = (self.device_model, self.device_manufacturer);
        (context.locale, context.platform) = (self.locale, self.platform);
        (context.region, context.timezone) = (self.region, self.timezone);
        (context != InstallContext::new()).then_some(context)
    }
}

impl Attribute {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        let sheet = ctx.out.sheet(&output::REPORTED)?;
        given::link_id(&self.link)?;
        let mut opened = lifecycle::Attribute::new(self.link, self.install, self.app_version);
        opened.context = self.device.context();
        opened.validate()?;
        if self.legacy && opened.context.is_some() {
            let what = "the legacy endpoint does not accept device flags";
            return Err(Failure::usage(what).hint("omit --legacy or the device flags").into());
        }
        let client = if self.legacy { super::publishable(ctx)? } else { super::client(ctx).await? };
        let lifecycle = client.lifecycle();
        let call = if self.legacy { lifecycle.legacy().report(&opened) } else { lifecycle.attribute(&opened) };
        let done = call.full().await.map_err(|error| super::stop(ctx, &client, &error))?;
        sheet.one(&String::from_utf8_lossy(&done.raw))
    }
}
