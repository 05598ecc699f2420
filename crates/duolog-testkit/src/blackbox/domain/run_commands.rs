//! The changes of a run, and their command lines.

use super::super::command::Call;

/// A change of a run. A fence is that of the last claim, or a wrong one.
#[derive(Clone, Debug)]
pub enum Command {
    /// Begins a phase.
    Begin { phase: String, fence: Option<u64> },
    /// Ends an execution.
    End {
        execution: String,
        fence: Option<u64>,
        error: bool,
        output: Option<String>,
        summary: Option<String>,
        cost: String,
    },
    /// Skips a phase.
    Skip { phase: String, fence: Option<u64> },
    /// Adds a phase to the history.
    Complete { phase: String, fence: Option<u64>, summary: String },
    /// Merges a value into the scratch.
    Merge { key: String, value: String, fence: Option<u64> },
    /// Pauses the run at a gate.
    Gate {
        id: String,
        kind: &'static str,
        hash: Option<String>,
        at: Option<LoopAt>,
        merge: Option<(String, String)>,
        fence: Option<u64>,
    },
    /// Answers a gate: approve, reject or reply.
    Answer { verb: &'static str, gate: String, response: String, hash: Option<String> },
    /// Acknowledges a response.
    Acknowledge { gate: String, fence: Option<u64> },
    /// Claims the run.
    Claim { owner: String },
    /// Releases the claim.
    Release { fence: Option<u64> },
    /// Pauses, resumes, cancels, fails or retries.
    Transition(&'static str),
    /// Finishes the run as its owner.
    Finish { error: bool, fence: Option<u64> },
}

/// The permission that a change needs.
#[derive(Clone, Copy, Debug)]
pub enum Permission {
    /// None.
    Anyone,
    /// The owner's fence; none while the run has no owner.
    Owner(Option<u64>),
}

/// The iteration of a loop that pauses at a gate.
#[derive(Clone, Debug)]
pub struct LoopAt {
    /// The key of the scratch.
    pub key: String,
    /// The iteration.
    pub iteration: usize,
    /// The execution that pauses.
    pub execution: String,
}

impl Command {
    /// Returns the permission that the change needs.
    pub fn permission(&self) -> Permission {
        match self {
            Self::Begin { fence, .. }
            | Self::End { fence, .. }
            | Self::Skip { fence, .. }
            | Self::Complete { fence, .. }
            | Self::Merge { fence, .. }
            | Self::Gate { fence, .. }
            | Self::Acknowledge { fence, .. }
            | Self::Release { fence }
            | Self::Finish { fence, .. } => Permission::Owner(*fence),
            Self::Answer { .. } | Self::Claim { .. } | Self::Transition(_) => Permission::Anyone,
        }
    }

    /// Returns the command line.
    pub fn call(&self, run: &str) -> Call {
        match self {
            Self::Begin { phase, fence } => fenced(Call::new(&["runs", "phase", "begin", run, phase]), *fence),
            Self::End { execution, fence, error, output, summary, cost } => {
                let call = fenced(Call::new(&["runs", "phase", "end", run, execution]), *fence);
                let call = with(with(call, "--output", output.as_ref()), "--summary", summary.as_ref());
                let call = if *error { call.word("--error").word("it broke") } else { call };
                with(call, "--cost-usd", Some(cost).filter(|cost| !cost.is_empty()))
            }
            Self::Skip { phase, fence } => fenced(Call::new(&["runs", "phase", "skip", run, phase]), *fence),
            Self::Complete { phase, fence, summary } => {
                fenced(Call::new(&["runs", "phase", "complete", run, phase, "--summary", summary]), *fence)
            }
            Self::Merge { key, value, fence } => {
                let patch = format!("{{\"{key}\":{value}}}");
                fenced(Call::new(&["runs", "scratch", run, "--merge", &patch]), *fence)
            }
            Self::Gate { id, kind, hash, at, merge, fence } => {
                let call = Call::new(&["runs", "gate", run, "ship", "--id", id, "--kind", kind, "--summary", "go on?"]);
                let call = with(fenced(call, *fence), "--hash", hash.as_ref());
                let patch = merge.as_ref().map(|(key, value)| format!("{{\"{key}\":{value}}}"));
                let call = with(call, "--scratch", patch.as_ref());
                at.iter().fold(call, |call, at| {
                    let call = call.word("--loop-key").word(&at.key).word("--iteration").word(at.iteration.to_string());
                    call.word("--output").word(&at.execution)
                })
            }
            Self::Answer { verb, gate, response, hash } => {
                let flag = if *verb == "reply" { "--response" } else { "--reason" };
                with(Call::new(&["approvals", verb, gate, flag, response]), "--hash", hash.as_ref())
            }
            Self::Acknowledge { gate, fence } => fenced(Call::new(&["runs", "acknowledge", run, gate]), *fence),
            Self::Claim { owner } => Call::new(&["runs", "claim", run, "--owner", owner]),
            Self::Release { fence } => fenced(Call::new(&["runs", "release", run]), *fence),
            Self::Transition(verb) => Call::new(&["runs", verb, run]),
            Self::Finish { error, fence } => {
                let call = fenced(Call::new(&["runs", "finish", run]), *fence);
                if *error { call.word("--error").word("it broke") } else { call }
            }
        }
    }
}

fn fenced(call: Call, fence: Option<u64>) -> Call {
    fence.map_or(call.clone(), |fence| call.word("--fence").word(fence.to_string()))
}

fn with(call: Call, flag: &str, value: Option<&String>) -> Call {
    value.map_or(call.clone(), |value| call.word(flag).word(value))
}
