//! The flags for the result and the usage of an execution.

use clap::Args;
use duolog::runs::{Ending, Execution, Finish, dollars};
use duolog::{Clock as _, SystemClock};

use super::{Context, text_or_stdin};
use crate::failure::Failure;

/// The result, the usage and the output of an execution.
#[derive(Args)]
pub(super) struct Used {
    /// Error message; the outcome is then failed
    #[arg(long, value_name = "TEXT")]
    error: Option<String>,
    /// Set the outcome to failed; to deferred with --stop-reason error_quota
    #[arg(long)]
    failed: bool,
    /// Stop reason, as one word
    #[arg(long, value_name = "WORD")]
    stop_reason: Option<String>,
    /// Number of turns
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    turns: Option<u64>,
    /// Duration in milliseconds [default: time since the start]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    duration_ms: Option<u64>,
    /// Duration of the model calls in milliseconds
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    api_duration_ms: Option<u64>,
    /// Cost in US dollars
    #[arg(long, value_name = "DOLLARS", allow_negative_numbers = true)]
    cost_usd: Option<f64>,
    /// Uncached input tokens
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    input_tokens: Option<u64>,
    /// Input tokens written to the cache
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    cache_creation_input_tokens: Option<u64>,
    /// Input tokens read from the cache
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    cache_read_input_tokens: Option<u64>,
    /// Output tokens
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    output_tokens: Option<u64>,
    /// Text of the output; - reads it from stdin. A long text is stored in full as a blob
    #[arg(long, value_name = "TEXT")]
    output: Option<String>,
    /// Session of the agent, if not set before: an id, a unique prefix or a thread name
    ///
    /// The id of a session of another program, such as Claude Code, is stored as given: the session need not exist here.
    #[arg(long, value_name = "SESSION")]
    pub(super) session: Option<String>,
}

impl Used {
    /// Reads stdin if needed, and validates the values. The session is resolved later, with the store.
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

/// Sets the duration of an execution if it is not given. It stays unknown if the clock was set back.
pub(super) fn with_duration(mut ending: Ending, execution: &Execution) -> Ending {
    let since = SystemClock.now().as_micros().saturating_sub(execution.started_at.as_micros());
    ending.finish.duration_ms = ending.finish.duration_ms.or_else(|| u64::try_from(since / 1_000).ok());
    ending
}
