//! `duolog sessions similar`.

use std::path::PathBuf;

use clap::{ArgGroup, Args, ValueEnum};
use duolog::limits;
use duolog::sessions;
use serde::Serialize;
use serde_json::value::RawValue;

use super::{Context, as_json, one_line, vector};
use crate::failure::{Ended, Outcome};
use crate::out::{Column, Table};

const AFTER: &str = "\
Examples:
  duolog sessions similar --vector '[0.1,0.2,0.3]' --k 5
  my-model --embed question.txt | duolog sessions similar --vector-file - --json | jq '.messages[0]'
  duolog sessions similar --vector-file question.f32 --raw --metric l2

JSON:
  {\"messages\": [{\"message\": id, \"score\", \"role\", \"content\": … as given …|null}]}
  score is the cosine, 1 where both point the same way; with --metric l2 the distance, 0 where they are the same";

/// Find the messages whose embeddings are nearest to a vector, the nearest first
///
/// Exact: every embedding of the state is looked at. One of another length is an error, as another model made it.
#[derive(Args)]
#[command(after_help = AFTER)]
#[command(group = ArgGroup::new("given").required(true).args(["vector", "vector_file"]))]
pub struct Similar {
    /// The vector, as a JSON array of numbers
    #[arg(long, value_name = "JSON")]
    vector: Option<String>,
    /// A file that holds it, - for stdin
    #[arg(long, value_name = "FILE")]
    vector_file: Option<PathBuf>,
    /// The file holds packed little-endian 32-bit floats instead of JSON
    #[arg(long, requires = "vector_file", conflicts_with = "vector")]
    raw: bool,
    /// How many at the most
    #[arg(long, value_name = "N", default_value_t = 10)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=i64::from(limits::PAGE_MAX)))]
    k: u32,
    /// How nearness is measured
    #[arg(long, default_value = "cosine")]
    metric: Metric,
}

/// How nearness is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Metric {
    /// By the angle between them
    Cosine,
    /// By the distance between them
    L2,
}

impl From<Metric> for sessions::Metric {
    fn from(metric: Metric) -> Self {
        match metric {
            Metric::Cosine => Self::Cosine,
            Metric::L2 => Self::L2,
        }
    }
}

#[derive(Serialize)]
struct Answer {
    messages: Vec<Shape>,
}

#[derive(Serialize)]
struct Shape {
    message: String,
    score: f32,
    role: Option<String>,
    content: Option<Box<RawValue>>,
}

impl Similar {
    pub fn run(self, context: &mut Context<'_>) -> Outcome {
        let vector = match (&self.vector, &self.vector_file) {
            (Some(text), _) => vector::parse("--vector", text)?,
            (None, file) => vector::read(file.as_deref().unwrap_or(std::path::Path::new("-")), self.raw)?,
        };
        let store = context.open_to_read()?;
        let messages = store.sessions().messages();
        let found = messages.similar(&vector, self.k as usize, self.metric.into())?;
        let mut shapes = Vec::new();
        for one in &found {
            // What cannot be read is near all the same.
            let message = messages.get(&one.id).ok();
            shapes.push(Shape {
                message: one.id.to_string(),
                score: one.score,
                role: message.as_ref().map(|message| message.role.clone()),
                content: message.as_ref().map(|message| as_json(&one_line(&message.content))),
            });
        }
        let answer = Answer { messages: shapes };
        context.out.answer(&answer, |text| {
            if !answer.messages.is_empty() {
                text.table(&table(&answer.messages));
            }
        })?;
        if found.is_empty() {
            context.out.note("no message has an embedding; sessions add --embedding gives one");
        }
        Ok(Ended::Done)
    }
}

/// The characters of what a message says that a table shows.
const SAYS_CHARS_MAX: usize = 60;

fn table(shapes: &[Shape]) -> Table {
    let columns = [(Column::Figure, "SCORE"), (Column::Id, "MESSAGE"), (Column::Word, "ROLE"), (Column::Text, "SAYS")];
    let mut table = Table::new(&columns);
    for one in shapes {
        let says = one.content.as_ref().map(|raw| raw.get().chars().take(SAYS_CHARS_MAX).collect());
        let role = one.role.clone().unwrap_or_default();
        table.row(vec![format!("{:.6}", one.score), one.message.clone(), role, says.unwrap_or_default()]);
    }
    table
}
