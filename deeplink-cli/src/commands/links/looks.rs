//! `--qr`: the look that a link keeps for its QR codes.

use std::collections::HashSet;

use deeplink_core::qr::{OPTION_NAMES, QrOptions};
use url::form_urlencoded::Serializer;

use crate::error::{Failure, Outcome};
use crate::escape;

/// The look of `--qr`, if there is any. Its options are checked one by one: together with those of a link, other colors
/// may be right.
pub(super) fn read(entries: &[String]) -> Outcome<Option<QrOptions>> {
    if entries.is_empty() {
        return Ok(None);
    }
    let mut query = Serializer::new(String::new());
    let (mut drops_logo, mut seen) = (false, HashSet::new());
    for entry in entries {
        let Some((name, value)) = entry.split_once('=') else {
            let what = format!("--qr requires OPTION=VALUE, not \"{}\"", escape::one_line(entry));
            return Err(Failure::usage(what).hint("such as --qr dotType=classy").into());
        };
        let Some(known) = OPTION_NAMES.into_iter().find(|known| fold(known) == fold(name)) else {
            let what = format!("--qr: unknown option \"{}\"", escape::one_line(name));
            return Err(Failure::usage(what).hint(format!("the options are {}", OPTION_NAMES.join(", "))).into());
        };
        if !seen.insert(known) {
            return Err(Failure::usage(format!("--qr: {known} is specified more than once")).into());
        }
        // The logo of a link, without the other options of its look.
        if (known, value) == ("logo", "") {
            drops_logo = true;
            continue;
        }
        query.append_pair(known, value);
    }
    // The service decides where a logo may be.
    let read = QrOptions::from_query(&query.finish(), |_| true);
    read.map(|look| Some(if drops_logo { look.hide_logo(true) } else { look })).map_err(|invalid| {
        let failure = Failure::from(invalid);
        let field = failure.field.as_deref().map(|field| format!("qr.{field}"));
        let failure = Failure { message: format!("--qr {}", failure.message), ..failure };
        field.into_iter().fold(failure, Failure::field).into()
    })
}

/// The part of a name that is compared: `dot-type` is `dotType`.
fn fold(name: &str) -> String {
    name.chars().filter(|c| !matches!(c, '-' | '_')).flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use deeplink_core::qr::{DotType, QrLevel};

    use super::*;

    #[test]
    fn options_are_named_as_in_the_api_or_as_flags() {
        let entries = ["dotType=classy", "level=q", "corner-dot-type=square"].map(str::to_owned);
        let look = read(&entries).expect("options").expect("a look");
        assert_eq!((look.dot_type, look.level), (Some(DotType::Classy), Some(QrLevel::Q)));
        assert!(look.corner_dot_type.is_some());
        for entry in ["dotType", "dots=1", "=1", "size=0", "fgColor="] {
            assert!(read(&[entry.to_owned()]).is_err(), "{entry}");
        }
        for twice in [
            ["logo=", "logo=name:x"],
            ["logo=name:x", "logo="],
            ["level=q", "Level=q"],
            ["dot-type=dots", "dotType=dots"],
        ] {
            assert!(read(&twice.map(str::to_owned)).is_err(), "{twice:?}");
        }
        assert!(read(&[]).expect("nothing").is_none());
        let look = read(&["logo=".to_owned()]).expect("options").expect("a look");
        assert_eq!(look.hide_logo, Some(true));
    }
}
