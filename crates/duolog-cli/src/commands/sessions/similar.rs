//! `duolog sessions similar`.

use std::path::PathBuf;

use clap::{ArgGroup, Args, ValueEnum};
use duolog::errors::{Damaged, NotFound};
use duolog::sessions::{self, BranchRef, SessionRef, SimilarFilter};
use duolog::{Error, Store, Timestamp, limits};
use duolog_wire as wire;

use super::{Context, vector};
use crate::args::{self, OfUser};
use crate::failure::{CommandResult, Ended, Failure};
use crate::out::{Column, Table};

const AFTER: &str = "\
Examples:
  duolog sessions similar --vector '[0.1,0.2,0.3]' --k 5
  my-model --embed question.txt | duolog sessions similar --vector-file - --json | jq '.messages[0]'
  duolog sessions similar --vector-file question.f32 --raw --metric l2
  duolog sessions similar --vector '[0.1,0.2,0.3]' --session demo --role assistant --since 7d

JSON:
  {\"messages\": [{\"id\", \"score\", \"role\", \"content\": … as given …|null}]}
  score is the cosine similarity, 1 for the same direction. With --metric l2 it is the Euclidean
  distance, 0 for equal vectors, with a maximum of 3.4028235e38";

/// Find the messages nearest to an embedding
///
/// The nearest message comes first. The search is exact: it compares the embedding of every message that matches the
/// filters. An embedding of another length is an error, because it comes from another model.
#[derive(Args)]
#[command(after_help = AFTER)]
#[command(group = ArgGroup::new("given").required(true).args(["vector", "vector_file"]))]
pub struct Similar {
    /// Vector, as a JSON array of numbers
    #[arg(long, value_name = "JSON")]
    vector: Option<String>,
    /// File with the vector, - for stdin
    #[arg(long, value_name = "FILE")]
    vector_file: Option<PathBuf>,
    /// Read the file as packed little-endian 32-bit floats instead of JSON
    #[arg(long, requires = "vector_file", conflicts_with = "vector")]
    raw: bool,
    /// Maximum number of results
    #[arg(long, value_name = "N", default_value_t = 10)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=i64::from(limits::PAGE_MAX)))]
    k: u32,
    /// Distance metric
    #[arg(long, default_value = "cosine")]
    metric: Metric,
    #[command(flatten)]
    among: FilterArgs,
}

/// Filters for the messages to compare.
#[derive(Args)]
struct FilterArgs {
    /// Filter by session: session id, unique prefix or thread name
    #[arg(long, value_name = "SESSION", conflicts_with = "session_name")]
    session: Option<String>,
    #[command(flatten)]
    of_user: OfUser,
    /// Filter by branch of the session: branch id or name
    #[arg(long, value_name = "BRANCH")]
    branch: Option<String>,
    /// Filter by role: user, assistant, …
    #[arg(long, value_name = "ROLE")]
    role: Option<String>,
    /// Filter by sender
    #[arg(long, value_name = "NAME")]
    sender: Option<String>,
    /// Filter by recipient
    #[arg(long, value_name = "NAME")]
    recipient: Option<String>,
    /// Filter by channel
    #[arg(long, value_name = "NAME")]
    channel: Option<String>,
    /// Filter by class in the program that created the message
    #[arg(long, value_name = "CLASS")]
    lion_class: Option<String>,
    /// Start of the range of creation times: an instant, a day, or an age like 12h
    #[arg(long, value_name = "TIME", value_parser = args::since)]
    since: Option<Timestamp>,
    /// End of the range of creation times, exclusive: an instant, a day, or an age like 12h
    #[arg(long, value_name = "TIME", value_parser = args::since)]
    until: Option<Timestamp>,
}

impl FilterArgs {
    fn filter(self, context: &Context<'_>, store: &Store) -> Result<SimilarFilter, Failure> {
        let reference = self.session.map(SessionRef::Text).or(self.of_user.reference(context.config()?));
        let session = match reference {
            Some(reference) => Some(store.sessions().resolve(&reference)?.id),
            None => None,
        };
        Ok(SimilarFilter {
            session,
            branch: self.branch.map(BranchRef::Text),
            role: self.role,
            sender: self.sender,
            recipient: self.recipient,
            channel: self.channel,
            lion_class: self.lion_class,
            since: self.since,
            until: self.until,
        })
    }
}

/// Distance metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Metric {
    /// Cosine of the angle between the vectors
    Cosine,
    /// Euclidean distance between the vectors
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

impl Similar {
    pub fn run(self, context: &mut Context<'_>) -> CommandResult {
        let vector = match (&self.vector, &self.vector_file) {
            (Some(text), _) => vector::parse("--vector", text)?,
            (None, file) => vector::read(file.as_deref().unwrap_or(std::path::Path::new("-")), self.raw)?,
        };
        let store = context.open_to_read()?;
        let messages = store.sessions().messages();
        let filter = self.among.filter(context, &store)?;
        let found = messages.similar(&vector, self.k as usize, self.metric.into(), &filter)?;
        let mut shapes = Vec::new();
        for one in &found {
            // Keep the score of a message that cannot be read or was deleted since.
            let message = match messages.get(&one.id) {
                Ok(message) => Some(message),
                Err(error @ (Error::Damaged(Damaged::Item { .. }) | Error::NotFound(NotFound::Message(_)))) => {
                    context.out.alert(error);
                    None
                }
                Err(error) => return Err(error.into()),
            };
            shapes.push(wire::SimilarMessage {
                id: one.id.to_string(),
                score: one.score,
                role: message.as_ref().map(|message| message.role.clone()),
                content: message.as_ref().map(|message| wire::Json::of(&message.content)),
            });
        }
        let answer = wire::SimilarMessages { messages: shapes };
        context.out.answer(&answer, |text| {
            if !answer.messages.is_empty() {
                text.table(&table(&answer.messages));
            }
        })?;
        if found.is_empty() && filter == SimilarFilter::default() {
            context.out.note("no message has an embedding; add one with: duolog sessions add --embedding");
        } else if found.is_empty() {
            context.out.note("no message that matches the filters has an embedding");
        }
        Ok(Ended::Done)
    }
}

/// Maximum number of characters of the content in the table.
const SAYS_CHARS_MAX: usize = 60;

fn table(shapes: &[wire::SimilarMessage]) -> Table {
    let columns = [(Column::Figure, "SCORE"), (Column::Id, "ID"), (Column::Word, "ROLE"), (Column::Text, "CONTENT")];
    let mut table = Table::new(&columns);
    for one in shapes {
        let says = one.content.as_ref().map(|raw| raw.get().chars().take(SAYS_CHARS_MAX).collect());
        let role = one.role.clone().unwrap_or_default();
        table.row(vec![format!("{:.6}", one.score), one.id.clone(), role, says.unwrap_or_default()]);
    }
    table
}
