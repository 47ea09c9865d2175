//! The language of a page: the preferred one of an `Accept-Language` header among those that pages are written in.

use super::accept::quality;

/// A language that the pages of a link are written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "each is named by its tag")]
pub enum Language {
    En,
    De,
    Fr,
    Es,
    Pt,
    It,
    Nl,
    Pl,
    Tr,
    Ru,
    Uk,
    Ar,
    He,
    Hi,
    Id,
    Vi,
    Th,
    Ja,
    Ko,
    ZhHans,
    ZhHant,
}

impl Language {
    /// All languages, in the order of [`Self::index`].
    pub const ALL: [Self; 21] = [
        Self::En,
        Self::De,
        Self::Fr,
        Self::Es,
        Self::Pt,
        Self::It,
        Self::Nl,
        Self::Pl,
        Self::Tr,
        Self::Ru,
        Self::Uk,
        Self::Ar,
        Self::He,
        Self::Hi,
        Self::Id,
        Self::Vi,
        Self::Th,
        Self::Ja,
        Self::Ko,
        Self::ZhHans,
        Self::ZhHant,
    ];

    /// Its place in [`Self::ALL`].
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Its BCP 47 tag, for `lang` attributes and `Content-Language`.
    pub const fn tag(self) -> &'static str {
        match self {
            Self::En => "en",
            Self::De => "de",
            Self::Fr => "fr",
            Self::Es => "es",
            Self::Pt => "pt",
            Self::It => "it",
            Self::Nl => "nl",
            Self::Pl => "pl",
            Self::Tr => "tr",
            Self::Ru => "ru",
            Self::Uk => "uk",
            Self::Ar => "ar",
            Self::He => "he",
            Self::Hi => "hi",
            Self::Id => "id",
            Self::Vi => "vi",
            Self::Th => "th",
            Self::Ja => "ja",
            Self::Ko => "ko",
            Self::ZhHans => "zh-Hans",
            Self::ZhHant => "zh-Hant",
        }
    }

    /// Whether it is written from right to left.
    pub const fn is_rtl(self) -> bool {
        matches!(self, Self::Ar | Self::He)
    }

    /// The preferred language of the lines of an `Accept-Language` header (RFC 9110), by the lookup of RFC 4647: that
    /// of the range with the highest `q` that names one, the first in a tie. English if none does; `*` names none.
    pub fn preferred<V: AsRef<[u8]>>(lines: impl IntoIterator<Item = V>) -> Self {
        let (mut best, mut highest) = (Self::En, 0);
        for line in lines {
            for range in line.as_ref().split(|&byte| byte == b',') {
                let mut parts = range.split(|&byte| byte == b';');
                let Some(language) = parts.next().and_then(Self::named) else { continue };
                if let Some(quality) = quality(parts).filter(|&quality| quality > highest) {
                    (best, highest) = (language, quality);
                }
            }
        }
        best
    }

    /// The language of a tag such as `de-CH`, old tags included.
    fn named(range: &[u8]) -> Option<Self> {
        let mut subtags = range.trim_ascii().split(|&byte| byte == b'-');
        let primary = subtags.next()?;
        let is = |tag: &[u8]| primary.eq_ignore_ascii_case(tag);
        match () {
            () if is(b"zh") || is(b"cmn") => return Some(Self::chinese(subtags)),
            () if is(b"yue") => return Some(Self::ZhHant),
            () if is(b"iw") => return Some(Self::He),
            () if is(b"in") => return Some(Self::Id),
            () => {}
        }
        Self::ALL.into_iter().find(|language| is(language.tag().as_bytes()))
    }

    /// By the script if there is one, else by the region; a script precedes a region in a tag.
    fn chinese<'t>(subtags: impl Iterator<Item = &'t [u8]>) -> Self {
        for subtag in subtags {
            let is = |tag: &[u8]| subtag.eq_ignore_ascii_case(tag);
            if is(b"Hans") {
                return Self::ZhHans;
            }
            if is(b"Hant") || is(b"TW") || is(b"HK") || is(b"MO") {
                return Self::ZhHant;
            }
        }
        Self::ZhHans
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn indexes_and_tags_are_in_step() {
        for (place, language) in Language::ALL.into_iter().enumerate() {
            assert_eq!(language.index(), place);
            assert_eq!(Language::preferred([language.tag()]), language);
        }
    }

    #[test]
    fn the_best_range_that_names_a_language_wins() {
        for (header, tag) in [
            ("de", "de"),
            ("DE-ch", "de"),
            ("de-Latn-CH-1996", "de"),
            ("de-CH,de;q=0.9,en;q=0.8", "de"),
            ("en;q=0.8, fr;q=0.9", "fr"),
            ("en;q=0.8,fr;q=0.8", "en"),
            (" it ; q=0.5 , es ; Q=0.6 ", "es"),
            ("sv,nb;q=0.9,pl;q=0.3", "pl"),
            ("pt-BR", "pt"),
            ("pt-PT,en;q=0.1", "pt"),
            ("iw", "he"),
            ("in-ID", "id"),
            ("zh", "zh-Hans"),
            ("zh-CN,zh;q=0.9", "zh-Hans"),
            ("zh-SG", "zh-Hans"),
            ("zh-TW", "zh-Hant"),
            ("zh-hk", "zh-Hant"),
            ("zh-MO", "zh-Hant"),
            ("zh-Hant", "zh-Hant"),
            ("zh-Hans-HK", "zh-Hans"),
            ("zh-Hant-CN", "zh-Hant"),
            ("cmn-Hant-TW", "zh-Hant"),
            ("yue-HK", "zh-Hant"),
            // English if nothing matches.
            ("", "en"),
            ("*", "en"),
            ("*,ja;q=0.5", "ja"),
            ("sv", "en"),
            ("de;q=0", "en"),
            ("de;q=0,fr;q=0.001", "fr"),
            ("de;q=2,fr;q=x", "en"),
            ("d,deu,de_DE,dee-de,-de", "en"),
            (",;q=1,;;,", "en"),
        ] {
            assert_eq!(Language::preferred([header]).tag(), tag, "{header}");
        }
        assert_eq!(Language::preferred(["sv, fr;q=0.5", "ko;q=0.6"]), Language::Ko, "several lines are one list");
        assert_eq!(Language::preferred([""; 0]), Language::En);
        assert_eq!(Language::preferred([b"\xff\xfe,de".as_slice()]), Language::De);
    }

    proptest! {
        #[test]
        fn any_bytes_have_a_language(lines in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..60), 0..4)) {
            Language::preferred(lines);
        }
    }
}
