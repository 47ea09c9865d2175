//! `dl account update`.

use clap::{Args, ValueEnum};
use deeplink_client::UpdateAccount;
use deeplink_core::colour::Rgb;
use deeplink_core::patch::Patch;

use crate::commands::apps::warn_of_icon;
use crate::context::Context;
use crate::error::{Failure, Outcome};
use crate::help::help;
use crate::{given, output};

/// Change the account settings
#[derive(Debug, Args)]
#[command(after_help = help(
    "Only the fields you specify change. The icon and color appear on landing pages of links whose app has none.",
    &[
    "dl account update --name Example --time-zone Europe/Berlin",
    "dl account update --icon https://example.com/icon.png --theme '#2e7d4f'",
    "dl account update --unset icon_url --unset theme_color",
]
))]
pub(crate) struct Update {
    /// Account name, visible only to your team
    #[arg(long)]
    name: Option<String>,
    /// Time zone of the account pages, such as Europe/Berlin
    #[arg(long, value_name = "ZONE")]
    time_zone: Option<String>,
    /// Icon for landing pages: URL of a square image, served over HTTPS
    #[arg(long, value_name = "URL")]
    icon: Option<String>,
    /// Color of the main button on landing pages: 3 or 6 hex digits, such as '#2e7d4f' or 2e7d4f
    #[arg(long, value_name = "COLOR")]
    theme: Option<String>,
    /// Field to clear: name, time_zone, icon_url or theme_color; may be repeated
    #[arg(long, value_name = "FIELD", hide_possible_values = true)]
    unset: Vec<Field>,
}

/// A field that can be emptied, under the API's name and under that of its flag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Field {
    #[value(name = "name")]
    Name,
    #[value(name = "time_zone", alias = "time-zone")]
    TimeZone,
    #[value(name = "icon_url", alias = "icon")]
    Icon,
    #[value(name = "theme_color", alias = "theme")]
    Color,
}

impl Update {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        let sheet = ctx.out.sheet(&output::ACCOUNTS)?;
        let mut update = UpdateAccount::new();
        let given = [self.name, self.time_zone, self.icon, self.theme.map(Rgb::with_hash)];
        let fields = [&mut update.name, &mut update.time_zone, &mut update.icon_url, &mut update.theme_color];
        for (field, given) in fields.into_iter().zip(given) {
            *field = given.map_or(Patch::Keep, Patch::Set);
        }
        for field in self.unset {
            let (value, name) = match field {
                Field::Name => (&mut update.name, "name"),
                Field::TimeZone => (&mut update.time_zone, "time_zone"),
                Field::Icon => (&mut update.icon_url, "icon_url"),
                Field::Color => (&mut update.theme_color, "theme_color"),
            };
            if matches!(value, Patch::Set(_)) {
                return Err(Failure::usage(format!("{name} is both set and unset")).into());
            }
            *value = Patch::Clear;
        }
        if update == UpdateAccount::new() {
            let hint = "--name NAME, --time-zone ZONE, --icon URL, --theme COLOR, --unset FIELD";
            return Err(Failure::usage("nothing to change").hint(hint).into());
        }
        update.validate().map_err(|invalid| given::invalid(invalid, &update))?;
        let now = ctx.client().await?.account().update(&update).full().await.map_err(|error| ctx.stop(&error))?;
        sheet.one(&String::from_utf8_lossy(&now.raw))?;
        if let Patch::Set(url) = &update.icon_url {
            warn_of_icon(ctx, url);
        }
        Ok(())
    }
}
