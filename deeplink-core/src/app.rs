//! Apps: their registration and its rules. The files that let links open them are in [`crate::association`].
//!
//! [`CreateApp`] is the wire; a [`NewApp`] can only be made by checking one, so it may be
//! stored and served.

use serde::{Deserialize, Serialize};

use crate::colour::Rgb;
use crate::error::{ErrorCode, Invalid};
use crate::id::AppId;
use crate::text::TextField;
use crate::time::Timestamp;
use crate::url;
use crate::words::{setters, words};

/// Maximum characters of an app's name.
pub const MAX_APP_NAME: usize = 100;
/// Maximum bytes of an iOS bundle ID.
pub const MAX_BUNDLE_ID: usize = 155;
/// Maximum bytes of an Android package name.
pub const MAX_PACKAGE_NAME: usize = 255;
/// Maximum apps of an account on one platform: keeps their association file within 128 KiB.
pub const MAX_APPS: i64 = 50;
/// Maximum signing certificates of one Android app.
pub const MAX_FINGERPRINTS: usize = 20;

words! {
    /// Platform of an app.
    AppPlatform {
        /// iPhone and iPad.
        Ios = "ios",
        /// Android.
        Android = "android",
    }
}

/// The request body to register an app. `platform` is required; iOS also requires `bundle_id` and `team_id`,
/// and Android requires `package_name` and at least one of `sha256_fingerprints`. Fields of the other platform
/// are ignored. Registering the same bundle ID or package name again replaces the app.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(examples(json!({"platform": "ios", "bundle_id": "com.example.app", "team_id": "ABCDE12345"}))))]
#[non_exhaustive]
pub struct CreateApp {
    /// `ios` or `android`, case-insensitive.
    #[cfg_attr(feature = "openapi", schema(required = true, value_type = String))]
    pub platform: Option<String>,
    /// Display name, at most 100 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(max_length = 100))]
    pub app_name: Option<String>,
    /// iOS: the bundle ID, such as `com.example.app`; case is preserved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(max_length = 155))]
    pub bundle_id: Option<String>,
    /// Android: the package name, such as `com.example.app`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(max_length = 255))]
    pub package_name: Option<String>,
    /// iOS: the team ID, 10 uppercase letters and digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(pattern = "^[A-Z0-9]{10}$"))]
    pub team_id: Option<String>,
    /// Android: SHA-256 of each signing certificate, 64 hex digits or 32 pairs separated by `:`; at most 20.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(max_items = 20))]
    pub sha256_fingerprints: Option<Vec<String>>,
    /// An http or https URL of the app's icon, at most 2,048 bytes; pages show only https icons.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(max_length = 2048))]
    pub icon_url: Option<String>,
    /// Color of the primary button: `#` and 3 or 6 hex digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(pattern = "^#[0-9A-Fa-f]{3}([0-9A-Fa-f]{3})?$"))]
    pub theme_color: Option<String>,
}

impl CreateApp {
    /// An iOS app.
    pub fn ios(bundle_id: impl Into<String>, team_id: impl Into<String>) -> Self {
        Self {
            platform: Some(AppPlatform::Ios.as_str().to_owned()),
            bundle_id: Some(bundle_id.into()),
            team_id: Some(team_id.into()),
            ..Self::default()
        }
    }

    /// An Android app.
    pub fn android<F: Into<String>>(
        package_name: impl Into<String>,
        fingerprints: impl IntoIterator<Item = F>,
    ) -> Self {
        Self {
            platform: Some(AppPlatform::Android.as_str().to_owned()),
            package_name: Some(package_name.into()),
            sha256_fingerprints: Some(fingerprints.into_iter().map(Into::into).collect()),
            ..Self::default()
        }
    }

    setters! {
        /// Sets the display name.
        app_name: impl Into<String>,
        /// Sets the URL of the icon.
        icon_url: impl Into<String>,
        /// Sets the color of the primary button.
        theme_color: impl Into<String>,
    }

    /// Runs every rule of the service.
    pub fn validate(&self) -> Result<(), Invalid> {
        self.clone().check().map(drop)
    }

    /// Applies every rule and returns what may be stored.
    pub fn check(self) -> Result<NewApp, Invalid> {
        let platform = AppPlatform::from(self.platform.unwrap_or_default().to_ascii_lowercase().as_str());
        let identity = match platform {
            AppPlatform::Ios => {
                let bundle_id = present(self.bundle_id, "bundle_id", "ios")?;
                let team_id = present(self.team_id, "team_id", "ios")?;
                check_bundle_id(&bundle_id)?;
                check_team_id(&team_id)?;
                Identity::Ios { bundle_id, team_id }
            }
            AppPlatform::Android => {
                let package_name = present(self.package_name, "package_name", "android")?;
                let given = self.sha256_fingerprints.filter(|list| !list.iter().all(|text| text.trim().is_empty()));
                let given = given.ok_or_else(|| missing("sha256_fingerprints", "android"))?;
                check_package_name(&package_name)?;
                Identity::Android { package_name, fingerprints: fingerprints(&given)? }
            }
            AppPlatform::Unknown(_) => {
                return Err(Invalid::field(ErrorCode::InvalidPlatform, "platform", "platform must be ios or android"));
            }
        };
        let name = TextField::line("app_name", MAX_APP_NAME, ErrorCode::InvalidName);
        Ok(NewApp {
            identity,
            app_name: name.optional(self.app_name.as_deref())?,
            icon_url: self.icon_url.map(|text| icon(&text)).transpose()?,
            theme_color: self.theme_color.map(colour).transpose()?,
        })
    }
}

/// The identity of an app, by platform.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Identity {
    /// An iOS app.
    Ios {
        /// The bundle id, case kept.
        bundle_id: String,
        /// 10 uppercase letters and digits.
        team_id: String,
    },
    /// An Android app.
    Android {
        /// The package name.
        package_name: String,
        /// Uppercase hex pairs joined by `:`, in the order given, each once.
        fingerprints: Vec<String>,
    },
}

/// An app that passed every rule.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct NewApp {
    /// Its identity.
    pub identity: Identity,
    /// Display name.
    pub app_name: Option<String>,
    /// URL of the app's icon.
    pub icon_url: Option<String>,
    /// `#` and 3 or 6 hex digits.
    pub theme_color: Option<String>,
}

/// An app. Fields of the other platform are null.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AppDetail {
    /// The app's ID.
    pub id: AppId,
    /// The app's platform.
    pub platform: AppPlatform,
    /// Display name.
    pub app_name: Option<String>,
    /// iOS: the bundle ID.
    pub bundle_id: Option<String>,
    /// Android: the package name.
    pub package_name: Option<String>,
    /// iOS: the team ID.
    pub team_id: Option<String>,
    /// Android: SHA-256 of each signing certificate, uppercase hex pairs separated by `:`.
    pub sha256_fingerprints: Option<Vec<String>>,
    /// URL of the app's icon.
    pub icon_url: Option<String>,
    /// Color of the primary button.
    pub theme_color: Option<String>,
    /// When the app was first registered; replacing the app does not change this.
    pub created_at: Timestamp,
}

impl AppDetail {
    /// The app under this id.
    pub fn new(id: AppId, app: NewApp, created_at: Timestamp) -> Self {
        let (platform, bundle_id, team_id, package_name, sha256_fingerprints) = match app.identity {
            Identity::Ios { bundle_id, team_id } => (AppPlatform::Ios, Some(bundle_id), Some(team_id), None, None),
            Identity::Android { package_name, fingerprints } => {
                (AppPlatform::Android, None, None, Some(package_name), Some(fingerprints))
            }
        };
        Self {
            id,
            platform,
            app_name: app.app_name,
            bundle_id,
            package_name,
            team_id,
            sha256_fingerprints,
            icon_url: app.icon_url,
            theme_color: app.theme_color,
            created_at,
        }
    }
}

fn missing(field: &'static str, platform: &str) -> Invalid {
    Invalid::field(ErrorCode::MissingFields, field, format!("{field} is required for an {platform} app"))
}

fn present(text: Option<String>, field: &'static str, platform: &str) -> Result<String, Invalid> {
    text.filter(|text| !text.trim().is_empty()).ok_or_else(|| missing(field, platform))
}

/// Parts joined by dots, at least two, each of the wanted form.
fn is_dotted(text: &str, part: impl Fn(&str) -> bool) -> bool {
    text.contains('.') && text.split('.').all(part)
}

fn check_bundle_id(text: &str) -> Result<(), Invalid> {
    let part = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    if text.len() <= MAX_BUNDLE_ID && is_dotted(text, part) {
        return Ok(());
    }
    let message = "bundle_id must be letters, digits and hyphens in parts separated by dots, such as com.example.app, at most \
                   155 characters";
    Err(Invalid::field(ErrorCode::InvalidBundleId, "bundle_id", message))
}

fn check_team_id(text: &str) -> Result<(), Invalid> {
    if text.len() == 10 && text.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit()) {
        return Ok(());
    }
    let message = "team_id must be 10 uppercase letters and digits, such as ABCDE12345";
    Err(Invalid::field(ErrorCode::InvalidTeamId, "team_id", message))
}

/// Whether a text is the name of an Android package.
pub fn is_package_name(text: &str) -> bool {
    let part = |part: &str| {
        part.starts_with(|c: char| c.is_ascii_alphabetic())
            && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
    };
    text.len() <= MAX_PACKAGE_NAME && is_dotted(text, part)
}

fn check_package_name(text: &str) -> Result<(), Invalid> {
    if is_package_name(text) {
        return Ok(());
    }
    let message = "package_name must be letters, digits and underscores in parts separated by dots, each starting with a \
                   letter, such as com.example.app, at most 255 characters";
    Err(Invalid::field(ErrorCode::InvalidPackageName, "package_name", message))
}

/// Fingerprints in one spelling, each once.
fn fingerprints(given: &[String]) -> Result<Vec<String>, Invalid> {
    let mut all: Vec<String> = Vec::new();
    for text in given {
        let one = fingerprint(text)
            .map_err(|why| Invalid::field(ErrorCode::InvalidFingerprint, "sha256_fingerprints", why))?;
        if !all.contains(&one) {
            all.push(one);
        }
    }
    if all.len() > MAX_FINGERPRINTS {
        let message = format!(
            "sha256_fingerprints must contain at most {MAX_FINGERPRINTS} fingerprints (currently {})",
            all.len()
        );
        return Err(Invalid::field(ErrorCode::InvalidFingerprint, "sha256_fingerprints", message));
    }
    Ok(all)
}

/// The SHA-256 of a signing certificate as uppercase hex pairs joined by `:`, from that form or from 64 plain digits, in
/// either case. The error says what was given instead, where that is known.
pub fn fingerprint(text: &str) -> Result<String, &'static str> {
    let label = text.trim_start().get(..4).unwrap_or_default();
    if label.eq_ignore_ascii_case("sha2") || label.eq_ignore_ascii_case("sha-") {
        return Err("enter only the hex digits, without the label before them");
    }
    if text.trim().contains(char::is_whitespace) {
        return Err("a fingerprint must not contain spaces or line breaks; enter several as separate values");
    }
    let pairs: Vec<&str> = text.split(':').collect();
    let digits: String = match pairs.len() {
        1 => text.to_owned(),
        _ if pairs.iter().all(|pair| pair.len() == 2) => pairs.concat(),
        _ => return Err("a fingerprint must be 64 hex digits, or 32 pairs of hex digits separated by ':'"),
    };
    match (digits.bytes().all(|b| b.is_ascii_hexdigit()), digits.len()) {
        (true, 64) => {
            let upper = digits.to_ascii_uppercase();
            let pairs = upper.as_bytes().chunks(2).map(String::from_utf8_lossy);
            Ok(pairs.collect::<Vec<_>>().join(":"))
        }
        (true, 40) => Err("this is a SHA-1 fingerprint (20 bytes); Android verifies links with SHA-256 (32 bytes)"),
        (true, _) => Err("a fingerprint must be 32 bytes: 64 hex digits, or 32 pairs separated by ':'"),
        (false, 43 | 44) => Err("a fingerprint must be in hex, not in base64"),
        (false, _) => Err("a fingerprint must be 64 hex digits, or 32 pairs of hex digits separated by ':'"),
    }
}

pub(crate) fn icon(text: &str) -> Result<String, Invalid> {
    url::web(text).map_err(|why| Invalid::field(ErrorCode::InvalidIconUrl, "icon_url", format!("icon_url: {why}")))
}

pub(crate) fn colour(text: String) -> Result<String, Invalid> {
    if Rgb::parse(&text).is_some() {
        return Ok(text);
    }
    let message = "theme_color must be '#' followed by 3 or 6 hex digits, such as #0a7cff";
    Err(Invalid::field(ErrorCode::InvalidThemeColor, "theme_color", message))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRINT: &str =
        "14:6D:E9:83:C5:73:06:50:D8:EE:B9:95:2F:34:FC:64:16:A0:83:42:E6:1D:BE:A8:8A:04:96:B2:3F:CF:44:E5";

    fn refusal(json: &str) -> String {
        let app: CreateApp = serde_json::from_str(json).expect("an app");
        match app.check() {
            Ok(app) => format!("{app:?}"),
            Err(invalid) => format!("{} {}", invalid.code, invalid.field.unwrap_or_default()),
        }
    }

    #[test]
    fn each_rule_has_its_code_and_field_in_the_order_of_the_table() {
        let ios =
            |rest: &str| format!(r#"{{"platform":"ios","bundle_id":"com.example.app","team_id":"ABCDE12345"{rest}}}"#);
        let with_bundle = |id: &str| format!(r#"{{"platform":"ios","bundle_id":"{id}","team_id":"ABCDE12345"}}"#);
        let with_team = |id: &str| format!(r#"{{"platform":"ios","bundle_id":"com.example.app","team_id":"{id}"}}"#);
        let with_package =
            |id: &str| format!(r#"{{"platform":"android","package_name":"{id}","sha256_fingerprints":["{PRINT}"]}}"#);
        let with_prints = |list: &str| {
            format!(r#"{{"platform":"android","package_name":"com.example.app","sha256_fingerprints":{list}}}"#)
        };
        let long = |part: &str, times| format!("a.{}", part.repeat(times));
        let many: Vec<String> = (0..21).map(|n| format!("{n:064x}")).collect();
        for (json, expected) in [
            ("{}".to_owned(), "invalid_platform platform"),
            (r#"{"platform":"windows","bundle_id":""}"#.into(), "invalid_platform platform"),
            (r#"{"platform":" ios"}"#.into(), "invalid_platform platform"),
            (r#"{"platform":"ios"}"#.into(), "missing_fields bundle_id"),
            (r#"{"platform":"ios","bundle_id":" ","team_id":"x"}"#.into(), "missing_fields bundle_id"),
            (r#"{"platform":"ios","bundle_id":"no dots","team_id":null}"#.into(), "missing_fields team_id"),
            (r#"{"platform":"android","sha256_fingerprints":["x"]}"#.into(), "missing_fields package_name"),
            (r#"{"platform":"android","package_name":"x"}"#.into(), "missing_fields sha256_fingerprints"),
            (with_prints("[]"), "missing_fields sha256_fingerprints"),
            (with_prints("null"), "missing_fields sha256_fingerprints"),
            (with_prints(r#"[" "]"#), "missing_fields sha256_fingerprints"),
            (with_bundle("com"), "invalid_bundle_id bundle_id"),
            (with_bundle("com..app"), "invalid_bundle_id bundle_id"),
            (with_bundle(".com.app"), "invalid_bundle_id bundle_id"),
            (with_bundle("com.example.app."), "invalid_bundle_id bundle_id"),
            (with_bundle("com.exa_mple"), "invalid_bundle_id bundle_id"),
            (with_bundle("com.example.*"), "invalid_bundle_id bundle_id"),
            (with_bundle(" com.example"), "invalid_bundle_id bundle_id"),
            (with_bundle("com.ex\u{0430}mple"), "invalid_bundle_id bundle_id"),
            (with_bundle(&long("b", 154)), "invalid_bundle_id bundle_id"),
            (with_team("abcde12345"), "invalid_team_id team_id"),
            (with_team("ABCDE1234"), "invalid_team_id team_id"),
            (with_team("ABCDE123456"), "invalid_team_id team_id"),
            (with_team("ABCDE1234 "), "invalid_team_id team_id"),
            (with_team("ABCDE1234\u{00c4}"), "invalid_team_id team_id"),
            (with_package("com"), "invalid_package_name package_name"),
            (with_package("com.1example"), "invalid_package_name package_name"),
            (with_package("com.exa-mple"), "invalid_package_name package_name"),
            (with_package("com.example."), "invalid_package_name package_name"),
            (with_package("_com.example"), "invalid_package_name package_name"),
            (with_package(&long("b", 254)), "invalid_package_name package_name"),
            (with_prints(r#"["14:6D"]"#), "invalid_fingerprint sha256_fingerprints"),
            (with_prints(&serde_json::to_string(&many).expect("JSON")), "invalid_fingerprint sha256_fingerprints"),
            (ios(r#","app_name":"a\u0000b""#), "invalid_name app_name"),
            (ios(r#","icon_url":"http://127.0.0.1/x""#), "invalid_icon_url icon_url"),
            (ios(r#","icon_url":"data:image/png;base64,x""#), "invalid_icon_url icon_url"),
            (ios(r#","icon_url":"""#), "invalid_icon_url icon_url"),
            (ios(r#","theme_color":"""#), "invalid_theme_color theme_color"),
            (ios(r##","theme_color":"#ffff""##), "invalid_theme_color theme_color"),
            (ios(r#","theme_color":"red;}body{""#), "invalid_theme_color theme_color"),
            (ios(r##","theme_color":"#fff\"/><script>""##), "invalid_theme_color theme_color"),
            (ios(r#","theme_color":"fff""#), "invalid_theme_color theme_color"),
        ] {
            assert_eq!(refusal(&json), expected, "{json}");
        }
        let long_name = CreateApp::ios("com.example.app", "ABCDE12345").app_name("x".repeat(101)).check();
        assert_eq!(long_name.expect_err("too long").code, ErrorCode::InvalidName);
    }

    #[test]
    fn stored_apps_are_normalized() {
        let plain = PRINT.replace(':', "").to_lowercase();
        let app =
            CreateApp::android("com.Example.app_1", [plain.as_str(), PRINT]).icon_url("https://example.com").check();
        let app = app.expect("an app");
        assert_eq!(
            app.identity,
            Identity::Android { package_name: "com.Example.app_1".into(), fingerprints: vec![PRINT.into()] }
        );
        assert_eq!(app.icon_url.as_deref(), Some("https://example.com/"));
        // Fields of the other platform are ignored.
        let json = r#"{"platform":"IOS","bundle_id":"com.Example.app-1","team_id":"ABCDE12345","package_name":"!","sha256_fingerprints":["!"],"app_name":" ","icon_url":null}"#;
        let app = serde_json::from_str::<CreateApp>(json).expect("an app").check().expect("a good one");
        assert_eq!((app.app_name, app.icon_url, app.theme_color), (None, None, None));
        assert_eq!(app.identity, Identity::Ios { bundle_id: "com.Example.app-1".into(), team_id: "ABCDE12345".into() });
    }

    #[test]
    fn a_wrong_fingerprint_is_refused_with_its_reason() {
        let sha1 = "14:6D:E9:83:C5:73:06:50:D8:EE:B9:95:2F:34:FC:64:16:A0:83:42";
        for (text, word) in [
            (sha1, "SHA-1"),
            (&sha1.replace(':', ""), "SHA-1"),
            ("FG3pg8VzBlDY7rmVLzT8ZBagg0LmHb6oigSWsj/PROU=", "hex"),
            ("FG3pg8VzBlDY7rmVLzT8ZBagg0LmHb6oigSWsj/PROU", "hex"),
            (&PRINT[1..], "64 hex digits"),
            ("", "64 hex digits"),
            (&PRINT.replace('D', "G"), "64 hex digits"),
            (&PRINT.replacen(':', "", 1), "64 hex digits"),
            (&format!("SHA256: {PRINT}"), "without the label"),
            (&format!("\t SHA-256:{PRINT}"), "without the label"),
            ("SHA256:", "without the label"),
            (&format!("{PRINT}\n{PRINT}"), "separate values"),
            (&format!("{PRINT} {PRINT}"), "separate values"),
        ] {
            assert!(fingerprint(text).expect_err("refused").contains(word), "{text}");
        }
    }
}
