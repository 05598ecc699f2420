//! The types that callers pass and get.

mod execution;
mod page;
mod run;

pub use execution::{
    Begun, Ended, Ending, Execution, ExecutionList, ExecutionOutcome, Finish, NewExecution, Output, Rollup,
    RollupInterval, RollupQuery,
};
pub use page::{RunFilter, RunList, RunOrder, RunPage};
pub use run::{
    Admission, Admitted, Attribution, Claim, End, Expired, Fence, NewRun, Next, PhaseState, Recovered, Run, RunSummary,
    Started, StatusChange, TakeFilter, Until,
};
