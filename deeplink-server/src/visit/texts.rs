//! The texts of the pages that visitors to a link see, in their language: a file per language in `texts/`.
//!
//! The files are compiled in and read once, at the first page. After that a text is a field of a static.

use std::fmt;
use std::sync::LazyLock;

use deeplink_core::visitor::Language;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The texts of one language. A file that lacks one, or has one more, is refused; a test reads them all.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Texts {
    pub(super) open_app: &'static str,
    /// `{app}`: its name.
    pub(super) open_in: Phrase,
    pub(super) app_store: &'static str,
    pub(super) google_play: &'static str,
    /// `{host}`: where a web address leads.
    pub(super) continue_to: Phrase,
    pub(super) for_ios: &'static str,
    pub(super) for_android: &'static str,
    /// `{menu}`: the sign of a messenger's menu.
    pub(super) hint: Phrase,
    pub(super) copies: &'static str,
    pub(super) no_destination: &'static str,
    pub(super) opens_android: &'static str,
    pub(super) opens_ios: &'static str,
    pub(super) on_phone: &'static str,
    pub(super) qr_code: &'static str,
    pub(super) scan: &'static str,
    pub(super) unverified: &'static str,
    pub(super) expired: &'static str,
    pub(super) expired_advice: &'static str,
    pub(super) disabled: &'static str,
    pub(super) disabled_advice: &'static str,
    pub(super) flagged: &'static str,
    pub(super) flagged_advice: &'static str,
    pub(super) not_found: &'static str,
    pub(super) not_found_advice: &'static str,
    pub(super) too_many: &'static str,
    pub(super) too_many_advice: &'static str,
}

impl Texts {
    /// The texts of this language.
    pub(super) fn of(language: Language) -> &'static Self {
        static ALL: LazyLock<[Texts; Language::ALL.len()]> = LazyLock::new(|| Language::ALL.map(read));
        &ALL[language.index()]
    }
}

fn read(language: Language) -> Texts {
    serde_json::from_str(file(language)).unwrap_or_else(|error| panic!("texts/{}.json: {error}", language.tag()))
}

fn file(language: Language) -> &'static str {
    match language {
        Language::En => include_str!("../../texts/en.json"),
        Language::De => include_str!("../../texts/de.json"),
        Language::Fr => include_str!("../../texts/fr.json"),
        Language::Es => include_str!("../../texts/es.json"),
        Language::Pt => include_str!("../../texts/pt.json"),
        Language::It => include_str!("../../texts/it.json"),
        Language::Nl => include_str!("../../texts/nl.json"),
        Language::Pl => include_str!("../../texts/pl.json"),
        Language::Tr => include_str!("../../texts/tr.json"),
        Language::Ru => include_str!("../../texts/ru.json"),
        Language::Uk => include_str!("../../texts/uk.json"),
        Language::Ar => include_str!("../../texts/ar.json"),
        Language::He => include_str!("../../texts/he.json"),
        Language::Hi => include_str!("../../texts/hi.json"),
        Language::Id => include_str!("../../texts/id.json"),
        Language::Vi => include_str!("../../texts/vi.json"),
        Language::Th => include_str!("../../texts/th.json"),
        Language::Ja => include_str!("../../texts/ja.json"),
        Language::Ko => include_str!("../../texts/ko.json"),
        Language::ZhHans => include_str!("../../texts/zh-Hans.json"),
        Language::ZhHant => include_str!("../../texts/zh-Hant.json"),
    }
}

/// A text with one place for a value, split there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Phrase {
    pub(super) before: &'static str,
    pub(super) after: &'static str,
    is_rtl: bool,
}

impl Deserialize<'static> for Phrase {
    fn deserialize<D: Deserializer<'static>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <&'static str>::deserialize(deserializer)?;
        let around = text.split_once('{').and_then(|(before, rest)| Some((before, rest.split_once('}')?.1)));
        match around {
            Some((before, after)) if !after.contains('{') => Ok(Self { before, after, is_rtl: has_rtl(text) }),
            _ => Err(D::Error::custom("a phrase has one {place}")),
        }
    }
}

/// Text of a button.
#[derive(Clone, Copy, Debug)]
pub(super) enum Label<'v> {
    Fixed(&'static str),
    With(Phrase, &'v str),
}

/// Escaped by the template, or by the serializer, like any other text. Between two directions of writing the value is
/// isolated, so that it moves nothing around it.
impl fmt::Display for Label<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const FIRST_STRONG_ISOLATE: &str = "\u{2068}";
        const POP_ISOLATE: &str = "\u{2069}";
        match *self {
            Self::Fixed(text) => f.write_str(text),
            Self::With(phrase, value) => {
                let is_isolated = phrase.is_rtl || has_rtl(value);
                let (start, end) = if is_isolated { (FIRST_STRONG_ISOLATE, POP_ISOLATE) } else { ("", "") };
                [phrase.before, start, value, end, phrase.after].into_iter().try_for_each(|part| f.write_str(part))
            }
        }
    }
}

impl Serialize for Label<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Whether a text has a character of a script that is written from right to left.
fn has_rtl(text: &str) -> bool {
    let is_rtl = |c| {
        matches!(c, '\u{590}'..='\u{8ff}' | '\u{fb1d}'..='\u{fdff}' | '\u{fe70}'..='\u{feff}'
            | '\u{10800}'..='\u{10fff}' | '\u{1e800}'..='\u{1efff}')
    };
    !text.is_ascii() && text.chars().any(is_rtl)
}

/// The width of a text in halves of a Chinese character, about the width of a Latin letter.
pub(super) fn columns(text: &str) -> usize {
    let is_wide = |c| {
        matches!(c, '\u{1100}'..='\u{115f}' | '\u{2e80}'..='\u{d7ff}' | '\u{f900}'..='\u{faff}'
            | '\u{fe30}'..='\u{fe6f}' | '\u{ff00}'..='\u{ff60}' | '\u{1f300}'..)
    };
    text.chars().map(|c| if is_wide(c) { 2 } else { 1 }).sum()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn texts(language: Language) -> BTreeMap<String, String> {
        serde_json::from_str(file(language)).expect("texts by name")
    }

    fn places(text: &str) -> Vec<&str> {
        text.split('{').skip(1).map(|rest| rest.split('}').next().unwrap_or_default()).collect()
    }

    #[test]
    fn every_language_has_every_text_with_the_same_places() {
        let english = texts(Language::En);
        for language in Language::ALL {
            let _: Texts = read(language);
            let its = texts(language);
            assert!(its.keys().eq(english.keys()), "{language:?}");
            for (name, text) in &its {
                assert_eq!(places(text), places(&english[name]), "{language:?} {name}");
                let is_clean = text.trim() == text && !text.contains(['"', '\'', '\\', '<', '>', '&']);
                assert!(!text.is_empty() && is_clean, "{language:?} {name}: {text}");
                assert!(!text.contains("  ") && !text.contains(".."), "{language:?} {name}: {text}");
            }
        }
    }

    /// A forgotten translation, and a text in the wrong file.
    #[test]
    fn every_language_says_it_in_its_own_words() {
        // Rightly written alike.
        const ALIKE: [(Language, Language, &str); 2] =
            [(Language::Ru, Language::Uk, "google_play"), (Language::Ru, Language::Uk, "continue_to")];
        for language in Language::ALL {
            for other in Language::ALL.into_iter().filter(|other| other.index() > language.index()) {
                let (one, two) = (texts(language), texts(other));
                for (name, text) in one.iter().filter(|(name, text)| two[*name] == **text && text.len() > 24) {
                    assert!(ALIKE.contains(&(language, other, name)), "{language:?} {other:?} {name}: {text}");
                }
            }
        }
    }

    /// Sentences end like sentences, and titles and labels do not.
    #[test]
    fn texts_are_punctuated_as_their_kind_is() {
        for language in Language::ALL.into_iter().filter(|&language| language != Language::Th) {
            for (name, text) in texts(language) {
                let is_sentence = text.ends_with(['.', '。', '।']);
                let due = name.ends_with("_advice")
                    || [
                        "hint",
                        "copies",
                        "no_destination",
                        "opens_android",
                        "opens_ios",
                        "on_phone",
                        "scan",
                        "unverified",
                    ]
                    .contains(&&*name);
                assert_eq!(is_sentence, due, "{language:?} {name}: {text}");
            }
        }
    }

    /// In columns; a browser test looks at the narrowest screen.
    #[test]
    fn texts_fit_their_places() {
        for language in Language::ALL {
            for (name, text) in texts(language) {
                let most = match &*name {
                    "open_app" | "open_in" | "app_store" | "google_play" | "continue_to" => 32,
                    // Beside the name of a store.
                    "for_ios" | "for_android" => 22,
                    "expired" | "disabled" | "flagged" | "not_found" | "too_many" => 48,
                    "no_destination" | "opens_android" | "opens_ios" | "on_phone" | "qr_code" | "scan"
                    | "unverified" => 56,
                    _ => 125,
                };
                assert!(columns(&text) <= most, "{language:?} {name} has {} of {most}: {text}", columns(&text));
            }
        }
    }

    #[test]
    fn a_value_between_two_directions_is_isolated() {
        let open_in = |language, app| Label::With(Texts::of(language).open_in, app).to_string();
        assert_eq!(open_in(Language::En, "Greenhouse"), "Open in Greenhouse");
        assert_eq!(open_in(Language::Ja, "Greenhouse"), "Greenhouseで開く");
        assert_eq!(open_in(Language::De, "المشتل!"), "In \u{2068}المشتل!\u{2069} öffnen");
        assert_eq!(open_in(Language::Ar, "Greenhouse!"), "فتح في \u{2068}Greenhouse!\u{2069}");
        assert_eq!(open_in(Language::En, "<b>"), "Open in <b>", "the template escapes it");
    }

    #[test]
    fn widths() {
        for (text, width) in [("Öffnen", 6), ("開く", 4), ("열기", 4), ("Mở trong ứng dụng", 17), ("🎉 ok", 5), ("", 0)]
        {
            assert_eq!(columns(text), width, "{text}");
        }
    }
}
