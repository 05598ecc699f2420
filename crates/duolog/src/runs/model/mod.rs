//! The types that runs are given in and out as.

mod execution;
mod page;
mod run;

pub use execution::{
    Begun, Ended, Ending, Every, Execution, ExecutionList, Finish, NewExecution, Outcome, Output, Rollup, RollupQuery,
};
pub use page::{RunFilter, RunList, RunOrder, RunPage};
pub use run::{
    Act, Admission, Admitted, Claim, End, Expired, Fence, NewRun, Next, PhaseStanding, Recovered, Run, RunSummary,
    Started, TakeFilter, Turned, Until,
};
