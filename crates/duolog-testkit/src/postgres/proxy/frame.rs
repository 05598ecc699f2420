//! Messages of PostgreSQL's protocol, version 3, as far as the proxy needs them.
//!
//! A message is a type byte, a length that includes itself, and a body. Only the start of a long body is kept; the rest
//! is passed through.

use std::io::{self, Read, Write};

/// The part of a body that is examined.
const HEAD_BYTES_MAX: usize = 64 * 1024;
/// The limit of the server.
const BODY_BYTES_MAX: usize = 1 << 30;
/// The limit of the server for a greeting.
const HELLO_BYTES_MAX: usize = 10_000;

/// Codes in place of a version: the client requests encryption before its greeting.
const TLS: u32 = 80_877_103;
const GSS: u32 = 80_877_104;

/// The first message of a client, which has no type: a greeting or a cancel request.
pub(super) struct Hello(pub(super) Vec<u8>);

impl Hello {
    /// Reads it, and refuses each request for encryption.
    pub(super) fn read(client: &mut (impl Read + Write)) -> io::Result<Self> {
        loop {
            let mut len = [0; 4];
            client.read_exact(&mut len)?;
            let body = body_len(len)?;
            if !(4..=HELLO_BYTES_MAX).contains(&body) {
                return Err(not_the_protocol());
            }
            let mut bytes = len.to_vec();
            bytes.resize(4 + body, 0);
            client.read_exact(&mut bytes[4..])?;
            let code = u32::from_be_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]);
            if code != TLS && code != GSS {
                return Ok(Self(bytes));
            }
            client.write_all(b"N")?;
        }
    }
}

/// A message, with the start of its body.
pub(super) struct Frame {
    pub(super) kind: u8,
    pub(super) head: Vec<u8>,
    /// The length of the body that is not read yet.
    rest: usize,
}

impl Frame {
    /// Reads the next message; `None` if the stream ends between two.
    pub(super) fn read(stream: &mut impl Read) -> io::Result<Option<Self>> {
        let mut kind = [0];
        if stream.read(&mut kind)? == 0 {
            return Ok(None);
        }
        let mut len = [0; 4];
        stream.read_exact(&mut len)?;
        let body = body_len(len)?;
        let mut head = vec![0; body.min(HEAD_BYTES_MAX)];
        stream.read_exact(&mut head)?;
        Ok(Some(Self { kind: kind[0], rest: body - head.len(), head }))
    }

    /// Writes the message to `to`, and copies the rest of its body from `from`.
    pub(super) fn forward(&self, from: &mut impl Read, to: &mut impl Write) -> io::Result<()> {
        let len = u32::try_from(4 + self.len()).map_err(|_| not_the_protocol())?;
        let mut bytes = Vec::with_capacity(5 + self.head.len());
        bytes.push(self.kind);
        bytes.extend(len.to_be_bytes());
        bytes.extend(&self.head);
        to.write_all(&bytes)?;
        let rest = self.rest as u64;
        if io::copy(&mut from.take(rest), to)? < rest {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(())
    }

    /// Returns the length of the body.
    pub(super) fn len(&self) -> usize {
        self.head.len() + self.rest
    }

    /// Returns true if the message ends a batch of the client: `Query`, `Sync` or `FunctionCall`.
    pub(super) fn asks(&self) -> bool {
        matches!(self.kind, b'Q' | b'S' | b'F')
    }

    /// Returns true if the message ends an answer of the server: `ReadyForQuery`.
    pub(super) fn ends_answer(&self) -> bool {
        self.kind == b'Z'
    }

    /// Changes the server's version in the `ParameterStatus` that reports it, and in a `DataRow` with its number as
    /// text. The first sets `truth` to the real number, and the second is compared with it.
    pub(super) fn claim_version(&mut self, version: &str, truth: &mut Option<String>) {
        if self.kind == b'S' && self.text(0) == Some("server_version") {
            *truth = self.text(1).and_then(number_of);
            self.head = [b"server_version\0", version.as_bytes(), b"\0"].concat();
        } else if self.kind == b'D'
            && let (Some(truth), Some(claim)) = (truth, number_of(version))
            && let Some(at) = self.head.windows(truth.len()).position(|part| part == truth.as_bytes())
            && claim.len() == truth.len()
        {
            self.head[at..at + claim.len()].copy_from_slice(claim.as_bytes());
        }
    }

    /// Returns the text number `index` of those at the start of the body, each of which ends with a zero.
    pub(super) fn text(&self, index: usize) -> Option<&str> {
        let part = self.head.split(|byte| *byte == 0).nth(index)?;
        // The start of a long body may end inside a character.
        Some(part.utf8_chunks().next().map_or("", |chunk| chunk.valid()))
    }
}

/// Returns `server_version_num` for a `server_version`: `150004` for `15.4 (Debian …)`.
fn number_of(version: &str) -> Option<String> {
    let (major, minor) = version.split(' ').next()?.split_once('.')?;
    Some((major.parse::<u32>().ok()? * 10_000 + minor.parse::<u32>().ok()?).to_string())
}

fn body_len(len: [u8; 4]) -> io::Result<usize> {
    let len = usize::try_from(u32::from_be_bytes(len)).ok().and_then(|len| len.checked_sub(4));
    len.filter(|len| *len <= BODY_BYTES_MAX).ok_or_else(not_the_protocol)
}

fn not_the_protocol() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "this is not PostgreSQL's protocol, version 3")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u8, body: &[u8]) -> Vec<u8> {
        let len = u32::try_from(4 + body.len()).expect("a length").to_be_bytes();
        [&[kind][..], &len, body].concat()
    }

    #[test]
    fn a_message_of_any_length_is_forwarded_unchanged() {
        for len in [0, 1, HEAD_BYTES_MAX - 1, HEAD_BYTES_MAX, HEAD_BYTES_MAX + 1, 3 * HEAD_BYTES_MAX] {
            let sent = message(b'Q', &vec![b'x'; len]);
            let mut from = sent.as_slice();
            let mut got = Vec::new();
            let frame = Frame::read(&mut from).expect("readable").expect("a message");
            frame.forward(&mut from, &mut got).expect("forwarded");
            assert!(got == sent && from.is_empty(), "a body of {len}");
        }
    }

    #[test]
    fn a_truncated_message_is_an_error() {
        let sent = message(b'Q', b"SELECT 1\0");
        assert!(Frame::read(&mut &sent[..0]).expect("an end").is_none());
        for cut in 1..sent.len() {
            assert!(Frame::read(&mut &sent[..cut]).is_err(), "cut at {cut}");
        }
    }

    #[test]
    fn invalid_lengths_are_refused() {
        for len in [0_u32, 3, u32::MAX] {
            let bytes = [&b"Q"[..], &len.to_be_bytes()].concat();
            assert!(Frame::read(&mut bytes.as_slice()).is_err(), "{len}");
        }
    }

    #[test]
    fn a_row_with_the_version_number_gets_the_claimed_one() {
        let mut truth = Some("150004".to_owned());
        for (body, expected) in [
            (b"\0\x01\0\0\0\x06150004", b"\0\x01\0\0\0\x06140099"),
            (b"\0\x01\0\0\0\x06150005", b"\0\x01\0\0\0\x06150005"),
        ] {
            let mut frame = Frame::read(&mut message(b'D', body).as_slice()).expect("readable").expect("a message");
            frame.claim_version("14.99", &mut truth);
            assert_eq!(frame.head, expected);
        }
    }

    #[test]
    fn only_the_version_is_rewritten() {
        for (body, expected) in [
            (&b"server_version\x0015.4\0"[..], &b"server_version\x009.6\0"[..]),
            (b"TimeZone\0UTC\0", b"TimeZone\0UTC\0"),
        ] {
            let mut frame = Frame::read(&mut message(b'S', body).as_slice()).expect("readable").expect("a message");
            frame.claim_version("9.6", &mut None);
            let mut got = Vec::new();
            frame.forward(&mut io::empty(), &mut got).expect("forwarded");
            assert_eq!(got, message(b'S', expected));
        }
    }
}
