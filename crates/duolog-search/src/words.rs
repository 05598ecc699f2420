//! What a word is, for the predicate and for the index alike.
//!
//! Text is folded first, see `fold`. A word is a longest run of letters and digits; in scripts that
//! do not put spaces between words each character is a word of its own. So whether a word begins or ends between two
//! characters depends on these two alone, and whatever stands between two such places gives the same words wherever it
//! stands: the words of a needle that was found between them are words of the text, one after the other.
//!
//! FTS5's `ascii` tokenizer takes every byte that is not ASCII for a part of a word and lowers ASCII letters, so it cuts
//! prepared text exactly where we do, whatever version of Unicode it knows.

use crate::fold::fold;

/// The bytes of a word that are indexed. What is longer is no word that people type; the predicate compares the rest.
pub(crate) const WORD_BYTES_MAX: usize = 64;

/// Whether a folded character is part of a word.
pub(crate) fn is_part(letter: char) -> bool {
    letter.is_alphanumeric()
}

/// Whether a word goes on from one folded character to the next.
pub(crate) fn is_joined(left: char, right: char) -> bool {
    is_part(left) && is_part(right) && !stands_alone(left) && !stands_alone(right)
}

/// Whether a character is of a script that does not put spaces between words, or hangs endings on them.
fn stands_alone(letter: char) -> bool {
    matches!(letter,
        // Thai, Lao; Myanmar; Khmer.
        '\u{e00}'..='\u{eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}'
        // Radicals, kana, bopomofo, ideographs.
        | '\u{2e80}'..='\u{2fdf}' | '\u{3005}'..='\u{30ff}' | '\u{3100}'..='\u{312f}' | '\u{31a0}'..='\u{31ff}'
        | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{ff66}'..='\u{ff9f}'
        | '\u{20000}'..='\u{3ffff}'
        // Hangul.
        | '\u{ac00}'..='\u{d7a3}')
}

/// The text as the tokenizer is to see it: as it is where that will do, else made in `room`.
pub(crate) fn prepare<'t>(text: &'t str, room: &'t mut Room) -> &'t str {
    if is_plain(text.as_bytes()) {
        return text;
    }
    fold(text, &mut room.folded);
    split(&room.folded, &mut room.split);
    &room.split
}

/// Where texts are prepared.
#[derive(Debug, Default)]
pub(crate) struct Room {
    folded: String,
    split: String,
}

/// Puts the words of a folded text into `room`, with spaces between them.
fn split(folded: &str, room: &mut String) {
    room.clear();
    room.reserve(folded.len());
    // The bytes of the word so far; nothing once it was cut.
    let mut word = Some(0);
    for letter in folded.chars() {
        if !is_part(letter) {
            room.push(' ');
            word = Some(0);
        } else if stands_alone(letter) {
            room.extend([' ', letter, ' ']);
            word = Some(0);
        } else {
            word = word.map(|bytes| bytes + letter.len_utf8()).filter(|bytes| *bytes <= WORD_BYTES_MAX);
            if word.is_some() {
                room.push(letter);
            }
        }
    }
}

/// Whether a text is ASCII and no word in it is too long: the tokenizer does the rest.
fn is_plain(text: &[u8]) -> bool {
    if !text.is_ascii() {
        return false;
    }
    let mut run = 0;
    text.iter().all(|byte| {
        run = if byte.is_ascii_alphanumeric() { run + 1 } else { 0 };
        run <= WORD_BYTES_MAX
    })
}

/// The words of a folded text as the index has them, in order.
pub(crate) fn words(folded: &str) -> Vec<String> {
    let mut room = String::new();
    split(folded, &mut room);
    room.split(' ').filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        let mut folded = String::new();
        fold(text, &mut folded);
        super::words(&folded)
    }

    #[test]
    fn words_are_runs_of_letters_and_digits_or_single_signs() {
        let cases: &[(&str, &[&str])] = &[
            ("std::fs::read_to_string(x1)", &["std", "fs", "read", "to", "string", "x1"]),
            ("Größe ÄÖ", &["grösse", "äö"]),
            ("日本語 and Rustで", &["日", "本", "語", "and", "rust", "で"]),
            ("학교에서", &["학", "교", "에", "서"]),
            ("ภาษาไทย", &["ภ", "า", "ษ", "า", "ไ", "ท", "ย"]),
            ("cafe\u{301} İx", &["café", "i", "x"]),
            ("🎉 → !=", &[]),
            ("a\0b", &["a", "b"]),
            ("\u{212a}elvin", &["kelvin"]),
        ];
        for (text, expected) in cases {
            assert_eq!(words(text), *expected, "{text:?}");
        }
    }

    #[test]
    fn what_is_too_long_is_cut_at_a_character() {
        let long = "a".repeat(65) + "!b";
        assert_eq!(words(&long), ["a".repeat(64), "b".to_owned()]);
        let wide = "é".repeat(40);
        assert_eq!(words(&wide), ["é".repeat(32)]);
        // Once cut, nothing that would fit is added.
        assert_eq!(words(&format!("{}é{}", "x".repeat(63), "y")), ["x".repeat(63)]);
    }

    #[test]
    fn short_ascii_is_taken_as_it_is() {
        let mut room = Room::default();
        let text = "Let X = 1;\0";
        assert!(std::ptr::eq(prepare(text, &mut room), text));
    }
}
