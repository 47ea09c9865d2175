//! `dl wellknown`: the files that say which apps open a host's links.

use bytes::Bytes;
use clap::{Args, ValueEnum};
use deeplink_client::{AppleAssociation, AssetStatement, Call};
use deeplink_core::domain::DomainName;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::context::Context;
use crate::error::{Failure, Outcome};
use crate::exit::Exit;
use crate::given;
use crate::help::help;
use crate::output::{self, Format};

/// Show a host's app association file
#[derive(Debug, Args)]
#[command(after_help = help(
    "The request goes to the base URL. Without --host, the file of the base URL's own host is requested; it exists \
     only if that host is a domain of an account. No key is needed or sent.",
    &[
    "dl wellknown apple --host go.example.com",
    "dl wellknown android --base-url https://go.example.com",
]
))]
pub(crate) struct Wellknown {
    /// Platform: apple or android
    #[arg(value_name = "apple|android", hide_possible_values = true)]
    whose: Whose,
    /// Custom domain to send as the Host header to the base URL
    #[arg(long, value_name = "HOST")]
    host: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Whose {
    /// apple-app-site-association
    Apple,
    /// assetlinks.json
    Android,
}

impl Wellknown {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        let sheet = ctx.out.sheet(&output::ASSOCIATIONS)?;
        let host = self.host.as_deref().map(given::host).transpose()?;
        let host = host.as_ref().map(DomainName::as_str);
        let public = ctx.public_client()?.public();
        let (raw, records) = match self.whose {
            Whose::Apple => {
                let (file, raw) = self.fetch(ctx, host, public.apple_association()).await?;
                (raw, apple(&file))
            }
            Whose::Android => {
                let (file, raw) = self.fetch(ctx, host, public.asset_links()).await?;
                (raw, android(&file))
            }
        };
        if sheet.fields.is_none() && matches!(ctx.out.format, Format::Table | Format::Json) {
            ctx.out.json(&String::from_utf8_lossy(&raw))?;
            return ctx.out.flush();
        }
        let mut rows = sheet.several();
        for record in records {
            rows.push(&record)?;
        }
        rows.finish(None)
    }

    async fn fetch<T: DeserializeOwned + 'static>(
        &self,
        ctx: &Context,
        host: Option<&str>,
        call: Call<Option<T>>,
    ) -> Outcome<(T, Bytes)> {
        let call = match host {
            Some(host) => call.on_host(host),
            None => call,
        };
        let reply = call.full().await.map_err(|error| ctx.stop(&error))?;
        let Some(file) = reply.value else {
            let host = match host {
                Some(host) => host.to_owned(),
                None => ctx.base_url()?.origin(),
            };
            let (apps, platform) = match self.whose {
                Whose::Apple => ("iOS", "ios"),
                Whose::Android => ("Android", "android"),
            };
            let what =
                format!("{host} has no file for {apps}: it requires a verified domain and an {apps} app (HTTP 404)");
            let mut failure = Failure::new(Exit::NotFound, what).code("not_found");
            failure.hint = Some(format!("dl domains list, dl apps add {platform} --help"));
            (failure.status, failure.request_id) = (Some(reply.status.as_u16()), reply.request_id);
            return Err(failure.into());
        };
        Ok((file, reply.raw))
    }
}

fn apple(file: &AppleAssociation) -> Vec<String> {
    let apps = file.applinks.details.iter().flat_map(|detail| &detail.app_ids);
    apps.map(|app| output::object(&[("app", app.as_str().into()), ("sha256_cert_fingerprints", Value::Null)])).collect()
}

fn android(file: &[AssetStatement]) -> Vec<String> {
    let record = |statement: &AssetStatement| {
        let target = &statement.target;
        let prints = target.sha256_cert_fingerprints.clone();
        output::object(&[("app", target.package_name.as_str().into()), ("sha256_cert_fingerprints", prints.into())])
    };
    file.iter().map(record).collect()
}
