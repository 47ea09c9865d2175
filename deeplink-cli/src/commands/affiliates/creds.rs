//! `dl affiliates creds`: a partner's credentials.

use clap::{Args, Subcommand};
use deeplink_client::Client;

use crate::context::Context;
use crate::error::Outcome;
use crate::help::help;
use crate::new_secret::{Kind, SecretOut};
use crate::paging::{Fetched, Part};
use crate::{escape, given, ids, output};

/// Manage the credentials of an affiliate
#[derive(Debug, Args)]
#[command(after_help = help("", &[
    "dl affiliates creds create aff_0123456789abcdef01234567",
    "dl affiliates creds list aff_0123456789abcdef01234567",
]))]
pub(crate) struct Creds {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List the credentials of an affiliate
    #[command(after_help = help("", &[
        "dl affiliates creds list aff_0123456789abcdef01234567",
        "dl affiliates creds list aff_0123456789abcdef01234567 -o id",
    ]))]
    List {
        /// ID of the affiliate
        affiliate: String,
    },
    /// Create a credential for an affiliate and print it; it is shown only once
    #[command(after_help = help(
        "The credential can only create, list and read links of this affiliate, and get their QR codes. At most 3 per \
         affiliate.",
        &[
        "dl affiliates creds create aff_0123456789abcdef01234567",
        "dl affiliates creds create aff_0123456789abcdef01234567 --out-file partner.txt",
    ]
    ))]
    Create {
        /// ID of the affiliate
        affiliate: String,
        #[command(flatten)]
        out: SecretOut,
    },
    /// Delete credentials of an affiliate
    #[command(after_help = help("", &[
        "dl affiliates creds delete aff_0123456789abcdef01234567 skid_0123456789abcdef01234567 -y",
        "dl affiliates creds delete aff_0123456789abcdef01234567 - --yes < creds.txt",
    ]))]
    Delete {
        /// ID of the affiliate
        affiliate: String,
        /// IDs of the credentials, or - to read IDs from stdin
        #[arg(value_name = "ID|-", required = true)]
        ids: Vec<String>,
    },
}

impl Creds {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        match self.action {
            Action::List { affiliate } => {
                let sheet = ctx.out.sheet(&output::CREDENTIALS)?;
                given::affiliate_id(&affiliate)?;
                let credentials = ctx.client().await?.affiliates().credentials(&affiliate);
                let fetch = async |size, cursor| {
                    let page = Fetched::of(credentials.list(), size, cursor).await;
                    page.map_err(|error| ctx.stop_among(&error, "affiliates"))
                };
                let none = format!("no credentials yet; dl affiliates creds create {affiliate} creates one");
                Part::default().print(ctx, &sheet, &none, fetch).await
            }
            Action::Create { affiliate, out } => {
                let sheet = ctx.out.sheet(&output::NEW_CREDENTIAL)?;
                given::affiliate_id(&affiliate)?;
                let client = ctx.client().await?;
                let delete = format!("dl affiliates creds delete {affiliate}");
                let sink = out.prepare(ctx, &sheet, Kind::key("api_key", &delete))?;
                let call = client.affiliates().credentials(&affiliate).create().full();
                let made = call.await.map_err(|error| ctx.stop_among(&error, "affiliates"))?;
                sink.take(&sheet, &made.raw, made.value.api_key.expose())
            }
            Action::Delete { affiliate, ids: named } => {
                given::affiliate_id(&affiliate)?;
                let ids = ids::read(ctx, &named, given::credential_id).await?;
                let question = match ids.as_slice() {
                    [id] if ctx.will_ask() => {
                        let call = ctx.client().await?.affiliates().credentials(&affiliate).list();
                        let listed = call.await.map_err(|error| ctx.stop_among(&error, "affiliates"))?;
                        let found = listed.into_iter().find(|key| key.id.as_str() == id);
                        let list = format!("affiliates creds list {affiliate}");
                        let key = found.ok_or_else(|| ids::unknown("no credential", id, &list))?;
                        let prefix = escape::one_line(&key.key_prefix);
                        format!("Delete the credential {prefix}? Requests with it will be rejected immediately.")
                    }
                    [id] => format!("Delete the credential {id}? Requests with it will be rejected immediately."),
                    _ => format!("Delete {} credentials? Requests with them will be rejected immediately.", ids.len()),
                };
                let delete = |client: &Client, id: &str| client.affiliates().credentials(&affiliate).delete(id);
                ids::delete(ctx, "affiliates creds", &named, &ids, Some(&question), delete).await
            }
        }
    }
}
