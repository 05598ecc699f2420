//! Closed vocabularies. The SQL repeats each one as a `CHECK`; an unknown word is an error.

/// The error of an unknown word.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{word:?} is not a {what}; it is one of {known}")]
pub struct UnknownWord {
    what: &'static str,
    word: String,
    known: String,
}

impl UnknownWord {
    /// Creates the error for a text.
    pub fn new(what: &'static str, text: &str, known: &[&str]) -> Self {
        Self { what, word: text.chars().take(64).collect(), known: known.join(", ") }
    }
}

/// Declares a closed vocabulary: an enum whose variants are words in rows, in JSON and on the command line.
#[macro_export]
macro_rules! words {
    ($(#[$doc:meta])* $name:ident, $what:literal, { $($(#[$vdoc:meta])* $variant:ident = $text:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$vdoc])* $variant),+ }

        impl $name {
            /// All words, in order.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// Returns the word used in rows, in JSON and on the command line.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::UnknownWord;

            fn from_str(text: &str) -> Result<Self, $crate::UnknownWord> {
                match text {
                    $($text => Ok(Self::$variant),)+
                    _ => Err($crate::UnknownWord::new($what, text, &[$($text),+])),
                }
            }
        }

        $crate::serde_as_text!($name);
    };
}

words!(
/// How tokens are charged. Tokens of long contexts are also counted as bare; they are separate for prices that differ.
Charge, "charge", {
    /// By the price of the model.
    Bare = "bare",
    /// By the cost stated in the log.
    Stated = "stated",
    /// Bare tokens of responses with a context over 200,000 tokens.
    Over200k = "beyond_200k",
    /// Bare tokens of responses with a context over 272,000 tokens.
    Over272k = "over_272k",
});

impl Charge {
    /// Returns true if these tokens are also counted under another charge and must not be added to it.
    pub const fn is_part(self) -> bool {
        matches!(self, Self::Over200k | Self::Over272k)
    }
}

words!(
/// The status of a session; absent if it was never set.
SessionStatus, "session status", {
    /// An agent works on the session.
    Running = "running",
    /// Completed.
    Completed = "completed",
    /// Completed without a result.
    CompletedEmpty = "completed_empty",
    /// Failed.
    Failed = "failed",
    /// Timed out.
    TimedOut = "timed_out",
    /// Ended by the agent.
    Aborted = "aborted",
    /// Cancelled by a person.
    Cancelled = "cancelled",
});

impl SessionStatus {
    /// Returns true if the status is final: only reopening the session changes it.
    pub const fn is_terminal(self) -> bool {
        !matches!(self, Self::Running)
    }
}

words!(
/// The kind of invocation that started a session.
InvocationKind, "invocation kind", {
    /// One agent.
    Agent = "agent",
    /// A playbook.
    Play = "play",
    /// A flow.
    Flow = "flow",
    /// One of several parallel agents.
    Fanout = "fanout",
    /// A play of a show.
    ShowPlay = "show-play",
    /// The engine itself.
    Engine = "engine",
});

words!(
/// The origin of a session.
SourceKind, "source kind", {
    /// Written by Duolog.
    Live = "live",
    /// Imported from lionagi's run folders.
    ImportedFs = "imported_fs",
    /// Imported from Codex.
    ImportedCodex = "imported_codex",
    /// Imported from Claude Code.
    ImportedClaude = "imported_claude",
    /// Imported from Last Light.
    ImportedLastlight = "imported_lastlight",
    /// Imported from Skillet.
    ImportedSkillet = "imported_skillet",
    /// Imported from lionagi's state database.
    ImportedLionagi = "imported_lionagi",
    /// Imported from AgentryLab.
    ImportedAgentrylab = "imported_agentrylab",
    /// Imported from NanoClaw.
    ImportedNanoclaw = "imported_nanoclaw",
});

words!(
/// The outcome of a schedule run.
CronOutcome, "outcome of a cron run", {
    /// The workflow was started or is done.
    Ok = "ok",
    /// Nothing to do.
    Nothing = "nothing",
    /// Failed.
    Failed = "failed",
    /// Skipped.
    Skipped = "skipped",
});

words!(
/// The author of a chat message.
ChatRole, "role in a chat", {
    /// A person.
    User = "user",
    /// The agent.
    Assistant = "assistant",
});

words!(
/// The status of a workflow run.
RunStatus, "run status", {
    /// Waiting for a free slot.
    Queued = "queued",
    /// Running, or ready to claim.
    Running = "running",
    /// Waiting for an answer, or paused by a person.
    Paused = "paused",
    /// Succeeded.
    Succeeded = "succeeded",
    /// Failed, or rejected at a gate.
    Failed = "failed",
    /// Cancelled, or queued for too long.
    Cancelled = "cancelled",
});

impl RunStatus {
    /// Returns true if the status is final: only a retry changes it.
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed | Self::Cancelled)
    }

    /// Returns the rank in a list with active runs first.
    pub const fn active_rank(self) -> u32 {
        match self {
            Self::Running => 0,
            Self::Paused => 1,
            Self::Queued => 2,
            Self::Succeeded | Self::Failed | Self::Cancelled => 3,
        }
    }
}

words!(
/// The trigger of a run or an execution.
TriggerType, "trigger type", {
    /// An external call.
    Webhook = "webhook",
    /// A schedule.
    Cron = "cron",
    /// A conversation.
    Chat = "chat",
    /// A program.
    Api = "api",
    /// A person at a terminal.
    Cli = "cli",
});

words!(
/// The kind of answer that a gate expects.
ApprovalKind, "approval kind", {
    /// Approve or reject.
    Approve = "approve",
    /// A text reply.
    Reply = "reply",
});

words!(
/// The status of a gate.
ApprovalStatus, "approval status", {
    /// Pending.
    Pending = "pending",
    /// Approved.
    Approved = "approved",
    /// Rejected.
    Rejected = "rejected",
    /// Answered with a text.
    Answered = "answered",
    /// Expired, or its run has ended.
    Expired = "expired",
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_reads_back_and_others_are_refused_by_name() {
        for status in SessionStatus::ALL {
            assert_eq!(status.as_str().parse(), Ok(*status));
        }
        let error = "done".parse::<SessionStatus>().expect_err("unknown").to_string();
        assert!(error.contains("done") && error.contains("completed_empty"), "{error}");
    }
}
