//! How an execution ended and what it used, as flags.

use clap::Args;
use duolog::runs::{Ending, Execution, Finish, dollars};
use duolog::{Clock as _, SystemClock};

use super::{Context, text_or_stdin};
use crate::failure::Failure;

/// How an execution ended, what it used and what it said last.
#[derive(Args)]
pub(super) struct Used {
    /// It failed, and this is why
    #[arg(long, value_name = "TEXT")]
    error: Option<String>,
    /// It did not succeed; --stop-reason error_quota says that it was put off
    #[arg(long)]
    failed: bool,
    /// Why it stopped, in a word
    #[arg(long, value_name = "WORD")]
    stop_reason: Option<String>,
    /// How many turns it took
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    turns: Option<u64>,
    /// How long it took; since it was begun where it is not given
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    duration_ms: Option<u64>,
    /// How long the model took
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    api_duration_ms: Option<u64>,
    /// What it cost
    #[arg(long, value_name = "DOLLARS", allow_negative_numbers = true)]
    cost_usd: Option<f64>,
    /// Tokens read anew
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    input_tokens: Option<u64>,
    /// Tokens put into the cache
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    cache_creation_input_tokens: Option<u64>,
    /// Tokens read from the cache
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    cache_read_input_tokens: Option<u64>,
    /// Tokens written
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    output_tokens: Option<u64>,
    /// What it said last; - reads it from stdin. Of a long text the end is kept in its row, and the whole beside it
    #[arg(long, value_name = "TEXT")]
    output: Option<String>,
    /// Session id, thread name or a unique prefix of an id, if it was not known before
    #[arg(long, value_name = "SESSION")]
    pub(super) session: Option<String>,
}

impl Used {
    /// Reads what is to be read from stdin, and checks what can be checked without the store. The session is resolved later.
    pub(super) fn ending(self, context: &Context<'_>, summary: Option<String>) -> Result<Ending, Failure> {
        let output = self.output.map(|text| text_or_stdin(context, text)).transpose()?;
        let finish = Finish {
            success: self.error.is_none() && !self.failed,
            error: self.error,
            turns: self.turns,
            duration_ms: self.duration_ms,
            cost: self.cost_usd.map(dollars).transpose()?,
            input_tokens: self.input_tokens,
            cache_creation_input_tokens: self.cache_creation_input_tokens,
            cache_read_input_tokens: self.cache_read_input_tokens,
            output_tokens: self.output_tokens,
            api_duration_ms: self.api_duration_ms,
            stop_reason: self.stop_reason,
        };
        Ok(Ending { finish, output, summary, session_id: None })
    }
}

/// Fills in how long an execution took. A clock that was set back leaves it unknown.
pub(super) fn with_duration(mut ending: Ending, execution: &Execution) -> Ending {
    let since = SystemClock.now().as_micros().saturating_sub(execution.started_at.as_micros());
    ending.finish.duration_ms = ending.finish.duration_ms.or_else(|| u64::try_from(since / 1_000).ok());
    ending
}
