//! Every command that changes owned rows, and the home in which it runs.

/// What a kill in the middle of a command may leave.
#[derive(Clone, Copy, Debug)]
pub(super) enum Contract {
    /// All of it or nothing.
    Atomic,
    /// All or nothing of each unit, one unit after the other, as the command's help documents.
    Each(&'static [&'static str]),
    /// All or nothing of each line, one line after the other. A missing session is created before the first line, and
    /// marked: no transaction contains both a row and a line. A retry without an operation id appends the lines again.
    Lines(&'static [&'static str]),
    /// All or nothing, except for the rows of the operation: the command records the last repair before it starts and
    /// again at its end, by numbers that a server does not reuse. If it is killed after the epoch was raised and before
    /// the new file has its name, the retry raises the epoch again.
    Noted,
    /// One time after the other, by their instants: each has a row before it is fired. A kill in between leaves the row
    /// alone, without a run, and the time is lost.
    Claimed(&'static [&'static str]),
}

impl Contract {
    /// The texts that tell the units of a command apart; every line has the empty one.
    pub(super) const fn units(self) -> &'static [&'static str] {
        match self {
            Self::Atomic | Self::Noted => &[""],
            Self::Each(units) | Self::Lines(units) | Self::Claimed(units) => units,
        }
    }
}

/// One command.
#[derive(Clone, Debug)]
pub(super) struct Case {
    /// The arguments of the command; `{name}` stands for a value of [`HOME`].
    pub(super) words: &'static str,
    /// Its standard input.
    pub(super) input: &'static str,
    /// A change of the state before the command, so that it has something to do.
    pub(super) sql: &'static str,
    pub(super) contract: Contract,
}

const fn case(words: &'static str) -> Case {
    Case { words, input: "", sql: "", contract: Contract::Atomic }
}

const fn reading(words: &'static str, input: &'static str) -> Case {
    Case { input, ..case(words) }
}

const fn units(words: &'static str, sql: &'static str, units: &'static [&'static str]) -> Case {
    Case { sql, contract: Contract::Each(units), ..case(words) }
}

const fn lines(words: &'static str, input: &'static str, lines: &'static [&'static str]) -> Case {
    Case { input, contract: Contract::Lines(lines), ..case(words) }
}

pub(super) const CONFIG: &str = "\
[runs]
max_running = 50
lease = \"1d\"

[schedules.nightly]
cron = \"30 2 * * *\"
workflow = \"review\"
catch_up = \"all\"

[schedules.tidy]
cron = \"@hourly\"
";

const ITEMS: &str = "{\"role\":\"user\",\"content\":\"a\"}\n{\"role\":\"user\",\"content\":\"b\"}\n{\"role\":\"user\",\"content\":\"c\"}";

const RECORDED: &str = "{\"type\":\"user\",\"text\":\"first-words\"}\n{\"type\":\"user\",\"text\":\"second-words\"}\n";

/// The commands that create the home, each with its input. `name<-` keeps the first word of the output.
pub(super) const HOME: &[(&str, &str)] = &[
    ("sessions new --id s1 --name alpha --status running", ""),
    ("log append --session s1 --line {\"n\":1}", ""),
    ("sessions add --session s1", ITEMS),
    ("side<- sessions branch new s1 --name side", ""),
    ("sessions new --id s2 --name beta --status running", ""),
    ("sessions close s2", ""),
    ("sessions new --id s3 --name gamma", ""),
    ("log append --session s3 --line {\"n\":1}", ""),
    ("sessions add --session s3", ITEMS),
    ("sessions compact s3 --summary-file {summary} --to 2", ""),
    ("sessions new --id s4 --user-email ada@example.com --session-name one", ""),
    ("log append --session s4 --line {\"n\":1}", ""),
    ("sessions new --id s5 --user-email ada@example.com --session-name two", ""),
    ("log append --session s5 --line {\"n\":1}", ""),
    ("sessions new --id s6 --name zeta", ""),
    ("log append --session s6 --line {\"n\":1}", ""),
    ("sessions add --session s6", ITEMS),
    ("sessions export s6 --output {document}", ""),
    ("sessions delete s6 --yes", ""),
    ("sessions new --id s7 --name eta", ""),
    ("log append --session s7 --line {\"n\":1}", ""),
    // Its sync fails, which closes the log.
    ("!log append --session s7 --durability power --line {\"n\":2}", ""),
    ("sessions send --topic box --content \"one\"", ""),
    ("sessions send --topic box --content \"two\"", ""),
    ("runs start build --trigger t1 --id r1 --owner w", ""),
    ("plan<- runs phase begin r1 plan --fence 1", ""),
    ("runs phase enter r1 code --fence 1", ""),
    ("runs scratch r1 --merge {\"a\":1} --fence 1", ""),
    ("runs start build --trigger t2 --id r2", ""),
    ("runs start build --trigger t3 --id r3", ""),
    ("runs gate r3 ship --id g3 --summary ship?", ""),
    ("runs start build --trigger t4 --id r4", ""),
    ("runs gate r4 color --id g4 --kind reply --summary color?", ""),
    ("runs start build --trigger t5 --id r5", ""),
    ("runs gate r5 ship --id g5 --summary ship?", ""),
    ("approvals approve g5", ""),
    ("runs start build --trigger t6 --id r6", ""),
    ("runs fail r6 --reason broken", ""),
    ("runs start build --trigger t7 --id r7 --queue", ""),
    ("runs start build --trigger t8 --id r8", ""),
    ("runs pause r8", ""),
    ("runs start build --trigger t9 --id r9 --owner w", ""),
    ("runs phase begin r9 plan --fence 1", ""),
    ("runs start build --trigger t10 --id r10 --owner w", ""),
    ("turn<- runs execution begin chat --trigger thread --session s1", ""),
    ("workflows disable other", ""),
    ("chats add --platform p --channel c --user u hello", ""),
    ("schedules set tidy --disable", ""),
    ("schedules tick --until 2026-03-28T12:00:00Z", ""),
];

/// Leases that expired long ago.
const LAPSED: &str =
    "UPDATE workflow_runs SET lease_expires_at = '2020-01-01T00:00:00.000000Z' WHERE id IN ('r9', 'r10')";
/// Gates whose deadline has passed.
const OVERDUE: &str =
    "UPDATE workflow_approvals SET expires_at = '2020-01-01T00:00:00.000000Z' WHERE id IN ('g3', 'g4')";

/// Every command that changes rows has at least one case here.
pub(super) const CASES: &[Case] = &[
    case("sessions new --name new --status running"),
    case("sessions new --name new --pid 1"),
    case("sessions set s1 --show-topic other --metadata {\"a\":1}"),
    case("sessions rename s1 other"),
    case("sessions delete s3 --yes"),
    case("sessions delete s3 --context --yes"),
    case("sessions delete s3 --log --yes"),
    units("sessions delete --all --user-email ada@example.com --yes", "", &["s4", "s5"]),
    case("sessions import {document}"),
    reading("sessions add --session s1", ITEMS),
    reading("sessions add --session fresh", ITEMS),
    case("sessions pop s1"),
    case("sessions clear s1 --yes"),
    case("sessions fork s1 --at 1 --name forked"),
    case("sessions branch new s1 --name third"),
    case("sessions branch rename s1 --branch side --name other"),
    case("sessions branch set s1 --branch side --metadata {\"a\":1}"),
    case("sessions compact s1 --summary-file {summary} --to 2"),
    case("sessions compact s3 --undo"),
    case("sessions close s1 --reason done"),
    case("sessions reopen s2 --reason more --by ada"),
    case("sessions run s1 --pid 1"),
    case("sessions send --to s2 --from s1 --content \"three\""),
    case("sessions inbox --topic box --reader r --ack"),
    lines("log append --session s1 --line {\"n\":21}", "", &["\"n\":21"]),
    lines("log append --session fresh --line {\"n\":21}", "", &["\"n\":21"]),
    Case { contract: Contract::Noted, ..case("log repair s7") },
    lines("log append --each --session s1", "{\"n\":21}\n{\"n\":22}\n", &["\"n\":21", "\"n\":22"]),
    lines("log record --session s1 --dialect raw", RECORDED, &["first-words", "second-words"]),
    case("runs start build --trigger t20 --id r20 --owner w --context {\"a\":1}"),
    case("runs start build --trigger t20 --queue"),
    case("runs claim r2 --owner w"),
    case("runs renew r1 --fence 1"),
    case("runs release r1 --fence 1"),
    case("runs phase begin r1 test --fence 1"),
    case("runs phase session r1 {plan} s1 --fence 1"),
    case(
        "runs phase end r1 {plan} --fence 1 --cost-usd 0.5 --input-tokens 7 --output text --summary done --session s1",
    ),
    case("runs phase skip r1 lint --fence 1 --reason unchanged"),
    case("runs phase enter r1 test --fence 1"),
    case("runs phase complete r1 code --fence 1 --summary done"),
    case("runs execution begin chat --trigger other --session s1"),
    case("runs execution session {turn} s2"),
    case("runs execution end {turn} --output hello --turns 1"),
    case("runs scratch r1 --merge {\"a\":2,\"b\":1} --fence 1"),
    case("runs nodes r1 {\"n1\":\"done\",\"n2\":\"running\"} --fence 1"),
    case(
        "runs gate r1 ship --summary ship? --scratch {\"c\":3,\"d\":4} --loop-key loop --iteration 1 --output {plan} --fence 1",
    ),
    case("runs acknowledge r5 g5"),
    case("runs pause r1"),
    case("runs resume r8"),
    case("runs finish r1 --fence 1 --marker complete"),
    case("runs fail r1 --reason broken"),
    case("runs cancel r1 --reason no"),
    case("runs retry r6"),
    case("runs retry r6 --queue"),
    case("runs requeue r1 --fence 1"),
    case("runs admit --owner w"),
    units("runs recover --owner v", LAPSED, &["r9", "r10"]),
    units("runs expire", OVERDUE, &["r3", "r4"]),
    case("approvals approve g3 --reason go"),
    case("approvals reject g3 --reason no"),
    case("approvals reply g4 blue"),
    case("workflows enable other"),
    case("workflows disable build"),
    case("workflows clear other"),
    Case {
        contract: Contract::Claimed(&["2026-03-29T02:30:00.000000Z", "2026-03-30T02:30:00.000000Z"]),
        ..case("schedules tick --until 2026-03-30T12:00:00Z")
    },
    case("schedules set nightly --cron @daily"),
    case("schedules clear tidy"),
    case("chats add --platform p --channel c --user u again"),
    case("chats add --platform p --channel d --user u first"),
    case("chats reset --platform p --channel c --user u"),
];

/// Commands that change no owned row: they read, or maintain files, derived tables and the schema.
pub const WITHOUT_OWNED_ROWS: &[&str] = &[
    "demo",
    "init",
    "doctor",
    "completions",
    "help",
    "version",
    "config show",
    "config check",
    "config init",
    "man",
    "sessions list",
    "sessions show",
    "sessions export",
    "sessions items",
    "sessions branches",
    "sessions history",
    "sessions similar",
    "log cat",
    "log tail",
    "log stream",
    "log replay",
    "log search",
    "log verify",
    "runs list",
    "runs show",
    "runs history",
    "runs phase check",
    "runs execution list",
    "runs output",
    "runs wait",
    // It starts processes and runs as long as they do; its changes are those of start, claim, begin, end and finish.
    "runs exec",
    "runs stats",
    "runs errors",
    "approvals list",
    "approvals show",
    "workflows list",
    "schedules list",
    "schedules show",
    "schedules runs",
    "chats list",
    "chats show",
    "chats history",
    "state stats",
    "state rebuild",
    "state migrate",
    "state checkpoint",
    "state vacuum",
    "state blobs",
    "state backup",
    "usage daily",
    "usage session",
    "usage model",
    "usage workflow",
];
