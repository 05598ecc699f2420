//! Every limit, by name (I9). Those that the configuration may change are the defaults of [`Limits`].

use std::time::Duration;

/// The bytes of a session id.
pub const SESSION_ID_BYTES_MAX: usize = 128;
/// The bytes of an operation id.
pub const OPERATION_ID_BYTES_MAX: usize = 128;
/// The bytes of what an operation id is unique within.
pub const SCOPE_BYTES_MAX: usize = 256;
/// How long an operation can be asked for again and gets the first answer.
pub const OPERATION_KEPT: Duration = Duration::from_hours(30 * 24);
/// The newest operations that are kept however old they are: a clock that is wrong can only take older ones.
pub const OPERATIONS_KEPT_MIN: u32 = 10_000;
/// The bytes of a session's name or user. The file name made from it is shorter still.
pub const NAME_BYTES_MAX: usize = 1024;
/// The characters of a file or folder name made from a name, before any suffix.
pub const FILE_STEM_CHARS_MAX: usize = 200;
/// How deep a line's JSON may nest.
pub const JSON_DEPTH_MAX: u32 = 128;
/// The bytes of `node_metadata` and other metadata columns.
pub const METADATA_BYTES_MAX: usize = 64 * 1024;
/// The bytes of the id of a message, a branch or a progression.
pub const MESSAGE_ID_BYTES_MAX: usize = 128;
/// The bytes of a message's content in its row; larger content is kept as a blob.
pub const CONTENT_BYTES_MAX: usize = 256 * 1024;
/// The bytes of an embedding: 16,384 numbers of four bytes.
pub const EMBEDDING_BYTES_MAX: usize = 64 * 1024;
/// The bytes of a role, and of other words that a row keeps and no list closes.
pub const WORD_BYTES_MAX: usize = 128;
/// The items without a summary beyond which a conversation asks for one, when nobody says another number.
pub const COMPACTION_THRESHOLD: u64 = 40;
/// The bytes of a reason, a summary or a title.
pub const REASON_BYTES_MAX: usize = 16 * 1024;
/// The bytes of a path kept in a row.
pub const PATH_BYTES_MAX: usize = 4096;
/// The bytes of a line that waits in the outbox.
pub const OUTBOX_LINE_BYTES_MAX: usize = 64 * 1024;
/// The bytes after which the last seal of a log is closed and the next one begins.
pub const SEAL_BYTES: u64 = 1024 * 1024;
/// The bytes of a sealed stretch that have one hash of their own, by which a change is found in it.
pub const SEAL_BLOCK_BYTES: u64 = 4096;
/// The bytes of such a hash. With three a full seal stays within its page of the database; with four it would not.
pub const SEAL_BLOCK_HASH_BYTES: usize = 3;
/// The bytes of the block hashes of one seal.
pub const SEAL_BLOCKS_BYTES_MAX: usize = 768;
/// The bytes of a tool's answer that a recorded line holds; the whole of a longer one is kept as a blob.
pub const TOOL_RESULT_BYTES_MAX: usize = 64 * 1024;
/// The responses whose tokens can still be corrected by a later line about the same response.
pub const USAGE_RECENT_MAX: usize = 64;
/// The responses remembered beyond those, so that a repetition is not counted again.
pub const USAGE_SEEN_MAX: usize = 2048;
/// The models that usage is kept apart by; what is used beyond is counted together.
pub const USAGE_MODELS_MAX: usize = 64;
/// The quarter hours and models of a turn that its end can still correct.
pub const USAGE_OPEN_MAX: usize = 128;
/// The models that the result of a stream may tell apart; of more, only the sum is taken.
pub const USAGE_STREAM_MODELS_MAX: usize = 16;
/// The tokens of a kind that one response may tell of; no model reads or writes that many.
pub const USAGE_TOKENS_MAX: u64 = 1 << 36;
/// The dollars that one line may state as a cost; what states more is not believed.
pub const USAGE_COST_MAX: u128 = 10_000;
/// The bytes of what a fold remembers of a log.
pub const DIGEST_BYTES_MAX: usize = 1024 * 1024;
/// The bytes of a model's name.
pub const MODEL_BYTES_MAX: usize = 128;
/// The characters of a title made from what was asked first.
pub const TITLE_CHARS_MAX: usize = 120;
/// The bytes that such a title takes at most.
pub const TITLE_BYTES_MAX: usize = 4 * TITLE_CHARS_MAX;
/// How long a blob that nothing names is kept: whoever writes one by the book of the format names it well before.
pub const BLOB_GRACE: Duration = Duration::from_hours(1);
/// The blobs that are counted at once; further ones are left for another time.
pub const BLOBS_COUNTED_MAX: usize = 1_000_000;
/// The bytes of logs that a search adds to the index before it answers; what is left it reads.
pub const INDEX_BEFORE_SEARCH_BYTES: u64 = 256 << 20;
/// The bytes of logs that one transaction of the index covers.
pub const INDEX_BATCH_BYTES: u64 = 32 << 20;
/// The bytes of what one message of a chat says.
pub const CHAT_CONTENT_BYTES_MAX: usize = 1024 * 1024;
/// The bytes of a conversation's key and a platform's message id together: an index of PostgreSQL takes no more.
pub const CHAT_DELIVERY_BYTES_MAX: usize = 2048;
/// How long a chat may be silent and still be the same one, when nobody says another time.
pub const CHAT_IDLE: Duration = Duration::from_mins(30);
/// The times that one tick fires of a schedule that missed more.
pub const CATCH_UP_MAX: usize = 100;
/// How late a time may be and still count as due where what was missed is not made up for.
pub const SCHEDULE_GRACE: Duration = Duration::from_mins(5);
/// How long a firing may go on before whoever did it counts as lost.
pub const SCHEDULE_LEASE: Duration = Duration::from_mins(10);
/// The coming times of a schedule that are shown.
pub const SCHEDULE_NEXT: usize = 5;
/// The bytes of a workflow's name.
pub const WORKFLOW_BYTES_MAX: usize = 256;
/// The bytes of what an execution does: a workflow, a colon and a phase.
pub const SKILL_BYTES_MAX: usize = WORKFLOW_BYTES_MAX + 1 + WORD_BYTES_MAX;
/// The bytes of a run's `context`.
pub const CONTEXT_BYTES_MAX: usize = 1024 * 1024;
/// The bytes of one value of a run's `scratch`.
pub const SCRATCH_VALUE_BYTES_MAX: usize = 64 * 1024;
/// The bytes of all keys and values of a run's `scratch`.
pub const SCRATCH_BYTES_MAX: u64 = 1024 * 1024;
/// The bytes of a run's `phase_history`.
pub const PHASES_BYTES_MAX: u64 = 1024 * 1024;
/// The bytes of an entry of it: a summary, and what is said around it.
pub const PHASE_ENTRY_BYTES_MAX: usize = 128 * 1024;
/// The bytes of all names and statuses of a run's nodes.
pub const NODES_BYTES_MAX: u64 = 64 * 1024;
/// The bytes of an execution's `output_text`; of a longer one the row keeps the tail, and a blob the whole.
pub const OUTPUT_BYTES_MAX: usize = 1024 * 1024;
/// The minutes that one row of the roll-ups covers: every zone of the world is a whole number of them from UTC.
pub const ROLLUP_MINUTES: i64 = 15;
/// The runs that a page looks at where a filter has no index of its own; the page may then be short.
pub const RUNS_WALKED_MAX: u32 = 10_000;
/// The failed executions that one search for an error looks at.
pub const ERRORS_WALKED_MAX: u32 = 10_000;
/// What an import tells of what it could not take as it stands; the rest is counted.
pub const IMPORT_TOLD_MAX: usize = 1000;
/// The picodollars that a run, or a row of the roll-ups, can count: a little more than nine million dollars.
pub const COST_PICOS_MAX: u64 = i64::MAX.cast_unsigned();
/// How long a list catches up with the logs before it answers and says how many sessions lag.
pub const CATCH_UP_BEFORE_LIST: Duration = Duration::from_millis(50);
/// The sessions that one transaction of the fold covers.
pub const FOLD_BATCH_SESSIONS: usize = 128;
/// The sessions that a fold with a deadline handles between two looks at the clock.
pub const FOLD_STEP_SESSIONS: usize = 16;
/// The marks of one process; with more, it leaves all of them to whoever folds next.
pub const MARKS_MAX: usize = 1 << 17;
/// The items of a page when nobody asks for another number.
pub const PAGE_DEFAULT: u32 = 20;
/// The items of a page at most.
pub const PAGE_MAX: u32 = 200;

/// The bytes of the longest line that is read, newline not counted; an append may be limited to less.
///
/// Readers have one bound that no configuration changes: what is folded, indexed and verified of a log is a function of
/// its bytes alone.
pub const LINE_BYTES_READ_MAX: usize = 1 << 30;

/// The limits that the configuration may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The bytes of one line that is appended, newline not counted. Reading has a bound of its own.
    pub line_bytes_max: usize,
    /// The bytes of one batch.
    pub batch_bytes_max: usize,
    /// How long a writer waits for a lock before it reports who holds it.
    pub busy_timeout: Duration,
    /// How many logs one process keeps open.
    pub open_logs_max: usize,
    /// How many bytes one transaction of the fold covers.
    pub fold_batch_bytes: u64,
    /// How many bytes a read folds before it answers and says how far behind it is.
    pub fold_before_read_bytes: u64,
    /// Those of runs.
    pub runs: RunLimits,
}

/// The limits of runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunLimits {
    /// How many run at once; what is started beyond waits.
    pub max_running: u32,
    /// How long one waits for a place before it is cancelled.
    pub queue_wait: Duration,
    /// How long an owner that does not renew its lease is taken to be alive.
    pub lease: Duration,
    /// How often a run is taken over from a dead owner before it is given up.
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
