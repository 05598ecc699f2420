//! Escaping for terminals: no control or invisible character of untrusted text reaches a terminal.
//!
//! Text goes through [`visible`], also if stdout is not a terminal. Data (`--json` and raw log bytes) is exact unless stdout
//! is a terminal; there it goes through [`Screen`], which writes such characters as JSON escapes, so JSON keeps its meaning.

use std::fmt::Write as _;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io::{self, Write};
use std::sync::LazyLock;

use super::Tone;

/// Returns true for control characters, direction marks, Unicode line separators and zero-width characters. The caller
/// handles newlines and tabs.
///
/// Combining marks and variation selectors belong to the previous character and are not hostile.
pub fn is_hostile(letter: char) -> bool {
    letter.is_control()
        || matches!(
            letter,
            '\u{ad}'
                | '\u{34f}'
                | '\u{61c}'
                | '\u{115f}'..='\u{1160}'
                | '\u{17b4}'..='\u{17b5}'
                | '\u{180e}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{3164}'
                | '\u{feff}'
                | '\u{ffa0}'
                | '\u{fff0}'..='\u{fffb}'
                | '\u{1bca0}'..='\u{1bca3}'
                | '\u{1d173}'..='\u{1d17a}'
                | '\u{e0000}'..='\u{e00ff}'
                | '\u{e01f0}'..='\u{e0fff}'
        )
}

/// Returns a visible replacement for a hostile character, and any other character unchanged. The caller handles newlines
/// and tabs.
///
/// Control characters become Unicode control pictures, so that a reader sees them.
pub fn harmless(letter: char) -> char {
    match letter {
        '\u{0}'..='\u{1f}' => char::from_u32(0x2400 + u32::from(letter)).unwrap_or('\u{fffd}'),
        '\u{7f}' => '\u{2421}',
        letter if is_hostile(letter) => '\u{fffd}',
        letter => letter,
    }
}

/// Returns text without hostile characters. Newlines, tabs and the styles of [`styled`] are kept.
pub fn visible(text: &str) -> String {
    let mut pieces = text.split(MARK.as_str());
    let mut shown = String::with_capacity(text.len());
    push_harmless(&mut shown, pieces.next().unwrap_or_default());
    for piece in pieces {
        let mut rest = piece.chars();
        match rest.next().and_then(Tone::of_letter) {
            Some(tone) => shown.push_str(&tone.style().render().to_string()),
            None => shown.push_str("\u{1b}[0m"),
        }
        push_harmless(&mut shown, rest.as_str());
    }
    shown
}

fn push_harmless(shown: &mut String, text: &str) {
    shown.extend(text.chars().map(|letter| if matches!(letter, '\n' | '\t') { letter } else { harmless(letter) }));
}

/// Marks a text with a tone, which [`visible`] renders as a style.
pub fn styled(tone: Tone, text: &str) -> String {
    let mark = MARK.as_str();
    format!("{mark}{}{text}{mark}.", tone.letter())
}

/// The placeholder for a style until text is rendered. Untrusted text cannot contain it: it has a random number per process.
static MARK: LazyLock<String> =
    LazyLock::new(|| format!("\u{f8ff}{:016x}", RandomState::new().build_hasher().finish()));

/// Escapes data for a terminal: hostile characters become JSON escapes, and bytes that are not UTF-8 become `\xNN`.
#[derive(Default)]
pub struct Screen {
    /// The first bytes of an incomplete character.
    partial: Vec<u8>,
}

impl Screen {
    /// Writes escaped bytes.
    pub fn write(&mut self, bytes: &[u8], out: &mut impl Write) -> io::Result<()> {
        self.partial.extend_from_slice(bytes);
        let held = std::mem::take(&mut self.partial);
        let mut shown = String::with_capacity(held.len());
        let mut chunks = held.utf8_chunks().peekable();
        while let Some(chunk) = chunks.next() {
            push_escaped(&mut shown, chunk.valid());
            let is_last = chunks.peek().is_none();
            // The rest of an incomplete character at the end may follow in the next write.
            let is_cut = std::str::from_utf8(chunk.invalid()).is_err_and(|error| error.error_len().is_none());
            if is_last && is_cut {
                self.partial = chunk.invalid().to_vec();
            } else {
                push_bytes(&mut shown, chunk.invalid());
            }
        }
        out.write_all(shown.as_bytes())
    }

    /// Writes the bytes of an incomplete character.
    pub fn end(&mut self, out: &mut impl Write) -> io::Result<()> {
        let mut shown = String::new();
        push_bytes(&mut shown, &std::mem::take(&mut self.partial));
        out.write_all(shown.as_bytes())
    }
}

fn push_bytes(shown: &mut String, bytes: &[u8]) {
    for byte in bytes {
        // Writing to a string cannot fail.
        let _ = write!(shown, "\\x{byte:02x}");
    }
}

/// Returns JSON with hostile characters as escapes; its meaning does not change.
pub fn escaped(json: &str) -> String {
    let mut shown = String::with_capacity(json.len());
    push_escaped(&mut shown, json);
    shown
}

fn push_escaped(shown: &mut String, text: &str) {
    for letter in text.chars() {
        if matches!(letter, '\n' | '\t') || !is_hostile(letter) {
            shown.push(letter);
            continue;
        }
        for unit in letter.encode_utf16(&mut [0; 2]) {
            // Writing to a string cannot fail.
            let _ = write!(shown, "\\u{unit:04x}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOSTILE: &str =
        "\u{1b}[2J\u{9b}31m\u{7f}\u{202e}a\u{2066}\u{200f}\u{61c}\u{200b}\u{200d}\u{feff}\u{ad}\u{e0041}\r";

    #[test]
    fn people_see_that_something_was_there() {
        let shown = visible(&format!("{HOSTILE}\n\tb é 日 e\u{301}"));
        assert!(!shown.contains(|letter| is_hostile(letter) && !matches!(letter, '\n' | '\t')), "{shown:?}");
        assert!(shown.starts_with("␛[2J�31m␡�a�") && shown.ends_with("\n\tb é 日 e\u{301}"), "{shown:?}");
    }

    #[test]
    fn only_our_styles_are_styles() {
        let shown = visible(&format!("\u{1b}[31mx {}", styled(Tone::Bad, HOSTILE)));
        assert_eq!(
            shown.matches('\u{1b}').count(),
            2 + usize::from(shown.contains("\u{1b}[1m\u{1b}[31m")),
            "{shown:?}"
        );
        assert!(shown.starts_with("␛[31mx \u{1b}[") && shown.ends_with("\u{1b}[0m"), "{shown:?}");
    }

    #[test]
    fn data_on_a_screen_is_the_same_json() {
        let line = format!("{{\"a\":{:?},\"b\":\"\u{9b}\u{202e}\u{e0041}é\u{200b}\"}}\n", "x");
        let (mut whole, mut pieces) = (Vec::new(), Vec::new());
        let mut screen = Screen::default();
        screen.write(line.as_bytes(), &mut whole).expect("written");
        line.as_bytes().iter().for_each(|byte| screen.write(&[*byte], &mut pieces).expect("written"));
        screen.end(&mut pieces).expect("written");
        assert_eq!(whole, pieces, "wherever it is cut");
        let shown = String::from_utf8(whole).expect("text");
        assert!(!shown.contains(|letter| is_hostile(letter) && letter != '\n'), "{shown:?}");
        let read = |text: &str| serde_json::from_str::<serde_json::Value>(text).expect("JSON");
        assert_eq!(read(&shown), read(&line));
    }

    #[test]
    fn bytes_that_are_no_text_are_shown_by_number() {
        let (mut screen, mut shown) = (Screen::default(), Vec::new());
        screen.write(b"a\x9b\xff\xe2\x80", &mut shown).expect("written");
        screen.end(&mut shown).expect("written");
        assert_eq!(String::from_utf8_lossy(&shown), "a\\x9b\\xff\\xe2\\x80");
    }
}
