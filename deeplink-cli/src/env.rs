//! The environment, read once: every variable `dl` knows, in one module. An empty variable counts as unset.

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;

use deeplink_core::secret::SecretKey;
use deeplink_core::signature::WebhookSecret;
use zeroize::Zeroizing;

use crate::error::{Failure, Outcome};

/// Whether the keyring is used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum KeyringUse {
    /// If there is one.
    #[default]
    Auto,
    /// Never.
    Off,
    /// Always: a key is stored there or nowhere.
    Require,
}

/// The environment.
#[derive(Debug, Default)]
pub(crate) struct Env {
    pub(crate) profile: Option<String>,
    pub(crate) base_url: Option<String>,
    pub(crate) api_key: Option<SecretKey>,
    /// `DL_API_KEY` is set, but empty: the usual sign of a secret that a CI system did not pass.
    pub(crate) api_key_is_empty: bool,
    pub(crate) api_key_file: Option<PathBuf>,
    pub(crate) publishable_key: Option<SecretKey>,
    pub(crate) publishable_key_file: Option<PathBuf>,
    /// One signing secret, or several, a line each.
    pub(crate) webhook_secret: Option<WebhookSecret>,
    pub(crate) webhook_secret_file: Option<PathBuf>,
    pub(crate) output: Option<String>,
    pub(crate) progress: Option<String>,
    pub(crate) no_input: bool,
    pub(crate) timeout: Option<String>,
    pub(crate) retries: Option<String>,
    pub(crate) config_dir: Option<PathBuf>,
    pub(crate) state_dir: Option<PathBuf>,
    pub(crate) keyring: KeyringUse,
    /// This runs on a build server.
    pub(crate) ci: bool,
    /// Linux reaches a keyring over this bus.
    pub(crate) session_bus: bool,
    pub(crate) runtime_dir: Option<PathBuf>,
    pub(crate) no_color: bool,
    pub(crate) clicolor_force: bool,
    pub(crate) dumb_terminal: bool,
    pub(crate) unknown_terminal: bool,
    /// The locale says that text is UTF-8.
    pub(crate) utf8: bool,
}

impl Env {
    /// Reads the environment of this process.
    #[expect(clippy::disallowed_methods, reason = "this is where dl reads its environment")]
    pub(crate) fn read() -> Outcome<Self> {
        Self::from(|name| env::var_os(name))
    }

    /// The variables that decide the format of an error, when the rest of the environment may be invalid.
    #[expect(clippy::disallowed_methods, reason = "this is where dl reads its environment")]
    pub(crate) fn for_errors() -> Self {
        Self { output: env::var("DL_OUTPUT").ok(), no_color: true, ..Self::default() }
    }

    /// Why the keyring must not be used, if so.
    pub(crate) fn without_keyring(&self) -> Option<&'static str> {
        let has_bus = || self.session_bus || self.runtime_dir.as_ref().is_some_and(|dir| dir.join("bus").exists());
        match self.keyring {
            KeyringUse::Off => Some("DL_KEYRING is off"),
            _ if self.ci => Some("CI is true"),
            _ if cfg!(target_os = "linux") && !has_bus() => Some("no session bus"),
            _ => None,
        }
    }

    fn from(var: impl Fn(&str) -> Option<OsString>) -> Outcome<Self> {
        let set = |name: &str| var(name).filter(|value| !value.is_empty());
        let text = |name: &str| -> Outcome<Option<String>> {
            let read = set(name).map(OsString::into_string).transpose();
            read.map_err(|_| Failure::usage(format!("{name} is not UTF-8 text")).into())
        };
        let path = |name: &str| set(name).map(PathBuf::from);
        let key = |name: &str| -> Outcome<Option<SecretKey>> {
            Ok(text(name)?.map(|key| SecretKey::new(Zeroizing::new(key).as_str())))
        };
        Ok(Self {
            profile: text("DL_PROFILE")?,
            base_url: text("DL_BASE_URL")?,
            api_key: key("DL_API_KEY")?,
            api_key_is_empty: var("DL_API_KEY").is_some_and(|value| value.is_empty()),
            api_key_file: path("DL_API_KEY_FILE"),
            publishable_key: key("DL_PUBLISHABLE_KEY")?,
            publishable_key_file: path("DL_PUBLISHABLE_KEY_FILE"),
            webhook_secret: text("DL_WEBHOOK_SECRET")?.map(WebhookSecret::new),
            webhook_secret_file: path("DL_WEBHOOK_SECRET_FILE"),
            output: text("DL_OUTPUT")?,
            progress: text("DL_PROGRESS")?,
            no_input: boolean("DL_NO_INPUT", text("DL_NO_INPUT")?.as_deref())?.unwrap_or(false),
            timeout: text("DL_TIMEOUT")?,
            retries: text("DL_RETRIES")?,
            config_dir: path("DL_CONFIG_DIR"),
            state_dir: path("DL_STATE_DIR"),
            keyring: match text("DL_KEYRING")?.as_deref() {
                None | Some("auto") => KeyringUse::Auto,
                Some("off") => KeyringUse::Off,
                Some("require") => KeyringUse::Require,
                Some(_) => return Err(Failure::usage("DL_KEYRING must be one of auto, off, require").into()),
            },
            ci: set("CI").is_some_and(|value| value == "true" || value == "1"),
            session_bus: set("DBUS_SESSION_BUS_ADDRESS").is_some(),
            runtime_dir: path("XDG_RUNTIME_DIR"),
            // no-color.org: any value but the empty one counts.
            no_color: set("NO_COLOR").is_some(),
            clicolor_force: set("CLICOLOR_FORCE").is_some_and(|value| value != "0"),
            dumb_terminal: set("TERM").is_some_and(|value| value == "dumb"),
            unknown_terminal: set("TERM").is_none(),
            // In POSIX precedence. Windows has no such variables, and its terminals show all of Unicode.
            utf8: match ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(set) {
                Some(locale) => names_utf8(&locale.to_string_lossy()),
                None => cfg!(windows),
            },
        })
    }
}

/// The date that what is generated has instead of the current one, in seconds since 1970 (reproducible-builds.org).
#[expect(clippy::disallowed_methods, reason = "this is where dl reads its environment")]
pub(crate) fn source_date() -> Option<i64> {
    env::var("SOURCE_DATE_EPOCH").ok()?.parse().ok()
}

/// Whether the name of a locale, such as `de_CH.UTF-8@euro`, has UTF-8 as its encoding.
fn names_utf8(locale: &str) -> bool {
    let encoding = locale.split('.').nth(1).unwrap_or_default().split('@').next().unwrap_or_default();
    matches!(encoding.to_ascii_lowercase().as_str(), "utf-8" | "utf8")
}

fn boolean(name: &str, text: Option<&str>) -> Outcome<Option<bool>> {
    match text {
        None => Ok(None),
        Some("1" | "true" | "yes") => Ok(Some(true)),
        Some("0" | "false" | "no") => Ok(Some(false)),
        Some(_) => Err(Failure::usage(format!("{name} is not a boolean"))
            .hint("use 1, true or yes; 0, false or no; or leave it empty")
            .into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Stop;

    fn env(pairs: &[(&str, &str)]) -> Outcome<Env> {
        Env::from(|name| pairs.iter().find(|(n, _)| *n == name).map(|(_, value)| OsString::from(value)))
    }

    #[test]
    fn booleans_have_three_words_each() {
        for (text, value) in
            [("1", true), ("true", true), ("yes", true), ("0", false), ("false", false), ("no", false), ("", false)]
        {
            assert_eq!(env(&[("DL_NO_INPUT", text)]).expect("a boolean").no_input, value, "{text}");
        }
        for text in ["on", "TRUE", "2", " "] {
            let Err(Stop::Failed(failure)) = env(&[("DL_NO_INPUT", text)]) else { panic!("{text} was taken") };
            assert_eq!(failure.exit, crate::exit::Exit::Usage);
        }
    }

    #[test]
    fn an_empty_variable_is_unset_and_an_empty_key_is_remembered() {
        let empty = env(&[("DL_API_KEY", ""), ("DL_OUTPUT", ""), ("NO_COLOR", "")]).expect("an environment");
        assert!(empty.api_key.is_none() && empty.api_key_is_empty && empty.output.is_none() && !empty.no_color);
        assert!(!env(&[]).expect("an environment").api_key_is_empty);
    }

    #[test]
    fn the_keyring_is_left_alone_where_it_cannot_be() {
        let bus = ("DBUS_SESSION_BUS_ADDRESS", "unix:path=/run/user/1000/bus");
        let linux = cfg!(target_os = "linux").then_some("no session bus");
        for (pairs, why) in [
            (&[][..], linux),
            (&[("XDG_RUNTIME_DIR", "/nowhere")], linux),
            (&[bus], None),
            (&[bus, ("DL_KEYRING", "auto"), ("CI", "false")], None),
            (&[bus, ("DL_KEYRING", "require")], None),
            (&[bus, ("DL_KEYRING", "off")], Some("DL_KEYRING is off")),
            (&[bus, ("CI", "true")], Some("CI is true")),
            (&[bus, ("CI", "true"), ("DL_KEYRING", "require")], Some("CI is true")),
        ] {
            assert_eq!(env(pairs).expect("an environment").without_keyring(), why, "{pairs:?}");
        }
        assert!(env(&[("DL_KEYRING", "maybe")]).is_err());
    }

    #[test]
    fn the_first_variable_that_is_set_names_the_locale() {
        for (pairs, utf8) in [
            (&[("LANG", "en_US.UTF-8")][..], true),
            (&[("LANG", "C.utf8")], true),
            (&[("LANG", "de_CH.UTF-8@euro")], true),
            (&[("LC_ALL", "C"), ("LANG", "en_US.UTF-8")], false),
            (&[("LC_ALL", ""), ("LC_CTYPE", "C.UTF-8"), ("LANG", "C")], true),
            (&[("LANG", "de_DE.ISO-8859-1")], false),
            (&[("LANG", "utf8")], false),
            (&[], cfg!(windows)),
        ] {
            assert_eq!(env(pairs).expect("an environment").utf8, utf8, "{pairs:?}");
        }
    }

    #[test]
    fn a_key_does_not_show_in_debug() {
        let key = format!("dl_live_{}", "3f".repeat(24));
        let shown = format!("{:?}", env(&[("DL_API_KEY", &key)]).expect("an environment"));
        assert!(!shown.contains(&key[20..]), "{shown}");
    }
}
