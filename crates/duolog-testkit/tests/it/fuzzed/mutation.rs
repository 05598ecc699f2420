//! Inputs derived from others: bytes, lines and JSON changed as by faulty writers.

use std::fmt;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

/// The maximum size of an input; longer lines reach no other code.
const INPUT_BYTES_MAX: usize = 256 * 1024;

/// Words that the code looks for, and bytes that often cause errors.
#[rustfmt::skip]
const TOKENS: &[&str] = &[
    "{", "}", "[", "]", ":", ",", "\"", "\\", "\\\"", "\\u0000", "\\ud83d", "\\ude00", "null", "true",
    "NaN", "-Infinity", "-0", "-1", "1e308", "1e999", "0.1e-400", "0.30000000000000004", "\"7\"",
    "18446744073709551615", "18446744073709551616", "9223372036854775808", "99999999999999999999999999999999999999",
    "\n", "\r\n", "\r", "\0", "\u{feff}", "\u{2028}", "\u{85}", "\u{fffd}", "\u{1F95B}", "\u{202e}", " ", "\t",
    "{}", "{}\n", "\"type\":", "\"type\":\"user\",", "\"type\":\"assistant\",", "\"type\":\"result\",",
    "\"type\":\"system\",\"subtype\":\"duolog.x\",", "\"kind\":\"step\",",
    "\"message\":{\"role\":\"user\",\"content\":\"x\"},", "\"message\":null,",
    "\"content\":[{\"type\":\"text\",\"text\":\"x\"}],", "\"payload\":{\"type\":\"message\"},",
    "\"agent_id\":\"a\",\"role\":\"user\",\"t\":1.5,\"iter\":0,", "\"usage\":{\"input_tokens\":1},",
    "\"timestamp\":\"2026-01-01T00:00:00Z\",", "\"timestamp\":-1e18,", "\"isSidechain\":true,", "\"sessionId\":\"s\",",
    "\"id\":\"i\",",
];
/// Bytes that are not UTF-8, each in a different way.
const NO_TEXT: &[&[u8]] = &[b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xf0\x9f", b"\x80", b"\xf8\x88\x80\x80\x80"];

/// An input, displayed as text for `printf %b`.
pub(super) struct Input(pub(super) Vec<u8>);

impl fmt::Debug for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.escape_ascii())
    }
}

/// One change of an input.
#[derive(Clone, Debug)]
enum Change {
    /// Replaces a number of bytes at any position.
    Anywhere(Index, usize, Vec<u8>),
    /// Inserts bytes at a position where JSON has a value or a member, so that a reader continues after them.
    InJson(Index, Vec<u8>),
    /// Replaces a number.
    Number(Index, Vec<u8>),
    /// Swaps two values between JSON delimiters.
    SwapValues(Index, Index),
    /// Moves or copies a number of bytes.
    Copy {
        from: Index,
        len: usize,
        to: Index,
        keep: bool,
    },
    Flip(Index, u8),
    Truncate(Index),
    SwapLines(Index, Index),
    CarriageReturns,
}

/// Returns inputs that start as one of the seeds and are changed one to eight times.
pub(super) fn mutated(seeds: &[Vec<u8>]) -> impl Strategy<Value = Input> + use<> {
    (select(seeds.to_vec()), vec(change(seeds), 1..=8)).prop_map(|(mut input, changes)| {
        for change in changes {
            change.apply(&mut input);
        }
        input.truncate(INPUT_BYTES_MAX);
        Input(input)
    })
}

fn change(seeds: &[Vec<u8>]) -> impl Strategy<Value = Change> + use<> {
    use Change::{Anywhere, CarriageReturns, Copy, Flip, InJson, Number, SwapLines, SwapValues, Truncate};
    let at = any::<Index>;
    let token = || select(TOKENS).prop_map(|token| token.as_bytes().to_vec());
    prop_oneof![
        4 => (at(), token()).prop_map(|(at, token)| InJson(at, token)),
        1 => (at(), inserted(seeds)).prop_map(|(at, bytes)| Anywhere(at, 0, bytes)),
        1 => (at(), any::<u8>()).prop_map(|(at, byte)| Anywhere(at, 1, vec![byte])),
        1 => (at(), 1..64usize).prop_map(|(at, len)| Anywhere(at, len, Vec::new())),
        1 => (at(), 0..8u8).prop_map(|(at, bit)| Flip(at, bit)),
        1 => at().prop_map(Truncate),
        2 => (at(), 1..400usize, at(), any::<bool>()).prop_map(|(from, len, to, keep)| Copy { from, len, to, keep }),
        1 => (at(), at()).prop_map(|(one, other)| SwapValues(one, other)),
        1 => (at(), token()).prop_map(|(at, token)| Number(at, token)),
        1 => (at(), at()).prop_map(|(one, other)| SwapLines(one, other)),
        1 => Just(CarriageReturns),
        1 => (at(), nested()).prop_map(|(at, nested)| InJson(at, nested)),
    ]
}

/// Returns bytes to insert: a token, invalid UTF-8, a part of another seed, or a run of one byte longer than a buffer.
fn inserted(seeds: &[Vec<u8>]) -> impl Strategy<Value = Vec<u8>> + use<> {
    let part = (select(seeds.to_vec()), any::<Index>(), 1..2000usize).prop_map(|(seed, from, len)| {
        let from = from.index(seed.len() + 1);
        seed[from..seed.len().min(from + len)].to_vec()
    });
    let run = (select(&b"x \n\"\xc3"[..]), select(&[100, 5_000, 70_000][..])).prop_map(|(byte, len)| vec![byte; len]);
    prop_oneof![
        4 => select(TOKENS).prop_map(|token| token.as_bytes().to_vec()),
        4 => select(NO_TEXT).prop_map(<[u8]>::to_vec),
        4 => part,
        1 => run,
    ]
}

/// Returns a deep value with a comma after it, closed or not.
fn nested() -> impl Strategy<Value = Vec<u8>> {
    let brackets = select(&[("[", "]"), ("{\"a\":", "}")][..]);
    (select(&[10, 129, 1_000, 20_000][..]), brackets, 0..3u8).prop_map(|(depth, (open, close), kind)| {
        let close = if kind == 0 { String::new() } else { close.repeat(depth) };
        format!("{}1{close},", open.repeat(depth)).into_bytes()
    })
}

impl Change {
    fn apply(self, input: &mut Vec<u8>) {
        let at = |index: Index, input: &[u8]| index.index(input.len() + 1);
        match self {
            Self::Anywhere(from, len, bytes) => {
                let from = at(from, input);
                input.splice(from..input.len().min(from + len), bytes);
            }
            Self::InJson(place, bytes) => {
                let marks = positions(input, |byte| b"{,[:\n".contains(&byte));
                let at = if marks.is_empty() { at(place, input) } else { place.get(&marks) + 1 };
                input.splice(at..at, bytes);
            }
            Self::Number(place, bytes) => {
                let digits = positions(input, |byte| byte.is_ascii_digit());
                if digits.is_empty() {
                    return;
                }
                let from = *place.get(&digits);
                let len = input[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
                input.splice(from..from + len, bytes);
            }
            Self::SwapValues(one, other) => {
                let marks = positions(input, |byte| b"{},:[]".contains(&byte));
                if marks.len() < 4 {
                    return;
                }
                let first = one.index(marks.len() / 2 - 1);
                let second = marks.len() / 2 + other.index(marks.len().div_ceil(2) - 1);
                let (a, b) = (marks[first] + 1..marks[first + 1], marks[second] + 1..marks[second + 1]);
                *input =
                    [&input[..a.start], &input[b.clone()], &input[a.end..b.start], &input[a], &input[b.end..]].concat();
            }
            Self::Copy { from, len, to, keep } => {
                let from = at(from, input);
                let range = from..input.len().min(from + len);
                let copy = input[range.clone()].to_vec();
                if !keep {
                    input.drain(range);
                }
                let to = at(to, input);
                input.splice(to..to, copy);
            }
            Self::Flip(place, bit) => {
                let at = at(place, input);
                if let Some(byte) = input.get_mut(at) {
                    *byte ^= 1 << bit;
                }
            }
            Self::Truncate(place) => input.truncate(at(place, input)),
            Self::SwapLines(one, other) => {
                let mut lines: Vec<&[u8]> = super::lines_in(input);
                let (one, other) = (one.index(lines.len()), other.index(lines.len()));
                lines.swap(one, other);
                *input = lines.join(&b'\n');
            }
            Self::CarriageReturns => *input = super::lines_in(input).join(&b"\r\n"[..]),
        }
    }
}

fn positions(input: &[u8], is: impl Fn(u8) -> bool) -> Vec<usize> {
    (0..input.len()).filter(|at| is(input[*at])).collect()
}
