//! The types that the log, the state, the join and the domain share.
//!
//! Nothing here does I/O. A value that exists has passed its checks (I2, I9): a [`SessionId`] is a safe path segment,
//! a [`Batch`] has only valid log lines, a [`Bounded`] text fits its column.

pub mod bounded;
pub mod clock;
pub mod contention;
pub mod durability;
pub mod ids;
pub mod json;
pub mod limits;
pub mod line;
pub mod mutant;
pub mod names;
pub mod position;
pub mod status;
pub mod timestamp;
#[macro_use]
mod text;

pub use bounded::{Bounded, TooLong};
pub use clock::{Clock, SystemClock};
pub use durability::Durability;
pub use ids::{
    ApprovalId, BadId, BranchId, ChatId, CronRunId, ExecutionId, HomeId, MessageId, OperationId, OutboxId, ProcessId,
    ProgressionId, RunId, SessionId,
};
pub use line::{BadLine, Batch, LineFault};
pub use position::{Cursor, Epoch, Position};
pub use status::{
    ApprovalKind, ApprovalStatus, Charge, ChatRole, CronOutcome, InvocationKind, RunStatus, SessionStatus, SourceKind,
    TriggerType, UnknownWord,
};
pub use text::with_causes;
pub use timestamp::Timestamp;
