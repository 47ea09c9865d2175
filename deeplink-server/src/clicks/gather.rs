//! Clicks grouped as they reach the log, so that on SQLite a fold need not read them again.
//!
//! The log stays the truth: what is gathered is a shortcut past reading it, for a segment of positions that one writer
//! filled with nothing between. What is missing here, because others appended or a fold failed, is folded from the log.

use std::collections::VecDeque;

use deeplink_core::visitor::referer_host;
use hashbrown::HashMap;

use super::Click;
use super::queue::lock;
use super::texts::TextRef;
use crate::db::clicks::{Group, Hash};

/// Milliseconds of an hour.
const HOUR: i64 = 3_600_000;
/// Most groups in memory, some 30 MB; what comes beyond stays in the log alone.
const MAX_GROUPS: usize = 1 << 18;

#[derive(Debug, PartialEq, Eq, Hash)]
struct Key {
    link: i64,
    hour: i64,
    kind: u8,
    platform: u8,
    referer: Option<Hash>,
}

#[derive(Debug)]
struct Sum {
    clicks: i64,
    first_position: i64,
    last_position: i64,
    first_at: i64,
    last_at: i64,
    referer: Option<TextRef>,
}

/// A segment of the log.
#[derive(Debug)]
pub(super) struct ClickSegment {
    pub(super) first: i64,
    pub(super) last: i64,
    /// Which append its last one was.
    append: u64,
    sums: HashMap<Key, Sum>,
}

impl ClickSegment {
    fn add(&mut self, position: i64, click: &Click) {
        let Click { link, at, kind, platform, agent: _, referer } = click;
        let key = Key {
            link: *link,
            hour: at - at.rem_euclid(HOUR),
            kind: *kind,
            platform: *platform,
            referer: referer.as_ref().map(|text| text.hash()),
        };
        let sum = self.sums.entry(key).or_insert_with(|| Sum {
            clicks: 0,
            first_position: position,
            last_position: position,
            first_at: *at,
            last_at: *at,
            referer: referer.clone(),
        });
        sum.clicks += 1;
        sum.last_position = position;
        sum.first_at = sum.first_at.min(*at);
        sum.last_at = sum.last_at.max(*at);
        self.last = position;
    }

    pub(super) fn len(&self) -> usize {
        self.sums.len()
    }

    /// The groups, as reading the log would give them.
    pub(super) fn groups(self) -> Vec<Group> {
        let group = |(key, sum): (Key, Sum)| Group {
            link: key.link,
            hour: key.hour,
            kind: key.kind.into(),
            platform: key.platform.into(),
            host: sum.referer.map(|text| referer_host(text.text())).unwrap_or_default(),
            clicks: sum.clicks,
            first_position: sum.first_position,
            last_position: sum.last_position,
            first_at: sum.first_at,
            last_at: sum.last_at,
        };
        self.sums.into_iter().map(group).collect()
    }
}

/// The segments that are not folded yet, oldest first; the last one grows.
#[derive(Debug, Default)]
pub(super) struct Gathered(std::sync::Mutex<VecDeque<ClickSegment>>);

impl Gathered {
    /// Adds clicks that are committed, from position `first` on, with the `append`-th append to the log. A segment ends
    /// when it has `max_groups` groups, or when others appended meanwhile.
    pub(super) fn add(&self, clicks: &[Click], first: i64, append: u64, max_groups: usize) {
        let mut segments = lock(&self.0);
        if segments.iter().map(ClickSegment::len).sum::<usize>() >= MAX_GROUPS {
            return;
        }
        let mut follows = segments.back().is_some_and(|last| last.append + 1 == append);
        for (position, click) in (first..).zip(clicks) {
            let is_full = segments.back().is_some_and(|last| last.len() >= max_groups);
            if !follows || is_full {
                segments.push_back(ClickSegment { first: position, last: position, append, sums: HashMap::new() });
                follows = true;
            }
            if let Some(last) = segments.back_mut() {
                last.append = append;
                last.add(position, click);
            }
        }
    }

    /// How many segments there are.
    pub(super) fn len(&self) -> usize {
        lock(&self.0).len()
    }

    /// Takes the oldest segment; what comes now begins another.
    pub(super) fn take(&self) -> Option<ClickSegment> {
        lock(&self.0).pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn click(link: i64, at: i64) -> Click {
        Click { link, at, kind: 0, platform: 1, agent: None, referer: None }
    }

    #[test]
    fn a_segment_ends_where_others_appended_or_when_it_is_full() {
        let gathered = Gathered::default();
        gathered.add(&[click(1, HOUR), click(2, HOUR), click(1, HOUR + 5)], 10, 1, 3);
        gathered.add(&[click(1, HOUR - 1), click(1, HOUR + 2)], 20, 2, 3);
        // The third group was the first of these.
        gathered.add(&[click(3, HOUR)], 30, 3, 3);
        // The fourth append was somebody else's.
        gathered.add(&[click(3, HOUR)], 50, 5, 3);
        let first = gathered.take().expect("a segment");
        assert_eq!((first.first, first.last, first.len()), (10, 20, 3));
        let mut groups = first.groups();
        groups.sort_by_key(|group| (group.link, group.hour));
        let all: Vec<_> = groups
            .iter()
            .map(|g| (g.link, g.hour, g.clicks, g.first_position, g.last_position, g.first_at, g.last_at))
            .collect();
        assert_eq!(
            all,
            [
                (1, 0, 1, 20, 20, HOUR - 1, HOUR - 1),
                (1, HOUR, 2, 10, 12, HOUR, HOUR + 5),
                (2, HOUR, 1, 11, 11, HOUR, HOUR)
            ]
        );
        let positions: Vec<_> = std::iter::from_fn(|| gathered.take()).map(|one| (one.first, one.last)).collect();
        assert_eq!(positions, [(21, 30), (50, 50)]);
    }
}
