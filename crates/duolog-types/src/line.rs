//! Lines to append: checked once, then written unchanged.

use std::ops::Range;

use serde::Serialize;

use crate::json::{JsonFault, check_object};
use crate::limits::{JSON_DEPTH_MAX, Limits};

/// Why a line cannot be appended to a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LineFault {
    /// Empty, or white space only.
    #[error("it is empty")]
    Empty,
    /// JSON, but not an object.
    #[error("it is JSON but not an object")]
    NotAnObject,
    /// Not JSON.
    #[error("it is not JSON (from byte {0} on)")]
    NotJson(usize),
    /// Not UTF-8.
    #[error("it is not UTF-8 (from byte {0} on)")]
    NotUtf8(usize),
    /// A raw NUL byte; the escape `\u0000` is allowed.
    #[error("it holds a raw NUL byte (at {0})")]
    Nul(usize),
    /// A raw newline, which would split the line.
    #[error("it holds a raw newline (at byte {0})")]
    Newline(usize),
    /// Longer than the limit.
    #[error("it is {bytes} bytes long, over the limit of {max}")]
    TooLong {
        /// The length in bytes.
        bytes: usize,
        /// The limit.
        max: usize,
    },
    /// Nested deeper than the limit.
    #[error("it nests deeper than {JSON_DEPTH_MAX} levels")]
    TooDeep,
}

/// A rejected line and its number in the batch.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot append line {number}: {fault}")]
pub struct BadLine {
    /// The number in the batch, from 1.
    pub number: usize,
    /// The error.
    pub fault: LineFault,
}

/// Checks that `line` (without its newline) is a valid log line.
pub fn check_line(line: &[u8], line_bytes_max: usize) -> Result<(), LineFault> {
    if line.len() > line_bytes_max {
        return Err(LineFault::TooLong { bytes: line.len(), max: line_bytes_max });
    }
    let text = std::str::from_utf8(line).map_err(|error| LineFault::NotUtf8(error.valid_up_to()))?;
    let fault = match check_object(text) {
        Ok(()) => {
            // A JSON string cannot contain either byte raw. Between tokens JSON allows a newline, but a log line does not.
            return memchr::memchr(b'\n', line).map_or(Ok(()), |at| Err(LineFault::Newline(at)));
        }
        Err(fault) => fault,
    };
    // Off the fast path, find a more specific error.
    if let Some(at) = memchr::memchr2(0, b'\n', line) {
        return Err(if line[at] == 0 { LineFault::Nul(at) } else { LineFault::Newline(at) });
    }
    Err(match fault {
        _ if text.trim().is_empty() => LineFault::Empty,
        JsonFault::NotAnObject => LineFault::NotAnObject,
        JsonFault::Syntax(at) => LineFault::NotJson(at),
        JsonFault::TooDeep(_) => LineFault::TooDeep,
    })
}

/// Checks what needs no parser: length, UTF-8, no NUL, a brace at each end.
///
/// Every line that [`check_line`] accepts passes. For readers: a line was parsed before it was appended.
pub fn check_outline(line: &[u8], line_bytes_max: usize) -> Result<(), LineFault> {
    if line.len() <= line_bytes_max
        && has_braces(line)
        && memchr::memchr(0, line).is_none()
        && std::str::from_utf8(line).is_ok()
    {
        return Ok(());
    }
    // The line is invalid; find the reason.
    check_line(line, line_bytes_max)
}

/// Returns the number of complete lines if all of them pass [`check_outline`].
pub fn count_outlined(lines: &[u8], line_bytes_max: usize) -> Option<u64> {
    if memchr::memchr(0, lines).is_some() || std::str::from_utf8(lines).is_err() {
        return None;
    }
    let (mut count, mut start) = (0, 0);
    for newline in memchr::memchr_iter(b'\n', lines) {
        let line = &lines[start..newline];
        if line.len() > line_bytes_max || !has_braces(line) {
            return None;
        }
        start = newline + 1;
        count += 1;
    }
    Some(count)
}

/// Returns true if a line begins and ends with a brace, ignoring white space.
fn has_braces(line: &[u8]) -> bool {
    let is_object = |line: &[u8]| matches!(line, [b'{', .., b'}']);
    is_object(line) || is_object(line.trim_ascii())
}

/// Complete lines that are appended together, as one contiguous run of bytes.
///
/// A batch can be cleared and reused, so that a writer allocates once.
#[derive(Debug, Clone)]
pub struct Batch {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    line_bytes_max: usize,
}

impl Default for Batch {
    fn default() -> Self {
        Self::new(&Limits::default())
    }
}

impl Batch {
    /// Creates an empty batch with `limits`.
    pub fn new(limits: &Limits) -> Self {
        Self { bytes: Vec::new(), ends: Vec::new(), line_bytes_max: limits.line_bytes_max }
    }

    /// Checks a line, given without its newline, and adds it unchanged.
    pub fn push(&mut self, line: &[u8]) -> Result<(), BadLine> {
        check_line(line, self.line_bytes_max).map_err(|fault| self.bad(fault))?;
        self.bytes.extend_from_slice(line);
        self.end_line();
        Ok(())
    }

    /// Adds an event that serializes to a JSON object. The output of serde_json is valid; only its size,
    /// kind and depth are checked.
    pub fn push_event<T: Serialize + ?Sized>(&mut self, event: &T) -> Result<(), BadLine> {
        let start = self.bytes.len();
        let written = serde_json::to_writer(&mut self.bytes, event);
        let line = &self.bytes[start..];
        let fault = if written.is_err() {
            Some(LineFault::NotJson(0))
        } else if line.len() > self.line_bytes_max {
            Some(LineFault::TooLong { bytes: line.len(), max: self.line_bytes_max })
        } else if line.first() != Some(&b'{') {
            Some(LineFault::NotAnObject)
        } else if deeper_than_limit(line) {
            Some(LineFault::TooDeep)
        } else {
            None
        };
        if let Some(fault) = fault {
            self.bytes.truncate(start);
            return Err(self.bad(fault));
        }
        self.end_line();
        Ok(())
    }

    /// Splits `text` at newlines and adds each line; the last may lack its newline.
    pub fn push_text(&mut self, text: &[u8]) -> Result<(), BadLine> {
        let text = text.strip_suffix(b"\n").unwrap_or(text);
        if text.is_empty() {
            return Ok(());
        }
        text.split(|byte| *byte == b'\n').try_for_each(|line| self.push(line))
    }

    /// Returns the lines with their newlines, as they are written to the log.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the byte range of each line in [`Batch::as_bytes`], including its newline.
    pub fn lines(&self) -> impl ExactSizeIterator<Item = Range<usize>> + DoubleEndedIterator + '_ {
        self.ends.iter().enumerate().map(|(i, end)| self.start_of(i)..*end)
    }

    /// Returns the number of lines.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns true if the batch has no lines.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Clears the batch and keeps its memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    /// Returns a new batch with the lines from index `from`.
    #[must_use]
    pub fn tail(&self, from: usize) -> Self {
        let start = self.start_of(from.min(self.len()));
        Self {
            bytes: self.bytes[start..].to_vec(),
            ends: self.ends.iter().skip(from).map(|end| end - start).collect(),
            line_bytes_max: self.line_bytes_max,
        }
    }

    fn start_of(&self, line: usize) -> usize {
        line.checked_sub(1).map_or(0, |before| self.ends[before])
    }

    fn end_line(&mut self) {
        self.bytes.push(b'\n');
        self.ends.push(self.bytes.len());
    }

    fn bad(&self, fault: LineFault) -> BadLine {
        BadLine { number: self.len() + 1, fault }
    }
}

/// Returns true if valid JSON nests too deep. Cheaper than a check: most events have few brackets and need no scan.
fn deeper_than_limit(json: &[u8]) -> bool {
    let opens = json.iter().filter(|byte| matches!(byte, b'{' | b'[')).count();
    opens > JSON_DEPTH_MAX as usize
        && std::str::from_utf8(json).is_ok_and(|text| matches!(check_object(text), Err(JsonFault::TooDeep(_))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(line: &[u8]) -> LineFault {
        check_line(line, 100).expect_err("refused")
    }

    #[test]
    fn each_kind_of_bad_line_has_its_own_reason() {
        assert_eq!(fault(b""), LineFault::Empty);
        assert_eq!(fault(b"  \t"), LineFault::Empty);
        assert_eq!(fault(b"[1]"), LineFault::NotAnObject);
        assert_eq!(fault(b"{\"a\":"), LineFault::NotJson(5));
        assert_eq!(fault(b"{\"a\":\"\xff\"}"), LineFault::NotUtf8(6));
        assert_eq!(fault(b"{\"a\":\"\0\"}"), LineFault::Nul(6));
        assert_eq!(fault(b"\0\0\0\0"), LineFault::Nul(0));
        assert_eq!(fault(b"{\"a\":\n1}"), LineFault::Newline(5));
        assert_eq!(fault(&[b' '; 101]), LineFault::TooLong { bytes: 101, max: 100 });
    }

    #[test]
    fn the_outline_of_a_line_is_checked_without_parsing_it() {
        let lines: [&[u8]; 9] =
            [b"{}", b" { \"x\" : 2 } \r", b"{\"a\":", b"[1]", b"", b" ", b"{\"a\":\"\xff\"}", b"{\"\0\":1}", b"\0\0"];
        for line in lines {
            assert_eq!(check_outline(line, 100), check_line(line, 100), "{}", line.escape_ascii());
            let whole = [b"{}\n", line, b"\n{}\n"].concat();
            assert_eq!(count_outlined(&whole, 100), check_line(line, 100).ok().map(|()| 3), "{}", line.escape_ascii());
        }
        assert_eq!(check_outline(b"{a}", 100), Ok(()), "only a parser sees that");
        assert_eq!(check_outline(b"{   }", 4), Err(LineFault::TooLong { bytes: 5, max: 4 }));
        assert_eq!(count_outlined(b"{   }\n", 4), None);
    }

    #[test]
    fn a_batch_keeps_lines_byte_for_byte() {
        let mut batch = Batch::default();
        batch.push_text(b"{\"b\":1,\"a\":\"\\ud83d\"}\n { \"x\" : 2 } \r\n").expect("two lines");
        assert_eq!(batch.len(), 2);
        assert_eq!(batch.as_bytes(), b"{\"b\":1,\"a\":\"\\ud83d\"}\n { \"x\" : 2 } \r\n");
        assert_eq!(batch.tail(1).as_bytes(), b" { \"x\" : 2 } \r\n");
        assert_eq!(batch.tail(0).as_bytes(), batch.as_bytes());
        assert!(batch.tail(2).is_empty());
        assert_eq!(batch.lines().map(|line| line.len()).sum::<usize>(), batch.as_bytes().len());
    }

    #[test]
    fn a_refused_line_leaves_the_batch_as_it_was_and_is_numbered() {
        let mut batch = Batch::default();
        batch.push(b"{}").expect("fits");
        let before = batch.as_bytes().to_vec();
        assert_eq!(batch.push(b"nope").expect_err("refused").number, 2);
        assert_eq!(batch.push_event(&[1, 2]).expect_err("refused").fault, LineFault::NotAnObject);
        assert_eq!(batch.as_bytes(), before);
    }

    #[test]
    fn nothing_is_no_line() {
        let mut batch = Batch::default();
        batch.push_text(b"").expect("fine");
        assert!(batch.is_empty());
    }
}
