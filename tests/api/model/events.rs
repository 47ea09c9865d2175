//! Random histories: what happens to a tenant, and the queries afterwards.

use deeplink_core::funnel::{Credit, GroupBy};
use deeplink_core::secret::Random;
use deeplink_core::time::Timestamp;

/// The number of links of each tenant.
pub(super) const LINKS: usize = 3;
/// Browsers and programs: the user agent, its kind of click, its platform, and its browser, system, device and app.
pub(super) const AGENTS: [(&str, &str, &str, [&str; 4]); 6] = [
    (
        "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1.15 Version/18.0 Safari/604.1",
        "human",
        "ios",
        ["safari", "ios", "mobile", "none"],
    ),
    (
        "Mozilla/5.0 (Linux; Android 14; Pixel 8; wv) AppleWebKit/537.36 Chrome/141.0 Mobile Safari/537.36 Instagram 400",
        "human",
        "android",
        ["webview", "android", "mobile", "instagram"],
    ),
    (
        "Mozilla/5.0 (X11; Linux x86_64; rv:142.0) Gecko/20100101 Firefox/142.0",
        "human",
        "other",
        ["firefox", "linux", "desktop", "none"],
    ),
    ("curl/8.5.0", "agent", "other", ["unknown", "other", "unknown", "unknown"]),
    ("facebookexternalhit/1.1", "preview", "other", ["unknown", "other", "unknown", "unknown"]),
    ("Mozilla/5.0 (compatible; Googlebot/2.1)", "crawler", "other", ["unknown", "other", "unknown", "unknown"]),
];
/// Referers and their hosts.
pub(super) const REFERERS: [(&str, &str); 3] = [
    ("https://News.example.com/a", "news.example.com"),
    ("https://news.example.com/b", "news.example.com"),
    ("app:x", ""),
];

/// What a proxy says of the visitor's country, and the group.
const COUNTRIES: [(&str, &str); 3] = [("DE", "DE"), ("us", "US"), ("XX", "unknown")];

/// That of visits to a link by one of [`AGENTS`].
pub(super) fn country(link: usize, agent: usize) -> (&'static str, &'static str) {
    COUNTRIES[(link + agent) % COUNTRIES.len()]
}

const MINUTE: i64 = 60_000;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

/// An event in a tenant's history. Names are numbers.
#[derive(Debug, Clone)]
pub(super) enum Event {
    /// A visit by one of [`AGENTS`] from one of [`REFERERS`], or a page's report of a click.
    Click {
        link: usize,
        agent: usize,
        referer: Option<usize>,
        reported: bool,
    },
    /// A link opens an install on a device model.
    Touch {
        link: usize,
        install: usize,
        model: Option<usize>,
    },
    Identify {
        install: usize,
        user: usize,
    },
    /// A conversion, now or this many milliseconds later.
    Convert {
        user: usize,
        kind: usize,
        key: Option<usize>,
        after: Option<i64>,
        cents: Option<i64>,
    },
}

/// Zones that are ahead and behind, off by half an hour or less, and that change their clocks about then, one at midnight.
const ZONES: [&str; 7] = [
    "UTC",
    "America/Los_Angeles",
    "America/St_Johns",
    "Asia/Beirut",
    "Asia/Kathmandu",
    "Europe/Berlin",
    "Pacific/Kiritimati",
];

/// A question.
#[derive(Debug, Clone)]
pub(super) struct Ask {
    /// Which links, in the order asked; [`LINKS`] is one that does not exist.
    pub(super) links: Vec<usize>,
    pub(super) from: i64,
    pub(super) to: i64,
    pub(super) credit: Credit,
    pub(super) group_by: Option<GroupBy>,
    /// Whose days the groups are, if they are days.
    pub(super) tz: Option<&'static str>,
}

impl Ask {
    /// Its parameters, about these links or, without any, the whole account.
    pub(super) fn query<'a>(&self, of: Option<(&'a str, String)>) -> Vec<(&'a str, String)> {
        let [from, to] = [self.from, self.to].map(|at| Timestamp::from_millis(at).to_string());
        let mut query = vec![("from", from), ("to", to), ("credit", self.credit.as_str().to_owned())];
        query.extend(of);
        query.extend(self.group_by.as_ref().map(|by| ("group_by", by.as_str().to_owned())));
        query.extend(self.tz.map(|zone| ("tz", zone.to_owned())));
        query
    }
}

/// What happens to one tenant: each event at a time of the clock.
#[derive(Debug, Clone)]
pub(super) struct History {
    pub(super) events: Vec<(i64, Event)>,
    pub(super) asks: Vec<Ask>,
}

fn below(random: &mut Random, end: usize) -> usize {
    usize::try_from(random.below(end as u64)).expect("a small number")
}

fn up_to(random: &mut Random, end: i64) -> i64 {
    i64::try_from(random.below(u64::try_from(end).expect("a length"))).expect("a length")
}

fn maybe<T>(random: &mut Random, draw: impl FnOnce(&mut Random) -> T) -> Option<T> {
    (random.below(2) == 0).then(|| draw(random))
}

/// Times of the clock, which mostly moves forward but sometimes back, from `begin` on and for less than five days.
pub(super) fn clock(random: &mut Random, begin: i64, rounds: usize) -> Vec<i64> {
    let mut now = begin + up_to(random, DAY);
    let step = |random: &mut Random, now: i64| match random.below(10) {
        0..=1 => now,
        2..=3 => now + up_to(random, 5_000),
        4..=5 => now + up_to(random, 2 * HOUR),
        6..=7 => now + up_to(random, 30 * HOUR),
        8 => now - up_to(random, 2 * HOUR),
        _ => now - up_to(random, 30 * HOUR),
    };
    let mut times = Vec::new();
    for _ in 0..rounds {
        now = step(random, now).clamp(begin, begin + 5 * DAY);
        times.push(now);
    }
    times
}

/// What happens to a tenant at these times, and `asks` questions.
pub(super) fn history(random: &mut Random, times: &[i64], asks: usize) -> History {
    let mut events = Vec::new();
    for &at in times {
        for _ in 0..random.below(4) {
            events.push((at, event(random)));
        }
    }
    let asks = (0..asks).map(|_| ask(random, times)).collect();
    History { events, asks }
}

fn event(random: &mut Random) -> Event {
    match random.below(14) {
        0..=3 => Event::Click {
            link: below(random, LINKS),
            agent: below(random, AGENTS.len()),
            referer: maybe(random, |random| below(random, REFERERS.len())),
            reported: random.below(4) == 0,
        },
        4..=8 => Event::Touch {
            link: below(random, LINKS),
            install: below(random, 4),
            model: maybe(random, |random| below(random, 2)),
        },
        9..=10 => Event::Identify { install: below(random, 4), user: below(random, 2) },
        _ => Event::Convert {
            user: below(random, 2),
            kind: below(random, 2),
            key: maybe(random, |random| below(random, 2)),
            after: match random.below(5) {
                0 => Some(-up_to(random, 3 * DAY)),
                1 => Some(-up_to(random, 3 * HOUR)),
                2 => Some(up_to(random, 5 * MINUTE)),
                _ => None,
            },
            cents: maybe(random, |random| up_to(random, 2_000) - 1_000),
        },
    }
}

fn ask(random: &mut Random, times: &[i64]) -> Ask {
    let mut links: Vec<usize> = (0..=LINKS).filter(|_| random.below(2) == 0).collect();
    if links.is_empty() {
        links.push(below(random, LINKS));
    }
    let (one, other) = (moment(random, times), moment(random, times));
    let group_by = maybe(random, |random| GroupBy::ALL[below(random, GroupBy::ALL.len())].clone());
    let tz = maybe(random, |random| ZONES[below(random, ZONES.len())]).filter(|_| group_by == Some(GroupBy::Day));
    Ask {
        links,
        from: one.min(other),
        to: one.max(other),
        credit: Credit::ALL[below(random, Credit::ALL.len())].clone(),
        group_by,
        tz,
    }
}

/// The end of a window: at or beside a moment at which something may have happened, or an hour or a day began.
fn moment(random: &mut Random, times: &[i64]) -> i64 {
    let at = times[below(random, times.len())];
    match random.below(8) {
        0..=1 => at,
        2 => at - 1,
        3 => at + 1,
        4 => at - at % HOUR + up_to(random, 2) * (HOUR - 1),
        5 => at - at % DAY + up_to(random, 2) * (DAY - 1),
        6 => at - up_to(random, 3 * DAY),
        _ => at + up_to(random, 6 * DAY),
    }
}
