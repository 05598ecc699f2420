//! What a terminal may be given: no foreign text reaches it as a command, or invisibly.
//!
//! Text for people goes through [`visible`], wherever it goes. Data (`--json`, and bytes as they stand in a log) is exact
//! unless stdout is a terminal; there it goes through [`Screen`], which writes such characters as JSON escapes, so that
//! JSON stays the same JSON.

use std::fmt::Write as _;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io::{self, Write};
use std::sync::LazyLock;

use super::Tone;

/// Returns true for characters that a terminal would obey, or that change how others look without a look of their own:
/// controls, direction marks, line ends of Unicode, and characters of no width. Newlines and tabs are the caller's.
///
/// Combining marks and variation selectors are part of the letter before them.
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

/// One character of foreign text as it may be shown; newlines and tabs are left to the caller.
///
/// Control characters get the pictures that Unicode has for them, so that one sees that something was there.
pub fn harmless(letter: char) -> char {
    match letter {
        '\u{0}'..='\u{1f}' => char::from_u32(0x2400 + u32::from(letter)).unwrap_or('\u{fffd}'),
        '\u{7f}' => '\u{2421}',
        letter if is_hostile(letter) => '\u{fffd}',
        letter => letter,
    }
}

/// Text for people as it may be shown, with its newlines and tabs, and with the styles that [`styled`] put there.
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

/// Marks a text with a tone, for [`visible`] to turn into a style.
pub fn styled(tone: Tone, text: &str) -> String {
    let mark = MARK.as_str();
    format!("{mark}{}{text}{mark}.", tone.letter())
}

/// What stands for a style until text is shown. Foreign text cannot hold it: each process draws its own number.
static MARK: LazyLock<String> =
    LazyLock::new(|| format!("\u{f8ff}{:016x}", RandomState::new().build_hasher().finish()));

/// Data on its way to a terminal: hostile characters become JSON escapes, bytes that are not UTF-8 `\xNN`.
#[derive(Default)]
pub struct Screen {
    /// The beginning of a character whose end is not there yet.
    partial: Vec<u8>,
}

impl Screen {
    /// Writes bytes as they may be shown.
    pub fn write(&mut self, bytes: &[u8], out: &mut impl Write) -> io::Result<()> {
        self.partial.extend_from_slice(bytes);
        let held = std::mem::take(&mut self.partial);
        let mut shown = String::with_capacity(held.len());
        let mut chunks = held.utf8_chunks().peekable();
        while let Some(chunk) = chunks.next() {
            push_escaped(&mut shown, chunk.valid());
            let is_last = chunks.peek().is_none();
            // Of a character that is cut off at the end, the rest may come.
            let is_cut = std::str::from_utf8(chunk.invalid()).is_err_and(|error| error.error_len().is_none());
            if is_last && is_cut {
                self.partial = chunk.invalid().to_vec();
            } else {
                push_bytes(&mut shown, chunk.invalid());
            }
        }
        out.write_all(shown.as_bytes())
    }

    /// Writes what was held back: no more comes for now.
    pub fn end(&mut self, out: &mut impl Write) -> io::Result<()> {
        let mut shown = String::new();
        push_bytes(&mut shown, &std::mem::take(&mut self.partial));
        out.write_all(shown.as_bytes())
    }
}

fn push_bytes(shown: &mut String, bytes: &[u8]) {
    for byte in bytes {
        // A string takes all that is written to it.
        let _ = write!(shown, "\\x{byte:02x}");
    }
}

/// JSON with hostile characters written as escapes: it stays the same JSON.
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
            // A string takes all that is written to it.
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
