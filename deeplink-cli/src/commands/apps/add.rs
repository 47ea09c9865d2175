//! `dl apps add`.

use clap::{Args, Subcommand};
use deeplink_core::app::{AppDetail, CreateApp, fingerprint};
use deeplink_core::colour::Rgb;
use deeplink_core::error::{ErrorCode, Invalid};

use crate::context::Context;
use crate::error::{Failure, Outcome};
use crate::help::help;
use crate::{given, output};

/// Register an app, or replace the one with the same bundle ID or package name
#[derive(Debug, Args)]
#[command(after_help = help("", &[
    "dl apps add ios --bundle-id com.example.app --team-id ABCDE12345",
    "dl apps add android --package com.example.app --sha256 $(cat fingerprint.txt)",
]))]
pub(crate) struct Add {
    #[command(subcommand)]
    platform: Platform,
}

#[derive(Debug, Subcommand)]
enum Platform {
    Ios(Ios),
    Android(Android),
}

/// Register an iOS app and print its ID
#[derive(Debug, Args)]
#[command(after_help = help(
    "The team ID is shown under Membership in your Apple developer account. The app itself needs the entitlement \
     applinks:YOUR.DOMAIN.",
    &[
    "dl apps add ios --bundle-id com.example.app --team-id ABCDE12345",
    "dl apps add ios --bundle-id com.example.app --team-id ABCDE12345 --name Shop",
]
))]
struct Ios {
    /// Bundle ID, such as com.example.app
    #[arg(long, value_name = "ID")]
    bundle_id: String,
    /// Team ID: 10 uppercase letters and digits
    #[arg(long, value_name = "ID")]
    team_id: String,
    #[command(flatten)]
    looks: Looks,
}

/// Register an Android app and print its ID
#[derive(Debug, Args)]
#[command(after_help = help(
    "The fingerprints are shown in the Play Console under App integrity; for a local build, run:\nkeytool -list -v \
     -keystore release.keystore",
    &[
    "dl apps add android --package com.example.app --sha256 $(cat fingerprint.txt)",
    "dl apps add android --package com.example.app --sha256 $(cat fingerprints.txt) --name Shop",
]
))]
struct Android {
    /// Package name, such as com.example.app
    #[arg(long, value_name = "NAME", allow_hyphen_values = true)]
    package: String,
    /// SHA-256 of each signing certificate: 64 hex digits, or pairs separated by ':'
    #[arg(long = "sha256", value_name = "FINGERPRINT", required = true, num_args = 1.., value_delimiter = ',')]
    fingerprints: Vec<String>,
    #[command(flatten)]
    looks: Looks,
}

/// What the landing page shows about an app.
#[derive(Debug, Args)]
struct Looks {
    /// Display name of the app
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    name: Option<String>,
    /// Icon: URL of a square image, served over HTTPS
    #[arg(long, value_name = "URL")]
    icon: Option<String>,
    /// Color of the landing page's main button, such as '#0a7cff' or 0a7cff
    #[arg(long, value_name = "COLOR")]
    theme: Option<String>,
}

impl Looks {
    fn put_on(self, mut app: CreateApp) -> CreateApp {
        (app.app_name, app.icon_url, app.theme_color) = (self.name, self.icon, self.theme.map(Rgb::with_hash));
        app
    }
}

impl Add {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        let sheet = ctx.out.sheet(&output::APPS)?;
        let app = match self.platform {
            Platform::Ios(ios) => ios.looks.put_on(CreateApp::ios(ios.bundle_id, ios.team_id)),
            Platform::Android(android) => {
                check_each(&android.fingerprints)?;
                android.looks.put_on(CreateApp::android(android.package, android.fingerprints))
            }
        };
        // Before a key is needed: invalid input fails first.
        app.validate().map_err(|invalid| given::invalid(invalid, &app))?;
        let apps = ctx.client().await?.apps();
        // The answer does not say whether it replaced an app, so the existing apps are read first.
        let there =
            if ctx.global.dry_run { Vec::new() } else { apps.list().await.map_err(|error| ctx.stop(&error))? };
        let made = apps.create(&app).full().await.map_err(|error| ctx.stop(&error))?;
        sheet.created(&String::from_utf8_lossy(&made.raw))?;
        if let Some(before) = there.iter().find(|app| app.id == made.value.id) {
            tell_replaced(ctx, before, &made.value);
        }
        if let Some(url) = &app.icon_url {
            warn_of_icon(ctx, url);
        }
        if made.value.sha256_fingerprints.as_ref().is_some_and(|prints| prints.len() == 1) {
            ctx.console.note(
                "only one fingerprint: builds from Google Play are signed with Play's own certificate; \
                add its fingerprint too",
            );
        }
        Ok(())
    }
}

/// Warns of an icon that no page shows.
pub(crate) fn warn_of_icon(ctx: &Context, url: &str) {
    if !url.to_ascii_lowercase().starts_with("https:") {
        ctx.console.warn("the icon is not shown: its URL must start with https://");
    }
}

/// Reports that an app was replaced, what it has now, and what was removed.
fn tell_replaced(ctx: &Context, before: &AppDetail, now: &AppDetail) {
    let named = |what: &str, value: &Option<String>| match value {
        Some(value) => format!("{what} {value}"),
        None => format!("no {what}"),
    };
    let parts = |app: &AppDetail| {
        let [name, icon, colour] = [app.app_name.clone(), app.icon_url.clone(), app.theme_color.clone()];
        [("name", "--name", name), ("icon", "--icon", icon), ("color", "--theme", colour)]
    };
    let has: Vec<String> = parts(now).iter().map(|(what, _, value)| named(what, value)).collect();
    let id = now.bundle_id.as_ref().or(now.package_name.as_ref()).map_or("", String::as_str);
    ctx.console.note(&format!("{id} was already registered and has been replaced; it now has {}", has.join(", ")));
    let (mut gone, mut flags) = (Vec::new(), Vec::new());
    for ((what, flag, old), (_, _, new)) in parts(before).into_iter().zip(parts(now)) {
        if old.is_some() && new.is_none() {
            gone.push(named(what, &old));
            flags.push(flag);
        }
    }
    if !gone.is_empty() {
        ctx.console.warn(&format!("removed: {}; to add it again, use {}", gone.join(", "), flags.join(" ")));
    }
}

/// Reports which of several fingerprints is wrong.
fn check_each(given: &[String]) -> Outcome {
    for text in given {
        if let Err(why) = fingerprint(text) {
            let shown: String = text.chars().take(12).collect();
            let what = if given.len() == 1 { why.to_owned() } else { format!("{shown}…: {why}") };
            let invalid = Invalid::field(ErrorCode::InvalidFingerprint, "sha256_fingerprints", what);
            let failure = Failure::from(invalid);
            // Quotes turned several values into one word.
            let several = text.split_whitespace().all(|part| fingerprint(part).is_ok()) && !text.trim().is_empty();
            let hint =
                "--sha256 accepts several values: --sha256 FINGERPRINT FINGERPRINT, or $(cat FILE) without quotes";
            return Err(if several { failure.hint(hint) } else { failure }.into());
        }
    }
    Ok(())
}
