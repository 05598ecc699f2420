//! What can be done to a run, and the command lines of it.

use super::super::command::Call;

/// What can be done to a run. A fence is the one of the last claim, or a wrong one.
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
    /// Leaves a phase out.
    Skip { phase: String, fence: Option<u64> },
    /// Notes a phase in the history.
    Complete { phase: String, fence: Option<u64>, summary: String },
    /// Merges a value into the scratch.
    Merge { key: String, value: String, fence: Option<u64> },
    /// Pauses at a gate.
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
    /// Acknowledges an answer.
    Acknowledge { gate: String, fence: Option<u64> },
    /// Claims the run.
    Claim { owner: String },
    /// Gives the claim up.
    Release { fence: Option<u64> },
    /// Pauses, resumes, cancels, fails or retries.
    Turn(&'static str),
    /// Ends the run as its owner.
    Finish { error: bool, fence: Option<u64> },
}

/// Who may do something to a run.
#[derive(Clone, Copy, Debug)]
pub enum By {
    /// Anybody.
    Anybody,
    /// Its owner, by the fence that is given, or anybody while nobody owns the run.
    Owner(Option<u64>),
}

/// The turn of a loop that asks at a gate.
#[derive(Clone, Debug)]
pub struct LoopAt {
    /// The key of the scratch.
    pub key: String,
    /// Which turn.
    pub iteration: usize,
    /// The execution that asks.
    pub execution: String,
}

impl Command {
    /// Who may do it.
    pub fn by(&self) -> By {
        match self {
            Self::Begin { fence, .. }
            | Self::End { fence, .. }
            | Self::Skip { fence, .. }
            | Self::Complete { fence, .. }
            | Self::Merge { fence, .. }
            | Self::Gate { fence, .. }
            | Self::Acknowledge { fence, .. }
            | Self::Release { fence }
            | Self::Finish { fence, .. } => By::Owner(*fence),
            Self::Answer { .. } | Self::Claim { .. } | Self::Turn(_) => By::Anybody,
        }
    }

    /// The command line.
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
            Self::Turn(verb) => Call::new(&["runs", verb, run]),
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
