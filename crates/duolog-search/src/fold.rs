//! Text folding: texts that differ only in case, width or composition are equal to a search.
//!
//! A text is folded as in Unicode's NFKC_Casefold: compatibility forms become plain ones, letters are fully case-folded
//! (`ß` is `ss`, every sigma is one), ignorable characters are removed, and the rest is composed. It is folded by
//! segment: a character and the marks that follow it. Segments do not affect each other, so a place in the folded text
//! can be mapped back to the text.

use std::ops::Range;

use caseless::Caseless as _;
use unicode_normalization::UnicodeNormalization as _;
use unicode_normalization::char::{decompose_compatible, is_combining_mark};

/// Writes the folded text to `folded`.
pub(crate) fn fold(text: &str, folded: &mut String) {
    folded.clear();
    if text.is_ascii() {
        folded.push_str(text);
        folded.make_ascii_lowercase();
        return;
    }
    folded.reserve(text.len());
    segments(text).for_each(|segment| push(&text[segment], folded));
}

/// Maps ordered places in the folded text to places in the text; a part of a segment maps to the whole segment.
pub(crate) fn unfold(text: &str, places: &mut [Range<usize>]) {
    let mut segments = segments(text);
    let mut buffer = String::new();
    // The current segment: its place in the folded text, and in the text.
    let (mut folded, mut here) = (0..0, 0..0);
    let mut seek = |target: usize, take_end: bool| {
        while folded.end < target || (folded.end == target && !take_end) {
            let Some(segment) = segments.next() else { break };
            buffer.clear();
            push(&text[segment.clone()], &mut buffer);
            folded = folded.end..folded.end + buffer.len();
            here = segment;
        }
        if take_end { here.end } else { here.start }
    };
    for place in places {
        let start = seek(place.start, false);
        *place = start..seek(place.end, true);
    }
}

/// Returns the segments of a text, in order.
fn segments(text: &str) -> impl Iterator<Item = Range<usize>> {
    let mut letters = text.char_indices().peekable();
    std::iter::from_fn(move || {
        let (start, _) = letters.next()?;
        while letters.next_if(|(_, letter)| !starts_segment(*letter)).is_some() {}
        Some(start..letters.peek().map_or(text.len(), |(next, _)| *next))
    })
}

/// Returns true if a character never composes with the one before it.
fn starts_segment(letter: char) -> bool {
    if letter.is_ascii() || is_stable(letter) {
        return true;
    }
    let mut first = None;
    decompose_compatible(letter, |part| {
        first.get_or_insert(part);
    });
    !first.is_some_and(|first| is_combining_mark(first) || is_trailing_jamo(first))
}

/// Returns true for vowels and final consonants of Hangul, which compose with the character before them.
fn is_trailing_jamo(letter: char) -> bool {
    matches!(letter, '\u{1161}'..='\u{1175}' | '\u{11a8}'..='\u{11c2}')
}

/// Returns true for kana, common ideographs and Hangul syllables: they fold to themselves and start a segment.
fn is_stable(letter: char) -> bool {
    matches!(letter, '\u{3041}'..='\u{3096}' | '\u{30a1}'..='\u{30fa}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}'
        | '\u{ac00}'..='\u{d7a3}')
}

/// Folds one segment.
fn push(segment: &str, folded: &mut String) {
    let mut letters = segment.chars();
    if let (Some(letter), None) = (letters.next(), letters.next()) {
        if letter.is_ascii() {
            folded.push(letter.to_ascii_lowercase());
            return;
        }
        if is_stable(letter) {
            folded.push(letter);
            return;
        }
    }
    // Twice, because the decomposition after the first folding may produce cased letters again.
    let once = segment.chars().nfkd().default_case_fold();
    let twice = once.nfkd().default_case_fold();
    folded.extend(twice.filter(|letter| !is_ignorable(*letter)).nfkc());
}

/// Returns true for ignorable characters: soft hyphens, joiners, direction marks, variation selectors.
fn is_ignorable(letter: char) -> bool {
    matches!(letter,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}' | '\u{180b}'..='\u{180f}'
        | '\u{200c}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}'
        | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fff8}' | '\u{1bca0}'..='\u{1bca3}'
        | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn folded(text: &str) -> String {
        let mut folded = String::new();
        fold(text, &mut folded);
        folded
    }

    #[test]
    fn case_width_and_composition_make_no_difference() {
        for (one, other) in [
            ("Straße", "STRASSE"),
            ("GRÖẞE", "gro\u{308}sse"),
            ("ὈΔΥΣΣΕΎΣ", "ὀδυσσεύς"),
            ("ΣΑΣ", "σας"),
            ("caf\u{e9}", "cafe\u{301}"),
            ("ＤＵＯｌｏｇ１２", "duolog12"),
            ("ｶﾞｷﾞ", "ガギ"),
            ("ﬁle", "FILE"),
            ("\u{212a}elvin \u{2126}", "kelvin ω"),
            ("\u{1112}\u{1161}\u{11ab}", "한"),
            ("so\u{ad}ft", "soft"),
            ("q\u{307}\u{323}", "q\u{323}\u{307}"),
            ("①", "1"),
        ] {
            assert_eq!(folded(one), folded(other), "{one} {other}");
        }
        assert_ne!(folded("resume"), folded("résumé"), "a letter with a mark is another letter");
    }

    proptest! {
        #[test]
        fn folding_by_segment_equals_folding_at_once(text in "\\PC{0,40}|[a-zA-Zß-ÿ\u{300}-\u{345}\u{1100}-\u{11ff}가-힣ｦ-ﾟΑ-ω]{0,40}") {
            let at_once: String = text.chars().nfkd().default_case_fold().nfkd().default_case_fold()
                .filter(|letter| !is_ignorable(*letter)).nfkc().collect();
            // After an ignorable character a mark composes with the character before, but only if the text is folded at
            // once.
            if !text.contains(is_ignorable) {
                prop_assert_eq!(folded(&text), at_once);
            }
            prop_assert_eq!(folded(&folded(&text)), folded(&text), "folding is idempotent");
        }

        #[test]
        fn places_are_complete_segments(text in "\\PC{0,40}", from in any::<prop::sample::Index>(), to in any::<prop::sample::Index>()) {
            let folded = folded(&text);
            let cuts: Vec<usize> = folded.char_indices().map(|(at, _)| at).chain([folded.len()]).collect();
            let (from, to) = (cuts[from.index(cuts.len())], cuts[to.index(cuts.len())]);
            if from < to {
                let mut place = from..to;
                unfold(&text, std::slice::from_mut(&mut place));
                let mut inner = String::new();
                super::fold(&text[place], &mut inner);
                prop_assert!(inner.contains(&folded[from..to]), "{:?} {:?}", inner, &folded[from..to]);
            }
        }
    }
}
