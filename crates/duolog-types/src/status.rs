//! Closed vocabularies. The SQL repeats each as a `CHECK`; a word that is not in the list is an error, not a default.

/// A word that is not in its vocabulary.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{word:?} is not a {what}; it is one of {known}")]
pub struct UnknownWord {
    what: &'static str,
    word: String,
    known: String,
}

impl UnknownWord {
    /// The error of a text that is none of these words.
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
            /// Every word, in order.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The word as it stands in rows, JSON and on the command line.
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
/// How tokens are paid for. Those beyond a length are among the bare ones, and told apart for prices that differ there.
Charge, "charge", {
    /// By the price of their model.
    Bare = "bare",
    /// By what the log states.
    Stated = "stated",
    /// Of the bare ones: all of the responses whose context was over 200,000.
    Over200k = "beyond_200k",
    /// Of the bare ones: all of the responses whose context was over 272,000.
    Over272k = "over_272k",
});

impl Charge {
    /// Whether these tokens are told of under another charge too, and must not be added to it.
    pub const fn is_part(self) -> bool {
        matches!(self, Self::Over200k | Self::Over272k)
    }
}

words!(
/// How a session stands. Absent: nobody has said.
SessionStatus, "session status", {
    /// An agent works on it.
    Running = "running",
    /// It reached its end.
    Completed = "completed",
    /// It reached its end with nothing to show.
    CompletedEmpty = "completed_empty",
    /// It ended with an error.
    Failed = "failed",
    /// It ran out of time.
    TimedOut = "timed_out",
    /// It was ended from inside.
    Aborted = "aborted",
    /// It was ended by a person.
    Cancelled = "cancelled",
});

impl SessionStatus {
    /// Whether a session that stands so has come to its end: only a reopening leaves it.
    pub const fn is_terminal(self) -> bool {
        !matches!(self, Self::Running)
    }
}

words!(
/// What started a session.
InvocationKind, "invocation kind", {
    /// One agent.
    Agent = "agent",
    /// A playbook.
    Play = "play",
    /// A flow.
    Flow = "flow",
    /// One of several side by side.
    Fanout = "fanout",
    /// A play of a show.
    ShowPlay = "show-play",
    /// The engine itself.
    Engine = "engine",
});

words!(
/// Where a session came from.
SourceKind, "source kind", {
    /// Written here.
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
/// How the firing of a schedule ended.
CronOutcome, "outcome of a cron run", {
    /// What it was for was done, or is on its way.
    Ok = "ok",
    /// There was nothing to do.
    Nothing = "nothing",
    /// It went wrong.
    Failed = "failed",
    /// It was left out on purpose.
    Skipped = "skipped",
});

words!(
/// Who speaks in a chat.
ChatRole, "role in a chat", {
    /// A person.
    User = "user",
    /// The agent.
    Assistant = "assistant",
});

words!(
/// How a run of a workflow stands.
RunStatus, "run status", {
    /// It waits for a place among those that run.
    Queued = "queued",
    /// It runs, or is to be taken up by who runs it.
    Running = "running",
    /// It waits for an answer, or for whoever paused it.
    Paused = "paused",
    /// It reached its end.
    Succeeded = "succeeded",
    /// It ended with an error, or was refused at a gate.
    Failed = "failed",
    /// It was ended from outside, or waited too long for a place.
    Cancelled = "cancelled",
});

impl RunStatus {
    /// Whether a run that stands so has come to its end: only a retry leaves it.
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed | Self::Cancelled)
    }

    /// Its place in a list that shows what is active first.
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
/// What set a run or an execution off.
TriggerType, "trigger type", {
    /// A call from outside.
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
/// What resolves a gate.
ApprovalKind, "approval kind", {
    /// A yes or a no.
    Approve = "approve",
    /// Any answer in words.
    Reply = "reply",
});

words!(
/// How a gate stands.
ApprovalStatus, "approval status", {
    /// Nobody has answered.
    Pending = "pending",
    /// The answer was yes.
    Approved = "approved",
    /// The answer was no.
    Rejected = "rejected",
    /// It was answered in words.
    Answered = "answered",
    /// It can no longer be answered: its time is over, or its run ended otherwise.
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
