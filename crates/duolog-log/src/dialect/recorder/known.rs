//! What the log of a resumed session tells its recorder.

use duolog_types::Position;

use super::event::sum;
use crate::dialect::envelope::Usage;
use crate::dialect::object::Object;
use crate::dialect::scene::short_hash;
use crate::dialect::timeline::{Boundary, ItemKind};
use crate::dialect::usage::{UsageFact, fact};
use crate::dialect::{Dialect, Interpreter};

/// The turn that has no result yet at the end of a log, read from the last line backward.
///
/// If the first prompt of the next recording has the same text, it continues that turn: a remark is written in its
/// place. What its responses took is in the turn's result, too: readers take the result for all since the last one.
#[derive(Debug)]
pub struct Known {
    reader: Interpreter,
    pub(super) open_prompt: Option<u64>,
    pub(super) responses: u64,
    pub(super) tokens: Usage,
}

impl Default for Known {
    fn default() -> Self {
        Self { reader: Interpreter::new(Dialect::Envelope), open_prompt: None, responses: 0, tokens: Usage::default() }
    }
}

impl Known {
    /// Takes the line before the one taken last. Returns false once no earlier line matters.
    pub fn line_before(&mut self, line: &str) -> bool {
        let mut items = Vec::new();
        self.reader.line(Position::ZERO, line, &mut items);
        for item in items.iter().rev() {
            match item.boundary {
                Boundary::Opens if self.open_prompt.is_none() && item.kind == ItemKind::User => {
                    self.open_prompt = Some(short_hash(item.text.as_bytes()));
                }
                Boundary::Closes => return false,
                Boundary::Opens | Boundary::Within => {}
            }
        }
        // As the recorder counts them: every message of the agent, with its tokens or without.
        if Object::parse(line).is_some_and(|line| line.is("type", "assistant") && line.object("message").is_some()) {
            self.responses += 1;
        }
        if let Some(UsageFact::Response(response)) = fact(line) {
            self.tokens = sum(self.tokens, response.tokens.into());
        }
        true
    }
}
