//! The environment as a value: read once, handed on, and so replaceable in tests.

use std::collections::BTreeMap;
use std::ffi::OsString;

use clap::CommandFactory;

use super::{BadSetting, Bare};

const PREFIX: &str = "DEEPLINK_";
/// Variables that can hold a secret: no flag, but a `_FILE` form.
const SECRETS: [&str; 5] = [
    "DEEPLINK_DATABASE_URL",
    "DEEPLINK_MASTER_KEY",
    "DEEPLINK_SMTP_URL",
    "DEEPLINK_OAUTH_GOOGLE_CLIENT_SECRET",
    "DEEPLINK_OAUTH_GITHUB_CLIENT_SECRET",
];

/// The variables of a process, taken once.
#[derive(Clone, Default)]
pub struct Environment(BTreeMap<String, String>);

impl std::fmt::Debug for Environment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl Environment {
    /// This process's variables. Fails on a variable of ours that is not text.
    #[expect(clippy::disallowed_methods, reason = "this is the one place that reads the environment")]
    pub fn of_process() -> Result<Self, BadSetting> {
        Self::of(std::env::vars_os())
    }

    /// Variables from elsewhere: for tests. Only ours are kept, and of these only the ones with a value.
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

    /// The value of a secret, from the variable or from the file that `X_FILE` names.
    pub(super) fn secret(&self, name: &str) -> Result<Option<String>, BadSetting> {
        let file = format!("{name}_FILE");
        match (self.0.get(name), self.0.get(&file)) {
            (Some(_), Some(_)) => {
                Err(BadSetting { variable: name.into(), problem: format!("is set, and so is {file}: set one of them") })
            }
            (Some(value), None) => Ok(Some(value.clone())),
            (None, Some(path)) => match std::fs::read_to_string(path) {
                Ok(text) => Ok(Some(text.trim().to_owned()).filter(|text| !text.is_empty())),
                Err(error) => Err(BadSetting { variable: file, problem: format!("cannot read {path}: {error}") }),
            },
            (None, None) => Ok(None),
        }
    }

    /// A sentence for each variable that this version does not know, with the name that was probably meant.
    pub fn unknown(&self) -> Vec<String> {
        let known = known_variables();
        let unknown = self.0.keys().filter(|name| !known.contains(name));
        unknown
            .map(|name| match nearest(name, &known) {
                Some(meant) => format!("{name} is not known and has no effect; did you mean {meant}?"),
                None => format!("{name} is not known to this version and has no effect"),
            })
            .collect()
    }
}

fn known_variables() -> Vec<String> {
    let command = Bare::command();
    let flags = command.get_arguments().filter_map(|arg| Some(arg.get_env()?.to_str()?.to_owned()));
    flags.chain(SECRETS.iter().flat_map(|name| [(*name).to_owned(), format!("{name}_FILE")])).collect()
}

/// The known name that differs from this one by few enough letters to be a slip.
fn nearest(name: &str, known: &[String]) -> Option<String> {
    let bare = |name: &str| name.strip_prefix(PREFIX).unwrap_or(name).to_owned();
    let most = (bare(name).len() / 3).max(2);
    let distances = known.iter().map(|other| (letters_apart(&bare(name), &bare(other)), other));
    distances.filter(|(apart, _)| *apart <= most).min_by_key(|(apart, _)| *apart).map(|(_, other)| other.clone())
}

/// How many letters must be put in, taken out or exchanged to get from one text to the other.
fn letters_apart(from: &str, to: &str) -> usize {
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.bytes().enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        for (place, b) in row.iter_mut().skip(1).zip(to.bytes()) {
            let above = *place;
            left = (diagonal + usize::from(a != b)).min(above + 1).min(left + 1);
            diagonal = above;
            *place = left;
        }
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
    }
    row.last().copied().unwrap_or(0)
}
