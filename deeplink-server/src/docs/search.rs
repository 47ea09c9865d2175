//! The search in the guides and the reference. Its cost is bounded: the length of a query, and the texts, which are fixed.

/// Maximum characters and words of a query that are looked at.
const MAX_QUERY: usize = 100;
const MAX_WORDS: usize = 8;
/// Maximum results.
const MAX_HITS: usize = 20;
/// Bytes of a text that are shown before the first word that was found, and in all.
const BEFORE: usize = 60;
const EXCERPT: usize = 220;
/// Words that are marked in it.
const MAX_MARKS: usize = 8;

/// A section of a guide, an operation, an object or an error code.
pub(super) struct Entry {
    title: String,
    /// The page that it is on.
    page: String,
    path: String,
    text: String,
    /// The title and the text in lower case. Only ASCII letters are changed, so that positions are the same.
    folded: [String; 2],
}

/// Points of a word that is the entry's anchor, that is in its title, and that is in its text. A word that is there in another
/// form has half of the latter two.
const ANCHOR: usize = 40;
const TITLE: usize = 10;
const TEXT: usize = 2;

/// A word of a query, in lower case.
struct Word {
    text: String,
    /// How long the part is that its other forms begin with, as of `signing` for `signature`.
    stem: usize,
}

impl Word {
    fn new(text: &str) -> Self {
        /// Endings, each with the shortest stem that it may leave.
        const ENDINGS: [(&str, usize); 6] = [("ation", 5), ("ies", 4), ("ing", 4), ("ed", 4), ("es", 4), ("s", 3)];
        let text = text.to_ascii_lowercase();
        let stem_of =
            |(ending, least): (&str, usize)| Some(text.strip_suffix(ending)?.len()).filter(|stem| *stem >= least);
        let stem = ENDINGS.into_iter().find_map(stem_of);
        Self { stem: stem.unwrap_or(text.len()), text }
    }

    /// Where the word or another form of it is in a text, and how long it is there.
    fn find(&self, text: &str) -> Option<(usize, usize)> {
        let at = text.find(&self.text[..self.stem])?;
        let found = &text[at..];
        if found.starts_with(&self.text) {
            return Some((at, self.text.len()));
        }
        let ending = found[self.stem..].bytes().take_while(u8::is_ascii_alphanumeric).count();
        Some((at, self.stem + ending))
    }

    /// The points for a text: all if the word is in it, half if another form is.
    fn points(&self, text: &str, all: usize) -> Option<usize> {
        if text.contains(&self.text) {
            return Some(all);
        }
        self.find(text).map(|_| all / 2)
    }
}

impl Entry {
    pub(super) fn new(title: &str, page: &str, path: String, text: &str) -> Self {
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let folded = [format!("{title} {page}").to_ascii_lowercase(), text.to_ascii_lowercase()];
        Self { title: title.to_owned(), page: page.to_owned(), path, text, folded }
    }

    /// How well the entry fits; `None` if a word is missing.
    fn score(&self, words: &[Word]) -> Option<usize> {
        let [title, text] = &self.folded;
        let anchor = self.path.split_once('#').map(|(_, anchor)| anchor);
        let score = |word: &Word| {
            if anchor.is_some_and(|anchor| anchor.eq_ignore_ascii_case(&word.text)) {
                return Some(ANCHOR);
            }
            word.points(title, TITLE).max(word.points(text, TEXT))
        };
        words.iter().map(score).sum()
    }

    /// The part of the text around the first word found in it, in pieces, each with whether it is such a word.
    fn excerpt(&self, words: &[Word]) -> Vec<(bool, &str)> {
        let [_, folded] = &self.folded;
        let found = words.iter().filter_map(|word| word.find(folded)).map(|(at, _)| at).min().unwrap_or_default();
        let start = self.text.floor_char_boundary(found.saturating_sub(BEFORE));
        // From the beginning of a word.
        let start = if start == 0 { 0 } else { self.text[start..found].find(' ').map_or(found, |at| start + at + 1) };
        let end = self.text.floor_char_boundary(start + EXCERPT);
        // To the end of one, if there is any.
        let end =
            if end == self.text.len() { end } else { self.text[start..end].rfind(' ').map_or(end, |at| start + at) };
        let (mut pieces, mut at) = (Vec::new(), start);
        for nth in 0.. {
            if at >= end {
                break;
            }
            let rest = &folded[at..end];
            let next = words.iter().filter(|_| nth < MAX_MARKS).filter_map(|word| word.find(rest)).min();
            let (before, length) = next.unwrap_or((rest.len(), 0));
            pieces.push((false, &self.text[at..at + before]));
            pieces.push((true, &self.text[at + before..at + before + length]));
            at += before + length;
        }
        pieces.retain(|(_, piece)| !piece.is_empty());
        pieces
    }
}

/// A result.
pub(super) struct Hit<'a> {
    pub(super) title: &'a str,
    pub(super) page: &'a str,
    pub(super) path: &'a str,
    pub(super) excerpt: Vec<(bool, &'a str)>,
    /// Whether text was left out before and after the excerpt.
    pub(super) is_cut: (bool, bool),
}

/// The words of a query.
pub(super) fn words(query: &str) -> Vec<String> {
    let query: String = query.chars().take(MAX_QUERY).collect();
    let words = query.split(|character: char| character.is_whitespace() || character.is_control());
    words.filter(|word| !word.is_empty()).take(MAX_WORDS).map(str::to_owned).collect()
}

/// The entries that contain all words, the best first and no more than are shown, and how many there are.
pub(super) fn find<'a>(entries: &'a [Entry], words: &[String]) -> (Vec<Hit<'a>>, usize) {
    if words.is_empty() {
        return (Vec::new(), 0);
    }
    let words: &[_] = &words.iter().map(|word| Word::new(word)).collect::<Vec<_>>();
    let mut found: Vec<_> = entries.iter().filter_map(|entry| Some((entry.score(words)?, entry))).collect();
    found.sort_by_key(|(score, _)| std::cmp::Reverse(*score));
    let hit = |(_, entry): (usize, &'a Entry)| {
        let excerpt = entry.excerpt(words);
        let shown: String = excerpt.iter().map(|(_, piece)| *piece).collect();
        let is_cut = (!entry.text.starts_with(&shown), !entry.text.ends_with(&shown));
        Hit { title: &entry.title, page: &entry.page, path: &entry.path, excerpt, is_cut }
    };
    let total = found.len();
    (found.into_iter().take(MAX_HITS).map(hit).collect(), total)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn titles_count_more_than_texts_and_every_word_counts() {
        let entry = |title: &str, text: &str| Entry::new(title, "Guide", title.to_owned(), text);
        let entries =
            [entry("Keys", "A link and a domain."), entry("Domains", "A domain is yours."), entry("Links", "")];
        let anchored = Entry::new("Adds", "Guide", "/docs/x#NewLink".to_owned(), "");
        assert_eq!(find(&[anchored], &words("NewLink")).1, 1);
        let paths = |query: &str| find(&entries, &words(query)).0.iter().map(|hit| hit.path).collect::<Vec<_>>();
        assert_eq!(paths("DOMAIN"), ["Domains", "Keys"]);
        assert_eq!(paths("domain link"), ["Keys"]);
        assert_eq!(paths("domain nothing"), [""; 0]);
        assert_eq!(paths(" \u{7} "), [""; 0]);
        let [hit] = &find(&entries, &words("yours")).0[..] else { panic!("one result") };
        assert_eq!(hit.excerpt, [(false, "A domain is "), (true, "yours"), (false, ".")]);
    }

    #[test]
    fn other_forms_of_a_word_are_found() {
        let entry = |title: &str, text: &str| Entry::new(title, "Guide", title.to_owned(), text);
        let entries = [entry("A", "Check the signature."), entry("B", "Sign in."), entry("C", "A request is retried.")];
        let paths = |query: &str| find(&entries, &words(query)).0.iter().map(|hit| hit.path).collect::<Vec<_>>();
        assert_eq!(paths("signing"), ["A", "B"]);
        assert_eq!(paths("retries"), ["C"]);
        assert_eq!(paths("signed in"), ["B"]);
        assert_eq!(paths("bring"), [""; 0], "a stem is not just the beginning of a word");
        let [hit] = &find(&entries, &words("signatures")).0[..] else { panic!("one result") };
        assert_eq!(hit.excerpt, [(false, "Check the "), (true, "signature"), (false, ".")]);
    }

    #[test]
    fn few_words_of_an_excerpt_are_marked() {
        let entries = [Entry::new("A", "Guide", String::new(), &"a b ".repeat(40))];
        let hits = find(&entries, &words("a b")).0;
        assert_eq!(hits[0].excerpt.iter().filter(|(is_marked, _)| *is_marked).count(), MAX_MARKS);
        let shown: String = hits[0].excerpt.iter().map(|(_, piece)| *piece).collect();
        assert_eq!(shown, "a b ".repeat(40).trim_end());
    }

    #[test]
    fn the_number_of_results_is_known() {
        let entries: Vec<_> = (0..30).map(|_| Entry::new("Links", "Guide", String::new(), "")).collect();
        let (hits, total) = find(&entries, &words("links"));
        assert_eq!((hits.len(), total), (MAX_HITS, 30));
    }

    #[test]
    fn queries_have_a_limit() {
        assert_eq!(words(&"x".repeat(1_000)), ["x".repeat(MAX_QUERY)]);
        assert_eq!(words(&"a ".repeat(40)).len(), MAX_WORDS);
    }

    proptest! {
        #[test]
        fn an_excerpt_is_a_part_of_the_text(text in "[aäÄ B€😀]{0,400}", query in "[aäÄb€😀 ]{1,5}") {
            let entry = Entry::new("", "", String::new(), &text);
            let words: Vec<_> = words(&query).iter().map(|word| Word::new(word)).collect();
            let excerpt: String = entry.excerpt(&words).into_iter().map(|(_, piece)| piece).collect();
            prop_assert!(entry.text.contains(&excerpt) && excerpt.len() <= EXCERPT);
        }
    }
}
