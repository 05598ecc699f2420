//! The definition of a word, for the predicate and the index.
//!
//! Text is folded first (see `fold`). A word is a maximal sequence of letters and digits; in scripts without spaces
//! between words each character is a word. So a word boundary between two characters depends only on these two, and the
//! text between two boundaries has the same words anywhere: if a needle is found between two boundaries, its words are
//! consecutive words of the text.
//!
//! FTS5's `ascii` tokenizer treats every non-ASCII byte as part of a word and lowers ASCII letters, so it splits
//! prepared text at the same boundaries, independent of its Unicode version.

use crate::fold::fold;

/// Maximum number of indexed bytes of a word. People do not type longer words; the predicate compares the rest.
pub(crate) const WORD_BYTES_MAX: usize = 64;

/// Returns true if a folded character is part of a word.
pub(crate) fn is_part(letter: char) -> bool {
    letter.is_alphanumeric()
}

/// Returns true if a word continues from one folded character to the next.
pub(crate) fn is_joined(left: char, right: char) -> bool {
    is_part(left) && is_part(right) && !is_single_character_word(left) && !is_single_character_word(right)
}

/// Returns true for scripts that do not put spaces between words, or attach endings to them.
fn is_single_character_word(letter: char) -> bool {
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

/// Returns the text for the tokenizer: unchanged if possible, else prepared in `buffers`.
pub(crate) fn prepare<'t>(text: &'t str, buffers: &'t mut Buffers) -> &'t str {
    if is_plain(text.as_bytes()) {
        return text;
    }
    fold(text, &mut buffers.folded);
    split(&buffers.folded, &mut buffers.split);
    &buffers.split
}

/// Reusable buffers for the preparation of texts.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    folded: String,
    split: String,
}

/// Writes the words of a folded text to `out`, separated by spaces.
fn split(folded: &str, out: &mut String) {
    out.clear();
    out.reserve(folded.len());
    // The length of the word so far; `None` after it was cut.
    let mut word = Some(0);
    for letter in folded.chars() {
        if !is_part(letter) {
            out.push(' ');
            word = Some(0);
        } else if is_single_character_word(letter) {
            out.extend([' ', letter, ' ']);
            word = Some(0);
        } else {
            word = word.map(|bytes| bytes + letter.len_utf8()).filter(|bytes| *bytes <= WORD_BYTES_MAX);
            if word.is_some() {
                out.push(letter);
            }
        }
    }
}

/// Returns true if a text is ASCII without overlong words: the tokenizer handles it unprepared.
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

/// Returns the words of a folded text as they are indexed, in order.
pub(crate) fn words(folded: &str) -> Vec<String> {
    let mut out = String::new();
    split(folded, &mut out);
    out.split(' ').filter(|word| !word.is_empty()).map(str::to_owned).collect()
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
    fn words_are_sequences_of_letters_and_digits_or_single_characters() {
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
    fn overlong_words_are_cut_at_a_character() {
        let long = "a".repeat(65) + "!b";
        assert_eq!(words(&long), ["a".repeat(64), "b".to_owned()]);
        let wide = "é".repeat(40);
        assert_eq!(words(&wide), ["é".repeat(32)]);
        // After the cut, a shorter character that would fit is not added.
        assert_eq!(words(&format!("{}é{}", "x".repeat(63), "y")), ["x".repeat(63)]);
    }

    #[test]
    fn short_ascii_is_not_copied() {
        let mut buffers = Buffers::default();
        let text = "Let X = 1;\0";
        assert!(std::ptr::eq(prepare(text, &mut buffers), text));
    }
}
