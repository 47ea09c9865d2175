//! The rules of the funnel in their simplest form: lists of all events, and each count by a pass over all of them. It
//! knows nothing of how the service stores or queries its data.

use std::collections::{BTreeMap, BTreeSet};

use deeplink_core::funnel::{ConversionSum, Credit, Funnel, FunnelGroup, GroupBy, LinkStats, Revenue};
use deeplink_core::time::Timestamp;

use super::events::{AGENTS, Ask, Event, LINKS, REFERERS, country};

/// A tenant's history, in the order of arrival.
#[derive(Debug, Default)]
pub(super) struct Truth {
    clicks: Vec<Click>,
    touches: Vec<Touch>,
    /// In the order of their creation.
    installs: Vec<Install>,
    conversions: Vec<Conversion>,
    keys: BTreeSet<usize>,
}

#[derive(Debug)]
struct Click {
    at: i64,
    link: usize,
    agent: usize,
    referer: Option<usize>,
    reported: bool,
}

impl Click {
    /// Reported clicks are by people.
    fn kind(&self) -> &'static str {
        if self.reported { "human" } else { AGENTS[self.agent].1 }
    }
}

#[derive(Debug, Clone, Copy)]
struct Touch {
    at: i64,
    link: usize,
    install: usize,
}

#[derive(Debug)]
struct Install {
    name: usize,
    model: Option<usize>,
    bound: Option<Bound>,
}

#[derive(Debug, Clone, Copy)]
struct Bound {
    user: usize,
    at: i64,
    how: Binding,
    /// The tenant's number of touches at that time.
    touches: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Binding {
    Identified,
    Reinstalled,
    NewDevice,
}

#[derive(Debug)]
struct Conversion {
    at: i64,
    user: usize,
    kind: usize,
    cents: Option<i64>,
}

/// The expected outcome of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    Done,
    Conflict,
    Accepted,
    Deduped,
    Unattributed,
}

/// Whose links and times count.
#[derive(Clone, Copy)]
struct Window<'a> {
    links: &'a [usize],
    from: i64,
    to: i64,
    credit: &'a Credit,
}

impl Window<'_> {
    fn holds(&self, at: i64) -> bool {
        self.from <= at && at <= self.to
    }

    /// Whether the links are credited for a chain of touches.
    fn credits(&self, chain: &[usize]) -> bool {
        let is_ours = |link: &usize| self.links.contains(link);
        match self.credit {
            Credit::FirstTouch => chain.first().is_some_and(is_ours),
            Credit::Touched => chain.iter().any(is_ours),
            _ => chain.last().is_some_and(is_ours),
        }
    }
}

/// The name of a type of conversion.
pub(super) fn kind_name(kind: usize) -> String {
    ["buy, now", "see"][kind].to_owned()
}

/// The currency that a user pays in.
pub(super) fn currency(user: usize) -> &'static str {
    ["EUR", "JPY"][user % 2]
}

fn by_type(conversions: &[&Conversion]) -> BTreeMap<String, i64> {
    let mut types = BTreeMap::new();
    for conversion in conversions {
        *types.entry(kind_name(conversion.kind)).or_insert(0) += 1;
    }
    types
}

fn revenue(conversions: &[&Conversion]) -> Vec<Revenue> {
    let mut sums: BTreeMap<&str, i64> = BTreeMap::new();
    for (user, cents) in conversions.iter().filter_map(|of| Some((of.user, of.cents?))) {
        *sums.entry(currency(user)).or_insert(0) += cents;
    }
    sums.into_iter().map(|(currency, cents)| Revenue::new(currency.to_owned(), cents)).collect()
}

impl Truth {
    pub(super) fn clicks(&self) -> usize {
        self.clicks.len()
    }

    /// Applies an event.
    pub(super) fn add(&mut self, now: i64, event: &Event) -> Outcome {
        match *event {
            Event::Click { link, agent, referer, reported } => {
                self.clicks.push(Click { at: now, link, agent, referer, reported });
                Outcome::Done
            }
            Event::Touch { link, install, model } => {
                let install = self.install(install);
                self.installs[install].model = model.or(self.installs[install].model);
                self.touches.push(Touch { at: now, link, install });
                Outcome::Done
            }
            Event::Identify { install, user } => {
                let install = self.install(install);
                match self.installs[install].bound {
                    Some(bound) if bound.user != user => return Outcome::Conflict,
                    Some(_) => return Outcome::Done,
                    None => {}
                }
                let how = self.binding(install, user);
                self.installs[install].bound = Some(Bound { user, at: now, how, touches: self.touches.len() });
                Outcome::Done
            }
            Event::Convert { user, kind, key, after, cents } => {
                if key.is_some_and(|key| !self.keys.insert(key)) {
                    return Outcome::Deduped;
                }
                // A time in the future counts as now.
                self.conversions.push(Conversion { at: now + after.unwrap_or(0).min(0), user, kind, cents });
                let known = self.installs.iter().any(|install| install.bound.is_some_and(|bound| bound.user == user));
                if known { Outcome::Accepted } else { Outcome::Unattributed }
            }
        }
    }

    fn install(&mut self, name: usize) -> usize {
        self.installs.iter().position(|install| install.name == name).unwrap_or_else(|| {
            self.installs.push(Install { name, model: None, bound: None });
            self.installs.len() - 1
        })
    }

    fn binding(&self, install: usize, user: usize) -> Binding {
        let others = || self.installs.iter().filter(|other| other.bound.is_some_and(|bound| bound.user == user));
        let models: Vec<usize> = others().filter_map(|other| other.model).collect();
        if others().next().is_none() {
            return Binding::Identified;
        }
        match self.installs[install].model {
            Some(model) if !models.is_empty() && !models.contains(&model) => Binding::NewDevice,
            _ => Binding::Reinstalled,
        }
    }

    /// Links of an install's first touches, in the order of arrival.
    fn chain(&self, install: usize, touches: usize) -> Vec<usize> {
        self.touches[..touches].iter().filter(|touch| touch.install == install).map(|touch| touch.link).collect()
    }

    /// Links of the touches of all installs of a user up to a moment, by the clock.
    fn chain_of(&self, user: usize, until: i64) -> Vec<usize> {
        let is_of_user = |install: usize| self.installs[install].bound.is_some_and(|bound| bound.user == user);
        let mut touches: Vec<&Touch> =
            self.touches.iter().filter(|touch| touch.at <= until && is_of_user(touch.install)).collect();
        // Stable, so that simultaneous touches of one install stay in the order of arrival.
        touches.sort_by_key(|touch| (touch.at, touch.install));
        touches.into_iter().map(|touch| touch.link).collect()
    }

    fn funnel(&self, window: &Window<'_>) -> Funnel {
        let mut funnel = Funnel::default();
        let people = self.clicks.iter().filter(|click| matches!(click.kind(), "human" | "agent"));
        funnel.clicks = count(people.filter(|click| window.links.contains(&click.link) && window.holds(click.at)));
        let (mut installed, mut engaged) = (BTreeSet::new(), BTreeSet::new());
        for (nth, touch) in self.touches.iter().enumerate() {
            let chain = self.chain(touch.install, nth + 1);
            if !window.holds(touch.at) || !window.credits(&chain) {
                continue;
            }
            if chain.len() == 1 {
                installed.insert(touch.install);
            } else if window.links.contains(&touch.link) {
                engaged.insert(touch.install);
            }
        }
        (funnel.new_users.installed, funnel.returning_users.engaged) = (count(&installed), count(&engaged));
        let bound = self.installs.iter().enumerate().filter_map(|(nth, install)| Some((nth, install.bound?)));
        let bound: Vec<Binding> = bound
            .filter(|(nth, bound)| window.holds(bound.at) && window.credits(&self.chain(*nth, bound.touches)))
            .map(|(_, bound)| bound.how)
            .collect();
        let of = |how: Binding| count(bound.iter().filter(|other| **other == how));
        funnel.new_users.identified = of(Binding::Identified);
        funnel.returning_users.reinstalled = of(Binding::Reinstalled);
        funnel.returning_users.new_device = of(Binding::NewDevice);
        let conversions: Vec<_> = self.credited(window).collect();
        (funnel.conversions, funnel.revenue) = (by_type(&conversions), revenue(&conversions));
        funnel
    }

    fn credited<'a>(&'a self, window: &'a Window<'_>) -> impl Iterator<Item = &'a Conversion> {
        self.conversions
            .iter()
            .filter(|conv| window.holds(conv.at) && window.credits(&self.chain_of(conv.user, conv.at)))
    }

    /// Conversions by known users whom no link touched before, by type, and their revenue.
    pub(super) fn unattributed(&self, ask: &Ask) -> (BTreeMap<String, i64>, Vec<Revenue>) {
        let is_known =
            |user: usize| self.installs.iter().any(|install| install.bound.is_some_and(|of| of.user == user));
        let is_alone = |of: &&Conversion| {
            let is_in = ask.from <= of.at && of.at <= ask.to;
            is_in && is_known(of.user) && self.chain_of(of.user, of.at).is_empty()
        };
        let alone: Vec<_> = self.conversions.iter().filter(is_alone).collect();
        (by_type(&alone), revenue(&alone))
    }

    /// The report for a query; `name` gives a link's id.
    pub(super) fn report(&self, ask: &Ask, name: impl Fn(usize) -> String) -> (Funnel, Option<Vec<FunnelGroup>>) {
        let Ask { links, from, to, credit, group_by, tz } = ask;
        let whole = Window { links, from: *from, to: *to, credit };
        let groups = group_by.as_ref().map(|by| match (by, by.millis()) {
            (GroupBy::Day, _) if tz.is_some() => self.days_of(tz.unwrap_or_default(), &whole),
            (_, Some(width)) => {
                let starts = (from - from.rem_euclid(width)..=*to).step_by(usize::try_from(width).expect("a width"));
                let group = |start: i64| {
                    let funnel = self.funnel(&Window {
                        links,
                        from: *from.max(&start),
                        to: *to.min(&(start + width - 1)),
                        credit,
                    });
                    let moment = Timestamp::from_millis(start).to_string();
                    FunnelGroup::whole(if *by == GroupBy::Day { &moment[..10] } else { &moment }, funnel)
                };
                starts.map(group).collect()
            }
            (GroupBy::Link, _) => {
                let group = |link: &usize| self.funnel(&Window { links: std::slice::from_ref(link), ..whole });
                links.iter().map(|link| FunnelGroup::whole(name(*link), group(link))).collect()
            }
            _ => self.click_groups(by, &whole),
        });
        (self.funnel(&whole), groups)
    }

    /// Days of a zone. An hour of clicks is a whole: it counts for the day in which it begins, or for the first.
    fn days_of(&self, zone: &str, window: &Window<'_>) -> Vec<FunnelGroup> {
        let zoned = |at: i64| jiff::Timestamp::from_millisecond(at).expect("a time").in_tz(zone).expect("a zone");
        let (mut groups, mut at) = (Vec::new(), window.from);
        while at <= window.to {
            let next = zoned(at).tomorrow().and_then(|next| next.start_of_day()).expect("a day");
            let next = next.timestamp().as_millisecond();
            let mut funnel = self.funnel(&Window { from: at, to: window.to.min(next - 1), ..*window });
            let day = zoned(at).date();
            let is_in = |click: &&Click| {
                let hour = (click.at - click.at % 3_600_000).max(window.from);
                matches!(click.kind(), "human" | "agent") && window.holds(click.at) && zoned(hour).date() == day
            };
            let clicks = self.clicks.iter().filter(is_in);
            funnel.clicks = count(clicks.filter(|click| window.links.contains(&click.link)));
            groups.push(FunnelGroup::whole(day.to_string(), funnel));
            at = next;
        }
        groups
    }

    fn click_groups(&self, by: &GroupBy, window: &Window<'_>) -> Vec<FunnelGroup> {
        let mut groups: BTreeMap<String, i64> = BTreeMap::new();
        for click in self.clicks.iter().filter(|click| window.links.contains(&click.link) && window.holds(click.at)) {
            let (kind, platform) = (click.kind(), AGENTS[click.agent].2);
            let key = match by {
                GroupBy::Kind => kind,
                _ if !matches!(kind, "human" | "agent") => continue,
                GroupBy::Platform => platform,
                GroupBy::Country => country(click.link, click.agent).1,
                // A program that a page reports is a person's; one that visits is an agent.
                GroupBy::Browser | GroupBy::Os | GroupBy::Device | GroupBy::InApp if kind == "agent" => "unknown",
                GroupBy::Browser => AGENTS[click.agent].3[0],
                GroupBy::Os => AGENTS[click.agent].3[1],
                GroupBy::Device => AGENTS[click.agent].3[2],
                GroupBy::InApp => AGENTS[click.agent].3[3],
                _ => click.referer.map_or("", |referer| REFERERS[referer].1),
            };
            *groups.entry(key.to_owned()).or_insert(0) += 1;
        }
        let mut groups: Vec<_> = groups.into_iter().collect();
        groups.sort_by_key(|(key, clicks)| (-clicks, key.clone()));
        groups.into_iter().map(|(key, clicks)| FunnelGroup::of_clicks(key, clicks)).collect()
    }

    /// All results of a link.
    pub(super) fn stats(&self, link: usize, name: String) -> LinkStats {
        debug_assert!(link < LINKS, "it is there");
        let ever = Window { links: &[link], from: i64::MIN, to: i64::MAX, credit: &Credit::LastTouch };
        let funnel = self.funnel(&ever);
        let mut sums: BTreeMap<(String, Option<String>), (i64, Option<i64>)> = BTreeMap::new();
        for conversion in self.credited(&ever) {
            let currency = conversion.cents.map(|_| currency(conversion.user).to_owned());
            let sum = sums.entry((kind_name(conversion.kind), currency)).or_default();
            *sum = (sum.0 + 1, conversion.cents.map(|cents| sum.1.unwrap_or(0) + cents));
        }
        let sums =
            sums.into_iter().map(|((kind, currency), (count, cents))| ConversionSum::new(kind, count, cents, currency));
        let bound =
            funnel.new_users.identified + funnel.returning_users.reinstalled + funnel.returning_users.new_device;
        LinkStats::new(name, (funnel.clicks, funnel.new_users.installed, bound), sums.collect())
    }
}

fn count(things: impl IntoIterator) -> i64 {
    i64::try_from(things.into_iter().count()).expect("few")
}
