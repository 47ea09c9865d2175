//! `dl links explain`: what a visitor would get, and why.

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use deeplink_client::{Call, Client, ExplainQuery, ExplainedOutcome, Explanation, SampleVisitor};

use crate::context::Context;
use crate::error::{Failure, Outcome, Stop};
use crate::escape;
use crate::given::{self, LinkAt};
use crate::help::help;
use crate::output::{self, Format, Sheet};

/// Explain what a visitor to a link gets, and why
#[derive(Debug, Args)]
#[command(after_help = help(
    "Uses the same routing code as a real visit. No click is counted. Without --as or a header, compares six devices. \
     To see the step and row of the decision table that applied, use -v or -o json.\n\n\
     Visitors: iphone (ios), ipad, android, mac, windows (desktop), instagram (its browser on an iPhone), preview (a \
     link-preview bot), agent (an AI agent), crawler (a search engine), curl, json (a client that requests JSON).",
    &[
    "dl links explain spring-42",
    "dl links explain https://go.example.com/spring-42 --as iphone",
    "dl links explain spring-42 --os Android --accept application/json -o json",
]
))]
pub(crate) struct Explain {
    /// ID of the link, or its full URL
    #[arg(value_name = "ID|URL")]
    id: String,
    /// Visitor, such as iphone, android, desktop, agent or crawler
    #[arg(long = "as", value_name = "VISITOR", value_parser = visitors(), hide_possible_values = true)]
    visitor: Option<SampleVisitor>,
    /// User-Agent header to send
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true, conflicts_with = "visitor")]
    user_agent: Option<String>,
    /// Accept header to send
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    accept: Option<String>,
    /// Sec-CH-UA-Platform header to send, such as Android
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    os: Option<String>,
    /// Domain to visit, such as the alternate domain [default: the link's]
    #[arg(long, value_name = "HOST")]
    host: Option<String>,
    /// Visit with redirect=1
    #[arg(long)]
    redirect: bool,
}

/// The names of visitors.
fn visitors() -> impl TypedValueParser<Value = SampleVisitor> {
    let named = |sample: SampleVisitor| {
        let alias = OTHER_NAMES.into_iter().find(|(_, of)| *of == sample);
        PossibleValue::new(sample.name).aliases(alias.map(|(name, _)| name))
    };
    PossibleValuesParser::new(SampleVisitor::ALL.map(named)).try_map(|name| {
        let other = OTHER_NAMES.into_iter().find(|(other, _)| *other == name).map(|(_, sample)| sample);
        other.or_else(|| SampleVisitor::named(&name)).ok_or("unknown visitor")
    })
}

/// Names that `dl links resolve` also accepts.
const OTHER_NAMES: [(&str, SampleVisitor); 2] = [("ios", SampleVisitor::IPHONE), ("desktop", SampleVisitor::WINDOWS)];

impl Explain {
    pub(crate) async fn run(mut self, ctx: &Context) -> Outcome {
        let sheet = ctx.out.sheet(&output::EXPLANATIONS)?;
        if self.id.contains("://") {
            if self.host.is_some() {
                return Err(Failure::usage("--host works only with an ID; a URL already contains its host").into());
            }
            let LinkAt { id, host } = given::link(&self.id, &ctx.base_url()?)?;
            (self.id, self.host) = (id, host);
        }
        given::link_id(&self.id)?;
        let client = ctx.client().await?;
        if self.visitor.is_none() && self.user_agent.is_none() && self.accept.is_none() && self.os.is_none() {
            return self.compare(ctx, &client, &sheet).await;
        }
        let why = self.ask(&client, self.visitor).full().await;
        let why = why.map_err(|error| ctx.stop(&error).naming_link(&self.id))?;
        let raw = String::from_utf8_lossy(&why.raw);
        if sheet.fields.is_some() || ctx.out.format != Format::Json {
            if ctx.out.format == Format::Table && ctx.out.terminal && sheet.fields.is_none() {
                ctx.out.raw(draw(ctx, &why.value, self.visitor).as_bytes())?;
                return ctx.out.flush();
            }
            return sheet.one(&marked(&raw, &why.value, self.visitor));
        }
        sheet.one(&raw)
    }

    /// Prints one row per device.
    async fn compare(&self, ctx: &Context, client: &Client, sheet: &Sheet<'_>) -> Outcome {
        let (mut answers, mut held) = (Vec::new(), None);
        for device in SampleVisitor::DEVICES {
            match self.ask(client, Some(device)).full().await.map_err(|error| ctx.stop(&error)) {
                Ok(why) => answers.push((device, why)),
                Err(Stop::NotSent) => held = Some(Stop::NotSent),
                Err(stop) => return Err(stop.naming_link(&self.id)),
            }
        }
        if let Some(held) = held {
            return Err(held);
        }
        if ctx.out.format == Format::Id {
            // It is the same for all devices.
            answers.truncate(1);
        }
        let mut rows = sheet.several();
        for (device, why) in &answers {
            rows.push(&marked(&String::from_utf8_lossy(&why.raw), &why.value, Some(*device)))?;
        }
        rows.finish(None)?;
        if ctx.out.format == Format::Table && ctx.out.terminal {
            ctx.console.note("add --as iphone to see why");
        }
        Ok(())
    }

    fn ask(&self, client: &Client, visitor: Option<SampleVisitor>) -> Call<Explanation> {
        let mut query = visitor.map_or_else(ExplainQuery::new, ExplainQuery::from);
        for (of_query, flag) in [
            (&mut query.user_agent, &self.user_agent),
            (&mut query.accept, &self.accept),
            (&mut query.os, &self.os),
            (&mut query.host, &self.host),
        ] {
            if flag.is_some() {
                of_query.clone_from(flag);
            }
        }
        query.redirect = self.redirect;
        client.links().explain(&self.id, &query)
    }
}

/// The service's record, preceded by the visitor's name and target.
fn marked(raw: &str, why: &Explanation, visitor: Option<SampleVisitor>) -> String {
    let members = [("as", visitor.map(|visitor| visitor.name).into()), ("leads_to", leads_to(why, visitor).into())];
    let first = output::object(&members);
    match (first.strip_suffix('}'), raw.trim_start().strip_prefix('{')) {
        (Some(first), Some(rest)) => format!("{first},{rest}"),
        _ => raw.to_owned(),
    }
}

fn leads_to(why: &Explanation, visitor: Option<SampleVisitor>) -> Option<&str> {
    visitor.map_or(why.target.as_deref(), |visitor| why.target_of(visitor))
}

/// For a terminal: the response, its target, and the reason.
fn draw(ctx: &Context, why: &Explanation, visitor: Option<SampleVisitor>) -> String {
    let pen = ctx.pen();
    let mut lines = vec![("visitor", said_of(why, visitor)), ("response", what(why))];
    if let Some(to) = leads_to(why, visitor) {
        lines.push(("target", to.to_owned()));
    }
    if let Some(to) = &why.fallback {
        let after = why.timer_ms.map(|millis| format!(" after {} s", f64::from(millis) / 1_000.0));
        lines.push(("fallback", format!("{to}{}", after.unwrap_or_default())));
    }
    if let Some(to) = why.ipad_target.as_deref().filter(|_| !visitor.is_some_and(|visitor| visitor.is_ipad)) {
        lines.push(("on an iPad", to.to_owned()));
    }
    lines.push(("reason", why.reason.clone()));
    if ctx.console.verbosity() > 0 {
        let row = why.row.as_ref().map(|row| format!(", row {row}"));
        lines.push(("decision", format!("step {}{}", why.step, row.unwrap_or_default())));
    }
    lines.push(("counted as", why.counted.map_or("nothing", |kind| kind.as_str()).to_owned()));
    lines.extend(why.headers.iter().map(|(name, value)| ("header", format!("{name}: {value}"))));
    let width = lines.iter().map(|(label, _)| label.len()).max().unwrap_or(0);
    let room = pen.width.saturating_sub(width + 2).max(20);
    let mut text = format!("{}\n", pen.heading(&escape::one_line(&why.url)));
    for (label, value) in lines {
        let value = output::wrapped(&escape::one_line(&value), room, width + 2);
        text.extend([&*pen.label(&format!("{label:width$}")), "  ", &*value, "\n"]);
    }
    text
}

/// The visitor, as classified by the service.
fn said_of(why: &Explanation, visitor: Option<SampleVisitor>) -> String {
    let seen = format!("{} on {}", why.visitor.as_str(), why.platform.as_str());
    let seen = if why.in_app { format!("{seen}, in-app") } else { seen };
    visitor.map_or_else(|| seen.clone(), |visitor| format!("{} ({seen})", visitor.label))
}

fn what(why: &Explanation) -> String {
    let what = match why.outcome {
        ExplainedOutcome::Redirect => "a redirect",
        ExplainedOutcome::Landing => "the landing page",
        ExplainedOutcome::Notice => "a notice",
        ExplainedOutcome::Json => "the link's data as JSON",
        ExplainedOutcome::NotFound => "not found",
        _ => why.outcome.as_str(),
    };
    format!("{what} (HTTP {})", why.http_status)
}
