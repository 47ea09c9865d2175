//! `dl import`: links from another service's export, or from its API. The client knows what the columns mean; these are the
//! flags.

use std::path::PathBuf;

use clap::Args;
use deeplink_core::link::{CreateLink, check_custom_id};

use crate::base_url::BaseUrl;
use crate::context::Context;
use crate::error::{Failure, Outcome};
use crate::help::help;
use crate::import::{Exporter, Fetch, Reading, Saved, SourceFlags, Start};

/// Import links from another service's export or API
#[derive(Debug, Args)]
#[command(after_help = help(
    "Links keep their IDs, so short links on your own domain stay the same once the domain points here; add and verify \
     it first (\"dl domains add\"). Links of accounts without a verified domain expire after 30 days, unless the service \
     is configured otherwise. Short links on the other service's domain, such as \
     bit.ly, cannot be moved; their links get new URLs with the same IDs. Every row is checked before anything is sent. \
     To resume an interrupted import, run the same command again. The original short link becomes metadata \
     (imported_url), which is public; the total number of clicks is kept as a starting count, which only your team sees \
     and which reports show separately (\"dl links list --fields link_id,imported_clicks\" lists them). A note lists \
     columns that were ignored; --map imports them to one of the fields in \"dl links import --help\", which is the command \
     for files that dl exported. The /docs/moving-in page of the service has the details for each service. --dry-run shows \
     how the rows would be divided into requests, and --progress how far along the import is. From an API, the links are read page by page into a private file, \
     which is removed once they have been sent.",
    &[
    "dl import --from bitly bitly.csv --check",
    "dl import --from bitly bitly.csv --sanitize-ids --rejects bad.csv",
    "dl import --from shlink short-urls.json",
    "dl import --from shlink --from-api-key-file shlink.key --from-url https://go.example.com",
    "dl import --from branch branch.csv --app-scheme myapp --id-prefix branch-",
    "dl import --from csv links.csv --set tags=moved",
]
))]
pub(crate) struct Import {
    /// The file, or - for stdin
    #[arg(value_name = "FILE|-", required_unless_present = "from_api_key_file")]
    file: Option<PathBuf>,
    /// The service that wrote the file: bitly, dub, shlink, branch, firebase, or csv for any other
    #[arg(long, value_name = "SERVICE", hide_possible_values = true)]
    from: Exporter,
    /// Instead of a file, read the API of bitly, dub or shlink, with that service's API key from this file or - for stdin
    #[arg(long, value_name = "FILE", conflicts_with_all = ["file", "format"])]
    from_api_key_file: Option<PathBuf>,
    /// URL of that service's API; required for shlink [default: the service's own]
    #[arg(long, value_name = "URL")]
    from_url: Option<BaseUrl>,
    #[command(flatten)]
    source: SourceFlags,
    /// Replace disallowed characters in IDs with '-'
    #[arg(long, help_heading = "Rows")]
    sanitize_ids: bool,
    /// Use the last segment of a short link's path as the ID, if the path has several
    #[arg(long, help_heading = "Rows")]
    last_segment: bool,
    /// If a row's ID is missing or not allowed, generate one from the original short link; a second run generates the same IDs
    #[arg(long, value_name = "SALT", num_args = 0..=1, require_equals = true, default_missing_value = "",
        help_heading = "Rows")]
    generate_ids: Option<String>,
    /// Put this before each ID, for links of several services with the same IDs; the original paths become aliases
    #[arg(long, value_name = "PREFIX", value_parser = id_prefix, help_heading = "Rows")]
    id_prefix: Option<String>,
    /// URI scheme of your app, for deep links in a Branch export, which are paths
    #[arg(long, value_name = "SCHEME", value_parser = app_scheme, help_heading = "Rows")]
    app_scheme: Option<String>,
    /// Keep creation dates, campaigns and the like as metadata, which is public
    #[arg(long, help_heading = "Rows")]
    keep_details: bool,
    #[command(flatten)]
    start: Start,
}

impl Import {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        if self.app_scheme.is_some() && self.from != Exporter::Branch {
            return Err(Failure::usage("--app-scheme is only for --from branch").into());
        }
        let Self { file, from, from_api_key_file, from_url, source, start, .. } = self;
        // clap requires nothing that conflicts with what is given.
        if from_url.is_some() && from_api_key_file.is_none() {
            return Err(Failure::usage("--from-url requires --from-api-key-file").into());
        }
        let fetch = match from_api_key_file {
            Some(key_file) => Some(Fetch::new(ctx, from.api()?, &key_file, from_url).await?),
            None => None,
        };
        let file = file.or_else(|| Some(fetch.as_ref()?.file().to_owned()));
        let file = file.ok_or_else(|| Failure::usage("no file given"))?;
        let reading = Reading {
            generate_ids: self.generate_ids,
            from: Some(from),
            sanitize_ids: self.sanitize_ids,
            last_segment: self.last_segment,
            keep_details: self.keep_details,
            id_prefix: self.id_prefix,
            app_scheme: self.app_scheme,
            ..Reading::default()
        };
        start.run(ctx, Saved::new(ctx, &file, &source, reading)?, fetch).await
    }
}

/// What can be before an ID.
fn id_prefix(text: &str) -> Result<String, String> {
    // As short as an ID can be, so that there is room for one.
    let is_prefix = !text.is_empty() && check_custom_id(&format!("{text}abc")).is_ok();
    let wants = "use at most 61 letters, digits and hyphens, beginning with a letter or digit";
    is_prefix.then(|| text.to_owned()).ok_or_else(|| wants.to_owned())
}

/// The scheme of an app's deep links, such as `myapp` or `myapp://`.
fn app_scheme(text: &str) -> Result<String, String> {
    let scheme = text.strip_suffix("://").unwrap_or(text);
    let is_word = scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'));
    if !is_word || matches!(&*scheme.to_ascii_lowercase(), "http" | "https") {
        return Err("use the URI scheme of the app, such as myapp".to_owned());
    }
    let link = CreateLink::new().ios_deep_link(format!("{scheme}://open"));
    link.validate().map_err(|_| "deep links with this scheme are not allowed".to_owned())?;
    Ok(scheme.to_owned())
}
