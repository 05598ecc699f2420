//! Finds the statement that a client's message executes: a simple query contains its text; in the extended protocol the
//! text was parsed under a name and bound to a portal before.

use std::collections::HashMap;

use super::frame::Frame;

/// The statements and portals of one connection, by name.
#[derive(Debug, Default)]
pub(super) struct Statements {
    parsed: HashMap<String, String>,
    bound: HashMap<String, String>,
}

impl Statements {
    /// Processes a message. Returns the text of the statement if the message executes one.
    pub(super) fn hear(&mut self, frame: &Frame) -> Option<String> {
        match frame.kind {
            b'Q' => return frame.text(0).map(str::to_owned),
            b'P' => {
                self.parsed.insert(frame.text(0)?.to_owned(), frame.text(1)?.to_owned());
            }
            b'B' => {
                let text = self.parsed.get(frame.text(1)?)?.clone();
                self.bound.insert(frame.text(0)?.to_owned(), text);
            }
            b'E' => return self.bound.get(frame.text(0)?).cloned(),
            // `Close` of a statement or of a portal.
            b'C' => {
                let (kind, name) = frame.text(0)?.split_at_checked(1)?;
                if kind == "S" {
                    self.parsed.remove(name)
                } else {
                    self.bound.remove(name)
                };
            }
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, body: &[u8]) -> Frame {
        let len = u32::try_from(4 + body.len()).expect("a length").to_be_bytes();
        let bytes = [&[kind][..], &len, body].concat();
        Frame::read(&mut bytes.as_slice()).expect("readable").expect("a message")
    }

    #[test]
    fn a_statement_is_known_by_its_name_until_it_is_closed() {
        let mut statements = Statements::default();
        assert_eq!(statements.hear(&frame(b'Q', b"BEGIN\0")).as_deref(), Some("BEGIN"));
        assert_eq!(statements.hear(&frame(b'P', b"s1\0COMMIT\0\0\0")), None);
        assert_eq!(statements.hear(&frame(b'B', b"\0s1\0\0\0\0\0\0\0")), None);
        assert_eq!(statements.hear(&frame(b'E', b"\0\0\0\0\0")).as_deref(), Some("COMMIT"));
        assert_eq!(statements.hear(&frame(b'C', b"Ss1\0")), None);
        assert_eq!(statements.hear(&frame(b'C', b"P\0")), None);
        assert_eq!(statements.hear(&frame(b'E', b"\0\0\0\0\0")), None);
    }

    #[test]
    fn malformed_messages_execute_nothing() {
        let mut statements = Statements::default();
        for (kind, body) in [(b'P', &b""[..]), (b'B', b"\0unknown\0"), (b'E', b"\xff\0"), (b'C', b""), (b'X', b"")] {
            assert_eq!(statements.hear(&frame(kind, body)), None);
        }
    }
}
