//! Which texts are the same to a search: those that differ in case, width or composition only.
//!
//! A text is folded as Unicode's NFKC_Casefold does it: compatibility forms become plain ones, letters are case-folded in
//! full (`ß` is `ss`, every sigma is one), what has no look of its own is left out, and the rest is composed. It is folded
//! segment by segment, where a segment is a character and the marks that follow it: what stands in one segment never
//! changes another, so a place in the folded text can be turned into one in the text.

use std::ops::Range;

use caseless::Caseless as _;
use unicode_normalization::UnicodeNormalization as _;
use unicode_normalization::char::{decompose_compatible, is_combining_mark};

/// Puts the folded text into `folded`.
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

/// Turns places in the folded text, in order, into places in the text itself; a part of a segment counts as the whole.
pub(crate) fn unfold(text: &str, places: &mut [Range<usize>]) {
    let mut segments = segments(text);
    let mut room = String::new();
    // The segment that is being looked at: where it stands folded, and where in the text.
    let (mut folded, mut here) = (0..0, 0..0);
    let mut seek = |target: usize, take_end: bool| {
        while folded.end < target || (folded.end == target && !take_end) {
            let Some(segment) = segments.next() else { break };
            room.clear();
            push(&text[segment.clone()], &mut room);
            folded = folded.end..folded.end + room.len();
            here = segment;
        }
        if take_end { here.end } else { here.start }
    };
    for place in places {
        let start = seek(place.start, false);
        *place = start..seek(place.end, true);
    }
}

/// The segments of a text, in order.
fn segments(text: &str) -> impl Iterator<Item = Range<usize>> {
    let mut letters = text.char_indices().peekable();
    std::iter::from_fn(move || {
        let (start, _) = letters.next()?;
        while letters.next_if(|(_, letter)| !begins(*letter)).is_some() {}
        Some(start..letters.peek().map_or(text.len(), |(next, _)| *next))
    })
}

/// Returns true if a character never composes with the one before it.
fn begins(letter: char) -> bool {
    if letter.is_ascii() || is_stable(letter) {
        return true;
    }
    let mut first = None;
    decompose_compatible(letter, |part| {
        first.get_or_insert(part);
    });
    !first.is_some_and(|first| is_combining_mark(first) || is_jamo_of_end(first))
}

/// Vowels and final consonants of Hangul compose with what is before them.
fn is_jamo_of_end(letter: char) -> bool {
    matches!(letter, '\u{1161}'..='\u{1175}' | '\u{11a8}'..='\u{11c2}')
}

/// Kana, common ideographs and Hangul syllables: they fold to themselves, and begin a segment.
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
    // Twice, because what is decomposed after folding may have a case again.
    let once = segment.chars().nfkd().default_case_fold();
    let twice = once.nfkd().default_case_fold();
    folded.extend(twice.filter(|letter| !is_ignorable(*letter)).nfkc());
}

/// Characters that say nothing: soft hyphens, joiners, marks of direction, selectors of a variant.
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
        assert_ne!(folded("resume"), folded("résumé"), "a mark makes another letter");
    }

    proptest! {
        #[test]
        fn folding_by_segments_is_folding_the_whole(text in "\\PC{0,40}|[a-zA-Zß-ÿ\u{300}-\u{345}\u{1100}-\u{11ff}가-힣ｦ-ﾟΑ-ω]{0,40}") {
            let whole: String = text.chars().nfkd().default_case_fold().nfkd().default_case_fold()
                .filter(|letter| !is_ignorable(*letter)).nfkc().collect();
            // A mark that follows nothing but what is left out composes with what is before that in the whole text only.
            if !text.contains(is_ignorable) {
                prop_assert_eq!(folded(&text), whole);
            }
            prop_assert_eq!(folded(&folded(&text)), folded(&text), "folded twice is folded once");
        }

        #[test]
        fn places_are_whole_segments(text in "\\PC{0,40}", from in any::<prop::sample::Index>(), to in any::<prop::sample::Index>()) {
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
