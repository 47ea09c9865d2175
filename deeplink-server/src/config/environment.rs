//! The environment variables as a value, so that tests can replace them.

use std::collections::BTreeMap;
use std::ffi::OsString;

use clap::CommandFactory;

use super::BadSetting;
use super::settings::Bare;
use super::x402;

const PREFIX: &str = "DEEPLINK_";
/// Variables that can hold a secret: they have no flag but a `_FILE` variant.
const SECRETS: [&str; 8] = [
    "DEEPLINK_DATABASE_URL",
    "DEEPLINK_MASTER_KEY",
    "DEEPLINK_SMTP_URL",
    "DEEPLINK_OAUTH_GOOGLE_CLIENT_SECRET",
    "DEEPLINK_OAUTH_GITHUB_CLIENT_SECRET",
    "DEEPLINK_STRIPE_SECRET_KEY",
    "DEEPLINK_STRIPE_WEBHOOK_SECRET",
    "DEEPLINK_X402_FACILITATOR_TOKEN",
];

/// The `DEEPLINK_` variables of a process, read once.
#[derive(Clone, Default)]
pub struct Environment(BTreeMap<String, String>);

impl std::fmt::Debug for Environment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl Environment {
    /// This process's variables. Fails if one of ours is not UTF-8.
    #[expect(clippy::disallowed_methods, reason = "this is the one place that reads the environment")]
    pub fn of_process() -> Result<Self, BadSetting> {
        Self::of(std::env::vars_os())
    }

    /// The given variables, for tests. Keeps non-empty `DEEPLINK_` variables only.
    pub fn of(variables: impl IntoIterator<Item = (OsString, OsString)>) -> Result<Self, BadSetting> {
        let ours = variables.into_iter().filter_map(|(name, value)| {
            let name = name.into_string().ok().filter(|name| name.starts_with(PREFIX))?;
            (!value.is_empty()).then_some((name, value))
        });
        let kept = ours.map(|(name, value)| match value.into_string() {
            Ok(value) => Ok((name, value)),
            Err(_) => Err(BadSetting { variable: name, problem: "the value is not UTF-8 text".into() }),
        });
        Ok(Self(kept.collect::<Result<_, _>>()?))
    }

    /// The value of a variable that has no flag.
    pub(super) fn value(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// The value of a secret, from the variable `name` or from the file named by `{name}_FILE`.
    pub(super) fn secret(&self, name: &str) -> Result<Option<String>, BadSetting> {
        let file = format!("{name}_FILE");
        match (self.0.get(name), self.0.get(&file)) {
            (Some(_), Some(_)) => Err(BadSetting {
                variable: name.into(),
                problem: format!("cannot be combined with {file}; set only one of them"),
            }),
            (Some(value), None) => Ok(Some(value.clone())),
            (None, Some(path)) => match std::fs::read_to_string(path) {
                Ok(text) => Ok(Some(text.trim().to_owned()).filter(|text| !text.is_empty())),
                Err(error) => Err(BadSetting { variable: file, problem: format!("cannot read {path}: {error}") }),
            },
            (None, None) => Ok(None),
        }
    }

    /// A warning for each unknown variable, with a suggestion if a known name is similar.
    pub fn unknown(&self) -> Vec<String> {
        let known = known_variables();
        let unknown = self.0.keys().filter(|name| !known.contains(name));
        unknown
            .map(|name| match nearest(name, &known) {
                Some(meant) => format!("unknown environment variable {name} is ignored; did you mean {meant}?"),
                None => format!("unknown environment variable {name} is ignored"),
            })
            .collect()
    }
}

fn known_variables() -> Vec<String> {
    let command = Bare::command();
    let flags = command.get_arguments().filter_map(|arg| Some(arg.get_env()?.to_str()?.to_owned()));
    let flags = flags.chain(x402::price_variables());
    flags.chain(SECRETS.iter().flat_map(|name| [(*name).to_owned(), format!("{name}_FILE")])).collect()
}

/// The known name closest to this one, if it is close enough to be a typo.
fn nearest(name: &str, known: &[String]) -> Option<String> {
    let bare = |name: &str| name.strip_prefix(PREFIX).unwrap_or(name).to_owned();
    let max_distance = (bare(name).len() / 3).max(2);
    let distances = known.iter().map(|other| (edit_distance(&bare(name), &bare(other)), other));
    distances
        .filter(|(distance, _)| *distance <= max_distance)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, other)| other.clone())
}

/// The Levenshtein distance of two texts.
fn edit_distance(from: &str, to: &str) -> usize {
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.bytes().enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        for (cell, b) in row.iter_mut().skip(1).zip(to.bytes()) {
            let above = *cell;
            left = (diagonal + usize::from(a != b)).min(above + 1).min(left + 1);
            diagonal = above;
            *cell = left;
        }
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
    }
    row.last().copied().unwrap_or(0)
}
