//! `dl stats`: what links led to, from clicks to conversions.

mod draw;

pub(crate) use draw::imported;

use clap::Args;
use deeplink_client::Client;
use deeplink_core::funnel::{
    Credit, Funnel, FunnelGroup, FunnelQuery, FunnelReport, FunnelScope, GroupBy, GroupOrder, Revenue,
};
use deeplink_core::time::Timestamp;
use deeplink_core::zone::Zone;

use crate::clock::{self, Given, parse_given};
use crate::context::Context;
use crate::error::{Failure, Outcome};
use crate::exit::Exit;
use crate::help::help;
use crate::output::{self, Format, Record, Sheet, object};
use crate::{given, ids};

/// Groups that `--top` names, unless `--limit` says otherwise.
const TOP: u32 = 25;

/// Show clicks, installs, users and conversions for links or the whole account
#[derive(Debug, Args)]
#[command(after_help = help(
    "Without IDs, the report covers all links of the account, including deleted ones. Conversions by known users who \
     did not come from a link are shown separately, as unattributed. An install that is opened again from a link counts as \
     engaged. Counts of several links are combined, and an \
     install that opened two of them is counted once; the maximum is 100 links. Each percentage is relative to the step \
     above; above 100%, it is a ratio, such as 1.5 per user. If you specify several IDs, unknown ones count as zero. Days and hours \
     are in UTC. Clicks that a previous service counted (imported_clicks) are shown separately, in reports on a single \
     link. With --tz, the dates in --from and --to are in that time zone, and so are the days of --group-by day; hours \
     stay in UTC. Clicks are counted by whole \
     hours; an hour that spans midnight counts toward the earlier day. -o csv has a column for each conversion type; \
     for groups of clicks only, it has the columns key and clicks.",
    &[
    "dl stats --from 7d",
    "dl stats spring-42 --from 7d",
    "dl stats spring-42 spring-43 --credit first_touch --group-by day -o csv",
    "dl stats --group-by day --tz Europe/Berlin",
    "dl stats --from 2026-11-01 --to 2026-12-01 --tz Europe/Berlin",
    "dl stats --top link --from 7d",
    "dl stats --top country --limit 10 -o csv",
    "dl links list --q spring- -o id | dl stats - --from 2026-11-01 --group-by link",
]
))]
pub(crate) struct Stats {
    /// IDs of the links, or - to read IDs from stdin; the whole account if omitted
    #[arg(value_name = "ID|-")]
    ids: Vec<String>,
    /// Start: RFC 3339, a date, or how long ago [default: 30 days before the end]
    #[arg(long, value_name = "WHEN", value_parser = parse_given)]
    from: Option<Given>,
    /// End; a date means its start (00:00) [default: now]
    #[arg(long, value_name = "WHEN", value_parser = parse_given)]
    to: Option<Given>,
    /// Touch to credit: last_touch, first_touch or touched
    #[arg(long, value_name = "TOUCH", default_value = "last_touch")]
    credit: String,
    /// Group by day, hour or link; or clicks only, by country, platform, os, device, browser, in_app, referer_host or kind
    #[arg(long, value_name = "WHAT")]
    group_by: Option<String>,
    /// Groups with the most clicks: same as --group-by WHAT --order clicks --limit 25
    #[arg(long, value_name = "WHAT", conflicts_with = "group_by")]
    top: Option<String>,
    /// Maximum number of groups, 1 to 100; the remaining clicks are counted in a group named other. Not allowed with
    /// day or hour
    #[arg(long, value_name = "N")]
    limit: Option<u32>,
    /// Order of the groups: clicks (most clicks first) or -key (descending)
    #[arg(long, value_name = "ORDER", allow_hyphen_values = true)]
    order: Option<String>,
    /// Time zone of the dates in --from and --to and of --group-by day, such as Europe/Berlin [default: UTC]
    #[arg(long, value_name = "ZONE")]
    tz: Option<String>,
}

impl Stats {
    pub(crate) async fn run(self, ctx: &Context) -> Outcome {
        let sheet = ctx.out.sheet(&output::FUNNELS)?;
        let (query, scope) = if self.ids.is_empty() {
            self.query(FunnelQuery::account())?
        } else {
            self.query(FunnelQuery::new(ids::read(ctx, &self.ids, given::link_id).await?))?
        };
        let client = ctx.client().await?;
        if ctx.out.format == Format::Csv && sheet.fields.is_none() {
            // The table does not state its window, so the window is fixed here.
            let query = query.window(Some(scope.from), Some(scope.to));
            let csv = client.analytics().funnel(&query).csv().await.map_err(|error| ctx.stop(&error))?;
            let mut counts = csv.lines().skip(1).flat_map(|row| row.split(',').skip(1));
            if counts.all(|count| matches!(count, "" | "0")) {
                require_link(ctx, &client, &scope).await?;
            }
            // Parsed and written again, so that referers are escaped like all cells.
            let mut kept = None;
            for record in csv::ReaderBuilder::new().has_headers(false).from_reader(csv.as_bytes()).into_records() {
                let record = record.map_err(|_| Failure::new(Exit::Failure, "the service's response is not CSV"))?;
                let kept = kept.get_or_insert_with(|| csv_columns(scope.group_by.as_ref(), &record));
                ctx.out.csv(kept.iter().filter_map(|at| record.get(*at)).map(str::to_owned))?;
            }
            ctx.out.flush()?;
            say_window(ctx, [scope.from, scope.to], scope.zone.as_ref().map(Zone::name), &scope.credit);
            return Ok(());
        }
        let report = client.analytics().funnel(&query).full().await.map_err(|error| ctx.stop(&error))?;
        if report.value.funnel == Funnel::default() {
            require_link(ctx, &client, &scope).await?;
        }
        print(ctx, &sheet, &report.value, &String::from_utf8_lossy(&report.raw))
    }

    /// The query, after every rule of the service. The service treats an unknown credit as the last touch; here an
    /// unknown word is an error.
    fn query(&self, of: FunnelQuery) -> Outcome<(FunnelQuery, FunnelScope)> {
        let word = |text: &str| text.replace('-', "_");
        let credit = Credit::from(word(&self.credit).as_str());
        if let Credit::Unknown(_) = credit {
            let words: Vec<&str> = Credit::ALL.iter().map(Credit::as_str).collect();
            let what = format!("credit must be one of {}", words.join(", "));
            return Err(Failure::invalid(what).code("bad_request").field("credit").into());
        }
        let zone = self.tz.as_deref().map(named_zone).transpose()?;
        let moment = |given: &Option<Given>| {
            let Given { text, moment } = given.as_ref()?;
            // A date is a day of the zone, like the groups.
            Some(zone.as_ref().and_then(|zone| zone.midnight(text)).unwrap_or(*moment))
        };
        let mut query = of.window(moment(&self.from), moment(&self.to)).credit(credit);
        query.group_by = self.group_by.as_ref().or(self.top.as_ref()).map(|text| GroupBy::from(word(text).as_str()));
        let is_cut = self.top.is_some() && query.group_by.as_ref().is_some_and(|by| by.millis().is_none());
        query.limit = self.limit.or(is_cut.then_some(TOP));
        let order = self.order.as_deref().map(GroupOrder::from);
        query.order = order.or(self.top.is_some().then_some(GroupOrder::Clicks));
        // To the service, a time zone is one of day groups; in other reports it has already been used for the dates.
        query.tz = self.tz.clone().filter(|_| query.group_by == Some(GroupBy::Day));
        let scope = query.check(clock::now())?;
        Ok((query, scope))
    }
}

/// Ends the command if a report without any count is on a single link that does not exist: the service counts unknown IDs as
/// zero. A deleted link can still have counts, as long as it has a history.
async fn require_link(ctx: &Context, client: &Client, scope: &FunnelScope) -> Outcome {
    if let Some([id]) = scope.link_ids.as_deref() {
        let history = client.links().history(id).page_size(1).first_page().await;
        history.map_err(|error| ctx.stop(&error).naming_link(id))?;
    }
    Ok(())
}

/// The time zone with this name. The service would check it only in a report by day.
fn named_zone(name: &str) -> Outcome<Zone> {
    Zone::named(name).ok_or_else(|| {
        let what = "tz must be an IANA time zone name, such as Europe/Berlin";
        Failure::invalid(what).code("bad_request").field("tz").into()
    })
}

/// The positions of the columns to write, by the service's header: groups of clicks have nothing in the others.
fn csv_columns(by: Option<&GroupBy>, header: &csv::StringRecord) -> Vec<usize> {
    let of_clicks = by.is_some_and(GroupBy::is_of_clicks);
    let columns = header.iter().enumerate().filter(|(_, name)| !of_clicks || matches!(*name, "key" | "clicks"));
    columns.map(|(at, _)| at).collect()
}

fn print(ctx: &Context, sheet: &Sheet<'_>, report: &FunnelReport, raw: &str) -> Outcome {
    let groups = report.groups.as_deref();
    let flat = || groups.map_or_else(|| vec![total(report)], |groups| groups.iter().map(flatten).collect());
    match (ctx.out.format, &sheet.fields) {
        (Format::Json, None) => return sheet.one(raw),
        (Format::Json, Some(_)) if groups.is_none() => sheet.one(&total(report))?,
        (Format::Jsonl, None) => {
            let record = Record::read(raw).unwrap_or_default();
            let each: Vec<&str> = match groups {
                Some(_) => record.items("groups").into_iter().map(serde_json::value::RawValue::get).collect(),
                None => vec![raw],
            };
            rows(sheet, &each)?;
        }
        (Format::Id, _) if groups.is_none() => {
            report.link_ids.iter().try_for_each(|id| ctx.out.line(id))?;
            ctx.out.flush()?;
        }
        // The clicks of all other links have no id.
        (Format::Id, _) if report.group_by == Some(GroupBy::Link) => {
            let links = groups.unwrap_or_default().iter().filter(|group| group.new_users.is_some());
            links.map(|group| &group.key).try_for_each(|id| ctx.out.line(id))?;
            ctx.out.flush()?;
        }
        (Format::Table, None) if ctx.out.terminal => {
            ctx.out.raw(draw::report(ctx.pen(), report).as_bytes())?;
            return ctx.out.flush();
        }
        (Format::Table, None) if groups.is_none() => {
            for (name, count) in metrics(report) {
                ctx.out.line(&format!("{name}\t{count}"))?;
            }
            ctx.out.flush()?;
        }
        _ => rows(sheet, &flat().iter().map(String::as_str).collect::<Vec<_>>())?,
    }
    say_window(ctx, [report.from, report.to], report.tz.as_deref(), &report.credit);
    Ok(())
}

/// States the window, the zone and the credit, if the output does not.
fn say_window(ctx: &Context, [from, to]: [Timestamp; 2], tz: Option<&str>, credit: &Credit) {
    let days = draw::days_of(tz);
    ctx.console.say(&format!("from {from} to {to}{days}, {}", draw::credit(credit)));
}

fn rows(sheet: &Sheet<'_>, records: &[&str]) -> Outcome {
    let mut rows = sheet.several();
    records.iter().try_for_each(|record| rows.push(record))?;
    rows.finish(None)
}

/// The counts of a report, each with its name.
fn metrics(report: &FunnelReport) -> Vec<(String, i64)> {
    let funnel = &report.funnel;
    let (new, returning) = (funnel.new_users, funnel.returning_users);
    let steps = [
        ("clicks", funnel.clicks),
        ("installed", new.installed),
        ("identified", new.identified),
        ("reinstalled", returning.reinstalled),
        ("new_device", returning.new_device),
        ("engaged", returning.engaged),
    ];
    let conversions = funnel
        .conversions
        .iter()
        .map(|(kind, count)| (format!("conversion.{}", crate::escape::one_line(kind)), *count));
    let revenue = funnel
        .revenue
        .iter()
        .map(|sum| (format!("revenue_cents.{}", crate::escape::one_line(&sum.currency)), sum.amount_cents));
    let alone = report.unattributed.iter().flatten();
    let alone = alone.map(|(kind, count)| (format!("unattributed.{}", crate::escape::one_line(kind)), *count));
    let paid = report.unattributed_revenue.iter().flatten();
    let paid = paid.map(|sum| {
        (format!("unattributed_revenue_cents.{}", crate::escape::one_line(&sum.currency)), sum.amount_cents)
    });
    let steps = steps.into_iter().map(|(name, count)| (name.to_owned(), count));
    let imported = report.imported_clicks.map(|count| ("imported_clicks".to_owned(), count));
    steps.chain(conversions).chain(revenue).chain(alone).chain(paid).chain(imported).collect()
}

/// The whole report as one record, its conversions summed.
fn total(report: &FunnelReport) -> String {
    flatten(&FunnelGroup::whole("total", report.funnel.clone()))
}

/// A group as one record, its conversions summed. Counts that a group does not have are null.
fn flatten(group: &FunnelGroup) -> String {
    let conversions =
        group.conversions.as_ref().map(|by_type| by_type.values().fold(0, |a: i64, b| a.saturating_add(*b)));
    object(&[
        ("key", group.key.as_str().into()),
        ("clicks", group.clicks.into()),
        ("installed", group.new_users.map(|new| new.installed).into()),
        ("identified", group.new_users.map(|new| new.identified).into()),
        ("reinstalled", group.returning_users.map(|back| back.reinstalled).into()),
        ("new_device", group.returning_users.map(|back| back.new_device).into()),
        ("engaged", group.returning_users.map(|back| back.engaged).into()),
        ("conversions", conversions.into()),
        ("revenue", group.revenue.as_deref().map(plain).into()),
    ])
}

/// Amounts of several currencies as a value for programs.
fn plain(sums: &[Revenue]) -> String {
    draw::amounts(sums).replace(',', "")
}
