//! The style of a code: a flag for each parameter of the interface, checked by the service's own rules.

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use deeplink_core::qr::{CornerDotType, CornerSquareType, DotType, QrLevel, QrOptions, QrShape, UPLOADED};
use url::form_urlencoded::Serializer;

use super::upload::Upload;
use crate::error::{Failure, Outcome};
use crate::given;

/// One word of a list, in upper or lower case.
macro_rules! one_of {
    ($choice:ty) => {
        PossibleValuesParser::new(<$choice>::ALL.iter().map(|one| one.as_str())).try_map(|word| word.parse::<$choice>())
    };
}
pub(super) use one_of;

/// The flags that say what a code looks like.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Style")]
pub(super) struct Look {
    /// Width and height in pixels, including the margin, 1 to 2048 [default: 600]
    #[arg(long, value_name = "PIXELS", allow_hyphen_values = true)]
    size: Option<String>,
    /// Error correction level [default: H with a logo, else L]
    #[arg(long, value_name = "LEVEL", value_parser = one_of!(QrLevel), ignore_case = true)]
    level: Option<QrLevel>,
    /// Margin in modules, 0 to 16 [default: 2]
    #[arg(long, value_name = "MODULES", allow_hyphen_values = true)]
    margin: Option<String>,
    /// Shape of the modules [default: rounded]
    #[arg(long, value_name = "TYPE", value_parser = one_of!(DotType), ignore_case = true)]
    dot_type: Option<DotType>,
    /// Shape of the corner squares [default: extra-rounded]
    #[arg(long, value_name = "TYPE", value_parser = one_of!(CornerSquareType), ignore_case = true)]
    corner_square_type: Option<CornerSquareType>,
    /// Shape of the corner dots [default: dot]
    #[arg(long, value_name = "TYPE", value_parser = one_of!(CornerDotType), ignore_case = true)]
    corner_dot_type: Option<CornerDotType>,
    /// Overall shape; circle surrounds the code with decorative dots [default: square]
    #[arg(long, value_name = "SHAPE", value_parser = one_of!(QrShape), ignore_case = true)]
    shape: Option<QrShape>,
    /// Color of all parts without their own color, such as 0a3c8c, without # [default: 000000]
    #[arg(long, value_name = "HEX")]
    fg_color: Option<String>,
    /// Background color, without # [default: ffffff]
    #[arg(long, value_name = "HEX")]
    bg_color: Option<String>,
    /// Color of the dots, without #
    #[arg(long, value_name = "HEX")]
    dot_color: Option<String>,
    /// Color of the corner squares, without #
    #[arg(long, value_name = "HEX")]
    corner_square_color: Option<String>,
    /// Color of the corner dots, without #
    #[arg(long, value_name = "HEX")]
    corner_dot_color: Option<String>,
    /// Omit the logo
    #[arg(long)]
    hide_logo: bool,
    /// Logo for the center (PNG, JPEG or lossy WebP): a local file to upload, name:NAME for an uploaded logo, or a URL
    /// for the service to fetch
    #[arg(long, value_name = "FILE|name:NAME|URL")]
    logo: Option<String>,
}

impl Look {
    /// The local file to upload as a logo, if `--logo` names one.
    pub(super) fn upload(&self) -> Outcome<Option<Upload>> {
        self.logo.as_deref().filter(|_| !self.hide_logo).map_or(Ok(None), Upload::of)
    }

    /// The options in the service's form. Errors name the flag that breaks a rule.
    pub(super) fn options(&self, upload: Option<&Upload>) -> Outcome<QrOptions> {
        let logo = upload.map(|upload| format!("{UPLOADED}{}", upload.name)).or_else(|| self.logo.clone());
        let mut query = Serializer::new(String::new());
        for (name, value) in [
            ("size", &self.size),
            ("margin", &self.margin),
            ("fgColor", &self.fg_color),
            ("bgColor", &self.bg_color),
            ("dotColor", &self.dot_color),
            ("cornerSquareColor", &self.corner_square_color),
            ("cornerDotColor", &self.corner_dot_color),
            ("logo", &logo),
        ] {
            if let Some(value) = value {
                query.append_pair(name, value);
            }
        }
        if self.hide_logo {
            query.append_pair("hideLogo", "true");
        }
        // The service decides where a logo may be: it may be allowed to reach what this machine cannot.
        let mut options = QrOptions::from_query(&query.finish(), |_| true).map_err(|why| self.refused(why.into()))?;
        options.level = self.level;
        options.dot_type = self.dot_type;
        options.corner_square_type = self.corner_square_type;
        options.corner_dot_type = self.corner_dot_type;
        options.shape = self.shape;
        options.check().map_err(|why| self.refused(why.into()))?;
        Ok(options)
    }

    /// A value that no image can have, whether dl or the service draws it.
    fn refused(&self, failure: Failure) -> Failure {
        let failure = by_flag(failure);
        match &self.logo {
            Some(logo) if failure.field.as_deref() == Some("logo") => {
                // A bare name is more likely that of a file.
                match given::with_scheme("logo", logo).filter(|_| logo.contains('/')) {
                    Some(url) => failure.hint(format!("did you mean {url}?")),
                    None => failure.hint(FETCHED),
                }
            }
            _ => failure,
        }
    }

    /// The flags that were given, as typed.
    pub(super) fn given(&self) -> Vec<&'static str> {
        [
            ("--size", self.size.is_some()),
            ("--level", self.level.is_some()),
            ("--margin", self.margin.is_some()),
            ("--dot-type", self.dot_type.is_some()),
            ("--corner-square-type", self.corner_square_type.is_some()),
            ("--corner-dot-type", self.corner_dot_type.is_some()),
            ("--shape", self.shape.is_some()),
            ("--fg-color", self.fg_color.is_some()),
            ("--bg-color", self.bg_color.is_some()),
            ("--dot-color", self.dot_color.is_some()),
            ("--corner-square-color", self.corner_square_color.is_some()),
            ("--corner-dot-color", self.corner_dot_color.is_some()),
            ("--hide-logo", self.hide_logo),
            ("--logo", self.logo.is_some()),
        ]
        .into_iter()
        .filter_map(|(flag, given)| given.then_some(flag))
        .collect()
    }
}

/// Where a logo has to be.
const FETCHED: &str = "the service fetches it: use a public http(s) URL that returns 200 without a redirect within 5 s";

/// A refusal of options that names the flag instead of the parameter, and says what is accepted.
pub(super) fn by_flag(mut failure: Failure) -> Failure {
    if failure.code.as_deref() != Some("invalid_qr_options") {
        return failure;
    }
    // It does not matter where it was detected, and JSON includes the status anyway.
    let said = failure.message.trim_end_matches(" (HTTP 400)").len();
    failure.message.truncate(said);
    let Some(field) = failure.field.clone() else { return failure };
    if field.starts_with("qr.") {
        return failure.hint("this option is part of the link's saved design; change it with dl links update --qr");
    }
    let Some(why) = failure.message.strip_prefix(&field) else { return failure };
    let why = why.strip_prefix(':').unwrap_or(why).trim_start().to_owned();
    let flag: String = field
        .chars()
        .flat_map(|c| c.is_ascii_uppercase().then_some('-').into_iter().chain([c.to_ascii_lowercase()]))
        .collect();
    failure.message = format!("--{flag}: {why}");
    let hint = match field.as_str() {
        "size" if why.contains("at least") => {
            "use a smaller --margin or a lower --level, or SVG, which can be any size"
        }
        "logo" if why.contains("fetched") => FETCHED,
        "logo" if why.contains("uploaded logo") => "dl qr-logos list shows the account's logos",
        "logo" if why.contains("image too large") => {
            "the maximum is 4,096 px per side, 16 megapixels and 512 KiB, less for progressive JPEG, WebP and \
             interlaced PNG: save it as a baseline JPEG or a non-interlaced PNG"
        }
        "logo" if why.contains("large") => "the maximum is 4,096 px per side, 16 megapixels and 512 KiB",
        "logo" if why.contains("lossless") => "save it as a PNG, or as a lossy WebP without transparency",
        "logo" if why.contains("PNG") => "SVG and GIF are not supported: save it as a PNG",
        _ => return failure,
    };
    failure.hint(hint)
}
