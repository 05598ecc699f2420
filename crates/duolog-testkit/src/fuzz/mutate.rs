//! Mutations: of bytes, of lines, and of JSON as broken writers break it.

use crate::random::Random;

use super::INPUT_BYTES_MAX;

/// Words that the code looks for, and bytes that are trouble anywhere.
const TOKENS: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    ":",
    ",",
    "\"",
    "\\",
    "\\\"",
    "\\u0000",
    "\\ud83d",
    "\\ude00",
    "null",
    "true",
    "NaN",
    "-Infinity",
    "-0",
    "1e999",
    "0.1e-400",
    "18446744073709551616",
    "9223372036854775808",
    "99999999999999999999999999999999999999",
    "\n",
    "\r\n",
    "\r",
    "\0",
    "\u{feff}",
    "\u{2028}",
    "\u{85}",
    "\u{fffd}",
    "\u{1F95B}",
    "\u{202e}",
    " ",
    "\t",
    "{}",
    "{}\n",
    "\"type\":",
    "\"type\":\"user\",",
    "\"type\":\"assistant\",",
    "\"type\":\"result\",",
    "\"type\":\"system\",\"subtype\":\"duolog.x\",",
    "\"kind\":\"step\",",
    "\"message\":{\"role\":\"user\",\"content\":\"x\"},",
    "\"message\":null,",
    "\"content\":[{\"type\":\"text\",\"text\":\"x\"}],",
    "\"payload\":{\"type\":\"message\"},",
    "\"agent_id\":\"a\",\"role\":\"user\",\"t\":1.5,\"iter\":0,",
    "\"usage\":{\"input_tokens\":1},",
    "\"timestamp\":\"2026-01-01T00:00:00Z\",",
    "\"timestamp\":-1e18,",
    "\"isSidechain\":true,",
    "\"sessionId\":\"s\",",
    "\"id\":\"i\",",
];
/// Bytes that are not UTF-8, each in its own way.
const NO_TEXT: &[&[u8]] = &[b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xf0\x9f", b"\x80", b"\xf8\x88\x80\x80\x80"];
const DEPTHS: [usize; 4] = [10, 129, 1_000, 20_000];

/// Makes inputs out of others.
pub(super) struct Mutator<'s> {
    seeds: &'s [Vec<u8>],
    random: Random,
}

impl<'s> Mutator<'s> {
    pub(super) fn new(seeds: &'s [Vec<u8>], seed: u64) -> Self {
        Self { seeds, random: Random::new(seed) }
    }

    /// The next input: a seed, changed one to eight times.
    pub(super) fn next(&mut self) -> Vec<u8> {
        let mut input = if self.seeds.is_empty() { Vec::new() } else { self.a_seed().to_vec() };
        for _ in 0..=self.below(8) {
            self.change(&mut input);
        }
        input.truncate(INPUT_BYTES_MAX);
        input
    }

    fn change(&mut self, input: &mut Vec<u8>) {
        match self.below(16) {
            0 => self.flip(input),
            1 => self.overwrite(input),
            2 => drop(input.drain(self.range(input.len(), 64))),
            3 => input.truncate(self.at(input)),
            4 => self.duplicate(input),
            5 => self.splice(input),
            6 => self.swap_tokens(input),
            7 => self.replace_number(input),
            8 => {
                let bytes = NO_TEXT[self.below(NO_TEXT.len())];
                self.insert(input, bytes);
            }
            9 => self.swap_lines(input),
            10 => end_lines_with_cr(input),
            11 => self.move_range(input),
            // What is long or deep takes long to look at, and one in many is enough.
            12 if self.below(4) == 0 => self.nest(input),
            13 if self.below(4) == 0 => self.lengthen(input),
            _ => self.insert_token(input),
        }
    }

    fn below(&mut self, n: usize) -> usize {
        usize::try_from(self.random.below(n.max(1) as u64)).unwrap_or(0)
    }

    fn at(&mut self, input: &[u8]) -> usize {
        self.below(input.len() + 1)
    }

    fn range(&mut self, len: usize, max: usize) -> std::ops::Range<usize> {
        let from = self.below(len);
        from..len.min(from + 1 + self.below(max))
    }

    fn a_seed(&mut self) -> &'s [u8] {
        &self.seeds[self.below(self.seeds.len())]
    }

    fn insert(&mut self, input: &mut Vec<u8>, bytes: &[u8]) {
        let at = self.at(input);
        input.splice(at..at, bytes.iter().copied());
    }

    fn flip(&mut self, input: &mut [u8]) {
        let (at, bit) = (self.below(input.len()), self.below(8));
        if let Some(byte) = input.get_mut(at) {
            *byte ^= 1 << bit;
        }
    }

    fn overwrite(&mut self, input: &mut [u8]) {
        let (at, with) = (self.below(input.len()), self.random.next());
        if let Some(byte) = input.get_mut(at) {
            *byte = with.to_le_bytes()[0];
        }
    }

    fn duplicate(&mut self, input: &mut Vec<u8>) {
        let range = self.range(input.len(), 400);
        let copy = input.get(range).unwrap_or_default().to_vec();
        self.insert(input, &copy);
    }

    /// A part of another seed, put in.
    fn splice(&mut self, input: &mut Vec<u8>) {
        let other = self.a_seed();
        let range = self.range(other.len(), 2000);
        self.insert(input, other.get(range).unwrap_or_default());
    }

    fn insert_token(&mut self, input: &mut Vec<u8>) {
        let token = TOKENS[self.below(TOKENS.len())];
        // Mostly where JSON would take it, so that a reader gets further than the token.
        let places: Vec<usize> = positions(input, |byte| matches!(byte, b'{' | b',' | b'[' | b'\n')).collect();
        if places.is_empty() || self.below(4) == 0 {
            return self.insert(input, token.as_bytes());
        }
        let at = places[self.below(places.len())] + 1;
        input.splice(at..at, token.bytes());
    }

    /// Two values between the marks of JSON change places.
    fn swap_tokens(&mut self, input: &mut Vec<u8>) {
        let marks: Vec<usize> =
            positions(input, |byte| matches!(byte, b'{' | b'}' | b',' | b':' | b'[' | b']')).collect();
        if marks.len() < 4 {
            return;
        }
        let first = self.below(marks.len() / 2 - 1);
        let second = marks.len() / 2 + self.below(marks.len().div_ceil(2) - 1);
        let (a, b) = (marks[first] + 1..marks[first + 1], marks[second] + 1..marks[second + 1]);
        let swapped =
            [&input[..a.start], &input[b.clone()], &input[a.end..b.start], &input[a], &input[b.end..]].concat();
        *input = swapped;
    }

    fn replace_number(&mut self, input: &mut Vec<u8>) {
        let digits: Vec<usize> = positions(input, |byte| byte.is_ascii_digit()).collect();
        if digits.is_empty() {
            return;
        }
        let at = digits[self.below(digits.len())];
        let end = input[at..].iter().position(|byte| !byte.is_ascii_digit()).map_or(input.len(), |len| at + len);
        let with: &[u8] = match self.below(6) {
            0 => b"-1",
            1 => b"18446744073709551615",
            2 => b"18446744073709551616",
            3 => b"1e308",
            4 => b"0.30000000000000004",
            _ => b"\"7\"",
        };
        input.splice(at..end, with.iter().copied());
    }

    fn nest(&mut self, input: &mut Vec<u8>) {
        let depth = DEPTHS[self.below(DEPTHS.len())];
        let (open, close) = if self.below(2) == 0 { ("[", "]") } else { ("{\"a\":", "}") };
        let whole = self.below(3) > 0;
        let nested = open.repeat(depth) + "1" + &if whole { close.repeat(depth) } else { String::new() };
        // In the place of a value, where there is one.
        let values: Vec<usize> = positions(input, |byte| byte == b':').collect();
        if values.is_empty() {
            return self.insert(input, nested.as_bytes());
        }
        let at = values[self.below(values.len())] + 1;
        input.splice(at..at, nested.bytes().chain([b',']));
    }

    fn swap_lines(&mut self, input: &mut Vec<u8>) {
        let mut lines: Vec<&[u8]> = input.split(|byte| *byte == b'\n').collect();
        let (a, b) = (self.below(lines.len()), self.below(lines.len()));
        lines.swap(a, b);
        *input = lines.join(&b'\n');
    }

    fn move_range(&mut self, input: &mut Vec<u8>) {
        let range = self.range(input.len(), 200);
        let moved: Vec<u8> = if input.is_empty() { Vec::new() } else { input.drain(range).collect() };
        self.insert(input, &moved);
    }

    /// A run of one byte, longer than some buffer.
    fn lengthen(&mut self, input: &mut Vec<u8>) {
        let len = [100, 5_000, 70_000][self.below(3)];
        let byte = [b'x', b' ', b'\n', b'"', 0xc3][self.below(5)];
        self.insert(input, &vec![byte; len]);
    }
}

fn end_lines_with_cr(input: &mut Vec<u8>) {
    let lines: Vec<&[u8]> = input.split(|byte| *byte == b'\n').collect();
    *input = lines.join(&b"\r\n"[..]);
}

fn positions(input: &[u8], is: impl Fn(u8) -> bool) -> impl Iterator<Item = usize> {
    input.iter().enumerate().filter(move |(_, byte)| is(**byte)).map(|(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_inputs_and_another_gives_others() {
        let seeds = vec![b"{\"a\":1}\n{\"b\":[2,3]}\n".to_vec(), Vec::new()];
        let made = |seed| {
            let mut mutator = Mutator::new(&seeds, seed);
            (0..200).map(|_| mutator.next()).collect::<Vec<_>>()
        };
        assert_eq!(made(1), made(1));
        assert_ne!(made(1), made(2));
        assert!(made(3).iter().all(|input| input.len() <= INPUT_BYTES_MAX));
        let mut of_nothing = Mutator::new(&[], 1);
        assert!((0..200).any(|_| !of_nothing.next().is_empty()));
    }
}
