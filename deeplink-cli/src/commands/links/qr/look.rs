//! What a code is to look like: a flag for each parameter of the interface, judged by the service's own rules.

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use deeplink_core::qr::{CornerDotType, CornerSquareType, DotType, QrLevel, QrOptions, QrShape};
use url::form_urlencoded::Serializer;

use crate::error::{Failure, Outcome};

/// One word of a list, in either case.
macro_rules! one_of {
    ($choice:ty) => {
        PossibleValuesParser::new(<$choice>::ALL.iter().map(|one| one.as_str())).try_map(|word| word.parse::<$choice>())
    };
}
pub(super) use one_of;

/// The flags that say what a code looks like.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Look")]
pub(super) struct Look {
    /// Edge in pixels, margin included, 1 to 2048 [default: 600]
    #[arg(long, value_name = "PIXELS", allow_hyphen_values = true)]
    size: Option<String>,
    /// Error correction [default: H with a logo, else L]
    #[arg(long, value_name = "LEVEL", value_parser = one_of!(QrLevel), ignore_case = true)]
    level: Option<QrLevel>,
    /// Margin in modules, 0 to 16 [default: 2]
    #[arg(long, value_name = "MODULES", allow_hyphen_values = true)]
    margin: Option<String>,
    /// How modules are drawn [default: rounded]
    #[arg(long, value_name = "TYPE", value_parser = one_of!(DotType), ignore_case = true)]
    dot_type: Option<DotType>,
    /// How the frames of the eyes are drawn [default: extra-rounded]
    #[arg(long, value_name = "TYPE", value_parser = one_of!(CornerSquareType), ignore_case = true)]
    corner_square_type: Option<CornerSquareType>,
    /// How the pupils of the eyes are drawn [default: dot]
    #[arg(long, value_name = "TYPE", value_parser = one_of!(CornerDotType), ignore_case = true)]
    corner_dot_type: Option<CornerDotType>,
    /// Outline of the whole [default: square]
    #[arg(long, value_name = "SHAPE", value_parser = one_of!(QrShape), ignore_case = true)]
    shape: Option<QrShape>,
    /// Colour of all parts without one of their own, such as 0a3c8c [default: 000000]
    #[arg(long, value_name = "HEX")]
    fg_color: Option<String>,
    /// Colour of the background [default: ffffff]
    #[arg(long, value_name = "HEX")]
    bg_color: Option<String>,
    /// Colour of the dots
    #[arg(long, value_name = "HEX")]
    dot_color: Option<String>,
    /// Colour of the eyes' frames
    #[arg(long, value_name = "HEX")]
    corner_square_color: Option<String>,
    /// Colour of the eyes' pupils
    #[arg(long, value_name = "HEX")]
    corner_dot_color: Option<String>,
    /// Leave the logo out
    #[arg(long)]
    hide_logo: bool,
    /// Web address of a PNG, JPEG or WebP image for the middle; the service fetches it
    #[arg(long, value_name = "URL")]
    logo: Option<String>,
}

impl Look {
    /// The options as the service takes them. What breaks one of its rules is named by its flag.
    pub(super) fn options(&self) -> Outcome<QrOptions> {
        let mut query = Serializer::new(String::new());
        for (name, value) in [
            ("size", &self.size),
            ("margin", &self.margin),
            ("fgColor", &self.fg_color),
            ("bgColor", &self.bg_color),
            ("dotColor", &self.dot_color),
            ("cornerSquareColor", &self.corner_square_color),
            ("cornerDotColor", &self.corner_dot_color),
            ("logo", &self.logo),
        ] {
            if let Some(value) = value {
                query.append_pair(name, value);
            }
        }
        if self.hide_logo {
            query.append_pair("hideLogo", "true");
        }
        // Where the logo is, the service judges: it may be allowed to reach what this machine cannot.
        let mut options = QrOptions::from_query(&query.finish(), |_| true).map_err(|why| by_flag(why.into()))?;
        options.level = self.level;
        options.dot_type = self.dot_type;
        options.corner_square_type = self.corner_square_type;
        options.corner_dot_type = self.corner_dot_type;
        options.shape = self.shape;
        options.check().map_err(|why| by_flag(why.into()))?;
        Ok(options)
    }
}

/// A refusal that names the flag instead of the parameter.
fn by_flag(mut failure: Failure) -> Failure {
    let Some(field) = &failure.field else { return failure };
    if let Some(why) = failure.message.strip_prefix(&format!("{field}: ")) {
        let flag: String = field
            .chars()
            .flat_map(|c| c.is_ascii_uppercase().then_some('-').into_iter().chain([c.to_ascii_lowercase()]))
            .collect();
        failure.message = format!("--{flag}: {why}");
    }
    failure
}
