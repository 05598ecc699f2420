//! All limits (I9). The configurable ones are the defaults of [`Limits`].

use std::time::Duration;

/// The maximum length of a session id, in bytes.
pub const SESSION_ID_BYTES_MAX: usize = 128;
/// The maximum length of an operation id, in bytes.
pub const OPERATION_ID_BYTES_MAX: usize = 128;
/// The maximum length of the scope of an operation id, in bytes.
pub const SCOPE_BYTES_MAX: usize = 256;
/// How long a repeated operation returns the first answer.
pub const OPERATION_KEPT: Duration = Duration::from_hours(30 * 24);
/// The number of newest operations that are kept regardless of age, so that a wrong clock can only remove older ones.
pub const OPERATIONS_KEPT_MIN: u32 = 10_000;
/// The maximum length of a session's name or user, in bytes. The file name made from it is shorter.
pub const NAME_BYTES_MAX: usize = 1024;
/// The maximum length of a file or directory name made from a name, in characters, without suffix.
pub const FILE_STEM_CHARS_MAX: usize = 200;
/// The maximum nesting depth of a line's JSON.
pub const JSON_DEPTH_MAX: u32 = 128;
/// The maximum size of `node_metadata` and other metadata columns, in bytes.
pub const METADATA_BYTES_MAX: usize = 64 * 1024;
/// The maximum length of the id of a message, a branch or a progression, in bytes.
pub const MESSAGE_ID_BYTES_MAX: usize = 128;
/// The maximum size of a message's content in its row, in bytes; larger content is stored as a blob.
pub const CONTENT_BYTES_MAX: usize = 256 * 1024;
/// The maximum size of an embedding, in bytes: 16,384 numbers of four bytes.
pub const EMBEDDING_BYTES_MAX: usize = 64 * 1024;
/// The maximum length of a role and other open vocabularies, in bytes.
pub const WORD_BYTES_MAX: usize = 128;
/// The default number of items without a summary above which a summary is due.
pub const COMPACTION_THRESHOLD: u64 = 40;
/// The maximum length of a reason, a summary or a title, in bytes.
pub const REASON_BYTES_MAX: usize = 16 * 1024;
/// The maximum length of a path in a row, in bytes.
pub const PATH_BYTES_MAX: usize = 4096;
/// The maximum size of a line in the outbox, in bytes.
pub const OUTBOX_LINE_BYTES_MAX: usize = 64 * 1024;
/// The size at which a seal is closed and the next one begins, in bytes.
pub const SEAL_BYTES: u64 = 1024 * 1024;
/// The size of a block with its own hash within a seal, in bytes. The hash locates a change.
pub const SEAL_BLOCK_BYTES: u64 = 4096;
/// The size of a block hash, in bytes. With three a full seal fits in one database page; with four it does not.
pub const SEAL_BLOCK_HASH_BYTES: usize = 3;
/// The size of all block hashes of a seal, in bytes.
pub const SEAL_BLOCKS_BYTES_MAX: usize = 768;
/// The maximum size of a tool result in a recorded line, in bytes; the full text of a longer one is stored as a blob.
pub const TOOL_RESULT_BYTES_MAX: usize = 64 * 1024;
/// The number of responses whose tokens a later line about the same response can correct.
pub const USAGE_RECENT_MAX: usize = 64;
/// The number of further responses that are remembered, so that a repetition is not counted twice.
pub const USAGE_SEEN_MAX: usize = 2048;
/// The maximum number of models with separate usage; further models are counted together.
pub const USAGE_MODELS_MAX: usize = 64;
/// The number of quarter hours and models of a turn that its end can correct.
pub const USAGE_OPEN_MAX: usize = 128;
/// The number of responses of a turn whose claims its result can raise.
pub const USAGE_TURN_MAX: usize = 512;
/// The number of threads of `codex exec` in one log whose totals are remembered.
pub const USAGE_THREADS_MAX: usize = 64;
/// The maximum number of models in the result of a stream; with more, only the sum is used.
pub const USAGE_STREAM_MODELS_MAX: usize = 16;
/// The maximum number of tokens of one kind in a response; larger numbers are not plausible.
pub const USAGE_TOKENS_MAX: u64 = 1 << 36;
/// The maximum cost in a line, in dollars; a larger cost is ignored.
pub const USAGE_COST_MAX: u128 = 10_000;
/// The maximum size of the fold state of a log, in bytes.
pub const DIGEST_BYTES_MAX: usize = 1024 * 1024;
/// The maximum length of a model name, in bytes.
pub const MODEL_BYTES_MAX: usize = 128;
/// The maximum length of a title made from the first question, in characters.
pub const TITLE_CHARS_MAX: usize = 120;
/// The maximum length of such a title, in bytes.
pub const TITLE_BYTES_MAX: usize = 4 * TITLE_CHARS_MAX;
/// How long an unreferenced blob is kept; a correct writer adds the reference well before.
pub const BLOB_GRACE: Duration = Duration::from_hours(1);
/// The maximum number of blobs that are counted at once.
pub const BLOBS_COUNTED_MAX: usize = 1_000_000;
/// The log bytes that a search adds to the index before it answers; it scans the rest.
pub const INDEX_BEFORE_SEARCH_BYTES: u64 = 256 << 20;
/// The log bytes per transaction of the index.
pub const INDEX_BATCH_BYTES: u64 = 32 << 20;
/// The maximum size of a chat message, in bytes.
pub const CHAT_CONTENT_BYTES_MAX: usize = 1024 * 1024;
/// The maximum length of a conversation key plus a platform message id, in bytes: the limit of a PostgreSQL index.
pub const CHAT_DELIVERY_BYTES_MAX: usize = 2048;
/// The default idle time after which a chat ends.
pub const CHAT_IDLE: Duration = Duration::from_mins(30);
/// The maximum number of missed times of a schedule that one tick fires.
pub const CATCH_UP_MAX: usize = 100;
/// How late a time may fire if missed times are not caught up.
pub const SCHEDULE_GRACE: Duration = Duration::from_mins(5);
/// How long a firing may take before it counts as lost.
pub const SCHEDULE_LEASE: Duration = Duration::from_mins(10);
/// The number of next due times that are shown.
pub const SCHEDULE_NEXT: usize = 5;
/// The maximum length of a workflow name, in bytes.
pub const WORKFLOW_BYTES_MAX: usize = 256;
/// The maximum length of an execution's skill, in bytes: a workflow, a colon and a phase.
pub const SKILL_BYTES_MAX: usize = WORKFLOW_BYTES_MAX + 1 + WORD_BYTES_MAX;
/// The maximum size of a run's `context`, in bytes.
pub const CONTEXT_BYTES_MAX: usize = 1024 * 1024;
/// The maximum size of one value in a run's `scratch`, in bytes.
pub const SCRATCH_VALUE_BYTES_MAX: usize = 64 * 1024;
/// The maximum size of all keys and values in a run's `scratch`, in bytes.
pub const SCRATCH_BYTES_MAX: u64 = 1024 * 1024;
/// The maximum size of a run's `phase_history`, in bytes.
pub const PHASES_BYTES_MAX: u64 = 1024 * 1024;
/// The maximum size of an entry of `phase_history`, in bytes: a summary and its other fields.
pub const PHASE_ENTRY_BYTES_MAX: usize = 128 * 1024;
/// The maximum size of all names and statuses of a run's nodes, in bytes.
pub const NODES_BYTES_MAX: u64 = 64 * 1024;
/// The maximum size of an execution's `output_text`, in bytes; for a longer one the row has the tail and a blob the full text.
pub const OUTPUT_BYTES_MAX: usize = 1024 * 1024;
/// The minutes per row of the roll-ups: the UTC offset of every time zone is a multiple of it.
pub const ROLLUP_MINUTES: i64 = 15;
/// The maximum number of runs that a page scans for a filter without an index; the page may then be short.
pub const RUNS_WALKED_MAX: u32 = 10_000;
/// The maximum number of failed executions that a search for an error scans.
pub const ERRORS_WALKED_MAX: u32 = 10_000;
/// The maximum number of problems that an import lists; further ones are only counted.
pub const IMPORT_TOLD_MAX: usize = 1000;
/// The maximum cost of a run or a row of the roll-ups, in picodollars: a little more than nine million dollars.
pub const COST_PICOS_MAX: u64 = i64::MAX.cast_unsigned();
/// How long a list catches up with the logs before it answers and reports the sessions that lag.
pub const CATCH_UP_BEFORE_LIST: Duration = Duration::from_millis(50);
/// The number of sessions per fold transaction.
pub const FOLD_BATCH_SESSIONS: usize = 128;
/// The number of sessions that a fold with a deadline handles between two clock checks.
pub const FOLD_STEP_SESSIONS: usize = 16;
/// The maximum number of marks of a process; with more, it leaves all of them to the next fold.
pub const MARKS_MAX: usize = 1 << 17;
/// The default number of items of a page.
pub const PAGE_DEFAULT: u32 = 20;
/// The maximum number of items of a page.
pub const PAGE_MAX: u32 = 200;

/// The maximum size of a line that is read, in bytes without newline; the limit for appends may be lower.
///
/// The limit for readers is not configurable: the result of folding, indexing and verifying a log depends on
/// its bytes only.
pub const LINE_BYTES_READ_MAX: usize = 1 << 30;

/// The configurable limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The maximum size of an appended line, in bytes without newline. Reading has its own limit.
    pub line_bytes_max: usize,
    /// The maximum size of a batch, in bytes.
    pub batch_bytes_max: usize,
    /// How long a writer waits for a lock before it reports who holds it.
    pub busy_timeout: Duration,
    /// The maximum number of open logs per process.
    pub open_logs_max: usize,
    /// The log bytes per fold transaction.
    pub fold_batch_bytes: u64,
    /// The log bytes that a read folds before it answers and reports how far it lags.
    pub fold_before_read_bytes: u64,
    /// The limits of runs.
    pub runs: RunLimits,
}

/// The limits of runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunLimits {
    /// The maximum number of running runs; further runs are queued.
    pub max_running: u32,
    /// The maximum time in the queue before a run is cancelled.
    pub queue_wait: Duration,
    /// The time until a claim expires unless it is renewed.
    pub lease: Duration,
    /// The maximum number of takeovers from dead owners before a run fails.
    pub restart_cap: u32,
}

impl Default for RunLimits {
    fn default() -> Self {
        Self { max_running: 4, queue_wait: Duration::from_hours(1), lease: Duration::from_mins(1), restart_cap: 3 }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            line_bytes_max: 64 << 20,
            batch_bytes_max: 256 << 20,
            busy_timeout: Duration::from_secs(5),
            open_logs_max: 128,
            fold_batch_bytes: 8 << 20,
            fold_before_read_bytes: 64 << 20,
            runs: RunLimits::default(),
        }
    }
}
