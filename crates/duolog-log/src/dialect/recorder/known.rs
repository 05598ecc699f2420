//! The open turn at the end of a resumed session's log.

use duolog_types::Position;

use super::event::sum;
use crate::dialect::envelope::Usage;
use crate::dialect::object::Object;
use crate::dialect::scene::short_hash;
use crate::dialect::timeline::{Boundary, ItemKind};
use crate::dialect::usage::{UsageFact, fact};
use crate::dialect::{Dialect, Interpreter};

/// The turn without a result at the end of a log, read from the last line backward.
///
/// If the first prompt of the next recording has the same text, it continues that turn, and a remark is written in its
/// place. The turn's result includes its earlier responses: readers take a result for everything since the last one.
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
    /// Adds the line before the last added one. Returns false once no earlier line matters.
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
        // The recorder counts every message of the agent, with or without tokens.
        if Object::parse(line).is_some_and(|line| line.is("type", "assistant") && line.object("message").is_some()) {
            self.responses += 1;
        }
        if let Some(UsageFact::Response(response)) = fact(line) {
            self.tokens = sum(self.tokens, response.tokens.into());
        }
        true
    }
}
