//! The JSON types of Duolog: the answers of the command, the server and the bindings.
//!
//! One type per noun, built from the types of the library. A field name has one meaning and one type in all of them; a
//! test in `duolog-cli` compares them all.
//!
//! - An object's own id is `id`; the id of something else is `<noun>_id`. A run is `workflow_run_id`, as in SQL.
//! - An absent value is `null`. No field is omitted, and an unknown number is never zero.
//! - Timestamps are `*_at`, ISO 8601 in UTC. Sizes are `bytes` or `*_bytes`. Money is `*_usd`, an exact decimal.
//! - The number of listed things is `<noun>_count`: `sessions` is a list, `session_count` is a number.
//! - A list is `{"<nouns>": […], "next": token|null}`. If it comes from derived rows, `complete` is false if log content is
//!   missing, and `missing` counts it.
//! - `error` is the error object; the text of a recorded error is `error_message`.
//!
//! The types are only serialized, so they have no `Deserialize`. [`schema`] generates their JSON Schemas.

mod approvals;
mod branches;
mod chats;
mod complete;
mod config;
mod demo;
mod doctor;
mod error;
mod executions;
mod home;
mod items;
mod json;
mod log;
mod page;
mod rollups;
mod runs;
mod schedules;
mod search;
mod sessions;
mod state;
mod timeline;
mod usage;
mod verify;
mod workflows;

pub mod schema;

pub use approvals::{Approval, ApprovalAcknowledged, ApprovalAnswered, ApprovalDetail, GateOpened};
pub use branches::{Branch, BranchAnswer, Forked};
pub use chats::{Chat, ChatDetail, ChatEnded, ChatHistory, ChatMessage, ChatMessageAdded, ChatSession};
pub use complete::{Completeness, Missing};
pub use config::{
    ConfigCheck, ConfigFinding, ConfigPrice, ConfigRates, ConfigSchedule, ConfigSetting, ConfigShown, ConfigTemplate,
    ConfigWorkflow,
};
pub use demo::{Demo, DemoComparison, DemoWorkflow};
pub use doctor::{Doctor, DoctorCheck};
pub use error::{Error, ErrorAnswer};
pub use executions::{Execution, ExecutionAnswer, ExecutionOutput, PhaseStatus};
pub use home::HomeCreated;
pub use items::{
    Compacted, CompactionInfo, InboxMessage, ItemCleared, ItemDetail, ItemDetailList, ItemList, ItemPopped, ItemsAdded,
    MessageSent, OrdRange, SimilarMessage, SimilarMessages,
};
pub use json::{Json, Members, Usd};
pub use log::{Appended, BadLine, Recorded};
pub use page::{Listed, Page};
pub use rollups::{Rollup, Rollups};
pub use runs::{
    Admitted, AdmittedRun, Claim, Expired, Lease, NextStep, Recovered, Run, RunAnswer, RunChange, RunDetail, RunError,
    RunExecuted, RunHistory, RunList, RunStarted, RunSummary, RunTransition, RunWait, Scratch,
};
pub use schedules::{
    Schedule, ScheduleAnswer, ScheduleCleared, ScheduleFired, ScheduleList, ScheduleProblem, ScheduleRun,
    ScheduleSummary, ScheduleTicked, ScheduleTime,
};
pub use search::{SearchHit, SearchIndex, SearchRebuilt, SearchRebuiltCounts, SearchResult};
pub use sessions::{
    Session, SessionAnswer, SessionDeleted, SessionDetail, SessionExported, SessionImported, SessionList,
    SessionProcess, SessionStatusChanged, SessionSummary, SessionsDeleted, StatusHistory, StatusTransition,
};
pub use state::{
    Backup, Blob, BlobFailure, Blobs, BlobsPruned, Checkpointed, Database, Logs, Migrated, Rebuilt, SessionFailure,
    Stats, Vacuumed,
};
pub use timeline::{ReplayEntry, Source, Sourced, StreamEntry, StreamNotice, TimelineItem, TimelineResult, TurnEnd};
pub use usage::{UsageByDay, UsageByModel, UsageBySession, UsageByWorkflow, UsageList, UsageTotals};
pub use verify::{DamagedPlace, LogRemaining, LogRepaired, LogVerified, LogsVerified, Repair};
pub use workflows::{Workflow, WorkflowSwitched};
