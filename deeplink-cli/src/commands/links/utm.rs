//! UTM parameters, which tell a site's analytics where a visitor came from, as flags.

use clap::Args;
use deeplink_core::utm::{UTM_NAMES, with_utm};

use crate::error::{Failure, Outcome};

/// UTM parameters to set in the query of the web page's URL.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
#[command(next_help_heading = "UTM parameters of the web page")]
pub(crate) struct Utm {
    /// Where visitors come from, such as newsletter
    #[arg(long = "utm-source", value_name = "TEXT", allow_hyphen_values = true)]
    source: Option<String>,
    /// Kind of channel, such as email
    #[arg(long = "utm-medium", value_name = "TEXT", allow_hyphen_values = true)]
    medium: Option<String>,
    /// Campaign
    #[arg(long = "utm-campaign", value_name = "TEXT", allow_hyphen_values = true)]
    campaign: Option<String>,
    /// Paid search keyword
    #[arg(long = "utm-term", value_name = "TEXT", allow_hyphen_values = true)]
    term: Option<String>,
    /// Variant of the ad or link
    #[arg(long = "utm-content", value_name = "TEXT", allow_hyphen_values = true)]
    content: Option<String>,
}

impl Utm {
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The URL of a web page with these parameters set, replacing any of the same names. The rest is unchanged.
    pub(crate) fn set_in(&self, web: Option<String>) -> Outcome<Option<String>> {
        let values = [&self.source, &self.medium, &self.campaign, &self.term, &self.content];
        let given: Vec<(&str, Option<&str>)> = UTM_NAMES
            .into_iter()
            .zip(values)
            .filter(|(_, value)| value.is_some())
            .map(|(name, value)| (name, value.as_deref()))
            .collect();
        if given.is_empty() {
            return Ok(web);
        }
        let Some(web) = web else {
            let hint = "specify its web page with --web";
            return Err(Failure::usage("the link has no web page URL to add UTM parameters to").hint(hint).into());
        };
        Ok(Some(with_utm(&web, &given)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_set_and_the_rest_stays() {
        let utm = Utm { source: Some("news letter".to_owned()), campaign: Some("a&b".to_owned()), ..Utm::default() };
        for (web, expected) in [
            ("https://example.com", "https://example.com?utm_source=news+letter&utm_campaign=a%26b"),
            ("https://example.com/p?", "https://example.com/p?utm_source=news+letter&utm_campaign=a%26b"),
            (
                "https://example.com/p?a=%20b&utm_source=old&utm_medium=x#top?b",
                "https://example.com/p?a=%20b&utm_medium=x&utm_source=news+letter&utm_campaign=a%26b#top?b",
            ),
        ] {
            assert_eq!(utm.set_in(Some(web.to_owned())).expect("a URL").as_deref(), Some(expected));
        }
        assert!(utm.set_in(None).is_err() && Utm::default().set_in(None).is_ok_and(|web| web.is_none()));
    }
}
