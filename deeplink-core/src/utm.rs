//! UTM parameters in the URL of a web page, which tell its analytics where a visitor came from.

use url::form_urlencoded::{self, Serializer};

use crate::resolve::{Cut, name_of};

/// The names of the parameters, in the order in which they are added.
pub const UTM_NAMES: [&str; 5] = ["utm_source", "utm_medium", "utm_campaign", "utm_term", "utm_content"];

/// The value of a parameter in the query of a URL; of a repeated one, the first.
pub fn utm_value(url: &str, name: &str) -> Option<String> {
    let cut = Cut::at_query(url);
    let pair = cut.pairs().find(|pair| name_of(pair) == name)?;
    form_urlencoded::parse(pair.as_bytes()).next().map(|(_, value)| value.into_owned())
}

/// The URL with each of these parameters set or, without a value, removed. Other parameters and the fragment stay as they
/// are, and so does a URL in which nothing changes.
pub fn with_utm(url: &str, changes: &[(&str, Option<&str>)]) -> String {
    let cut = Cut::at_query(url);
    let is_changed = |pair: &str| changes.iter().any(|(name, _)| name_of(pair) == *name);
    let given = changes.iter().filter_map(|(name, value)| Some((*name, (*value)?)));
    let added = Serializer::new(String::new()).extend_pairs(given).finish();
    let mut pairs: Vec<&str> = cut.pairs().filter(|pair| !is_changed(pair)).collect();
    if !added.is_empty() {
        // An empty last pair means an empty query, or one that ends in `&`.
        if pairs.last() == Some(&"") {
            pairs.pop();
        }
        pairs.push(&added);
    }
    cut.with_query(&pairs)
}

/// The URL without the parameters.
pub fn without_utm(url: &str) -> String {
    with_utm(url, &UTM_NAMES.map(|name| (name, None)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_set_and_removed_and_the_rest_stays() {
        let source = ("utm_source", Some("news letter"));
        for (url, changes, expected) in [
            ("https://example.com", &[source][..], "https://example.com?utm_source=news+letter"),
            ("https://example.com/p?", &[source], "https://example.com/p?utm_source=news+letter"),
            (
                "https://example.com/p?a=%20b&utm_source=old&utm_medium=x#top?b",
                &[source, ("utm_campaign", Some("a&b"))],
                "https://example.com/p?a=%20b&utm_medium=x&utm_source=news+letter&utm_campaign=a%26b#top?b",
            ),
            ("https://example.com/p?utm%5Fsource=old&&a", &[source], "https://example.com/p?&a&utm_source=news+letter"),
            ("https://example.com/p?utm_source=a&b=1#c", &[("utm_source", None)], "https://example.com/p?b=1#c"),
            ("https://example.com/p?utm_source=a#c", &[("utm_source", None)], "https://example.com/p#c"),
            ("https://example.com/p?a=~&&b#", &[("utm_source", None)], "https://example.com/p?a=~&&b#"),
            ("https://example.com/p?#utm_source=a", &[], "https://example.com/p?#utm_source=a"),
        ] {
            assert_eq!(with_utm(url, changes), expected, "{url}");
        }
        let all = "https://example.com/?utm_content=5&utm_id=0&utm_source=1&utm_medium=2&utm_campaign=3&utm_term=4";
        assert_eq!(without_utm(all), "https://example.com/?utm_id=0");
    }

    #[test]
    fn a_parameter_is_read_as_it_was_set() {
        for value in ["", "news letter", "a&b=c#d+e", "é%20"] {
            let url = with_utm("https://example.com/?a=1#b", &[("utm_term", Some(value))]);
            assert_eq!(utm_value(&url, "utm_term").as_deref(), Some(value), "{url}");
            assert_eq!(utm_value(&url, "utm_source"), None);
            assert_eq!(without_utm(&url), "https://example.com/?a=1#b");
        }
        assert_eq!(
            utm_value("https://example.com/?utm_source&utm_source=b#?utm_term=c", "utm_source"),
            Some(String::new())
        );
        assert_eq!(utm_value("https://example.com/#?utm_source=b", "utm_source"), None);
    }
}
