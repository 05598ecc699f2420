//! Generated logs of each dialect, with the repetitions, metadata and side conversations of real ones, and with the
//! expected counts.

mod streams;

use duolog_log::dialect::envelope::{Block, Builder, Ending, Usage as EnvelopeUsage};
use duolog_log::dialect::money::Money;
use duolog_log::dialect::transcript::{Content, Event, TranscriptEvent};
use duolog_log::dialect::turns::{Entry, Step};
use duolog_log::dialect::usage::Tokens;
use duolog_types::Timestamp;
use serde_json::{Value, json};

pub use streams::{claude_stream, codex_exec};

use crate::random::Random;

/// A generated log and its expected counts.
#[derive(Clone, Debug, Default)]
pub struct GeneratedLog {
    /// Its lines.
    pub lines: Vec<String>,
    /// The number of turns.
    pub turns: u64,
    /// The number of model responses, each counted once.
    pub responses: u64,
    /// The model.
    pub model: String,
    /// The tokens of all responses.
    pub tokens: Tokens,
    /// The cost that the log reports.
    pub cost: Money,
}

impl GeneratedLog {
    /// Returns the log as the content of a file.
    pub fn text(&self) -> String {
        self.lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect()
    }

    fn push(&mut self, line: &Value) {
        self.lines.push(line.to_string());
    }

    fn count(&mut self, tokens: Tokens) {
        self.responses += 1;
        self.tokens = self.tokens.plus(&tokens);
    }
}

/// A clock that advances by the given steps.
struct Steps(i64);

impl Steps {
    fn new(seed: u64) -> Self {
        Self(1_777_000_000_000_000 + i64::try_from(seed % 1000).unwrap_or_default() * 86_400_000_000)
    }

    fn after(&mut self, millis: i64) -> String {
        self.0 += millis * 1000;
        let text = Timestamp::from_micros(self.0).to_string();
        format!("{}Z", &text[..text.len() - 4])
    }
}

/// Generates a session file of Claude Code: every response spans several lines that repeat its growing usage, a side
/// conversation replays a message of the main one, and lines are repeated after a resume. Every other turn has no
/// `stop_reason`, as in older versions, and ends with its duration.
pub fn claude(seed: u64, turns: u64) -> GeneratedLog {
    let model = ["claude-opus-4-8", "claude-sonnet-4-6", "claude-haiku-4-5-20251001"][usize_of(seed % 3)];
    let mut writer = Claude {
        made: GeneratedLog { turns, model: model.to_owned(), ..GeneratedLog::default() },
        random: Random::new(seed),
        clock: Steps::new(seed),
        session: format!("{seed:08x}-0000-4000-8000-{seed:012x}"),
        parent: Value::Null,
        number: 0,
    };
    let session = writer.session.clone();
    writer.made.push(&json!({"type":"file-history-snapshot","messageId":"m0","snapshot":{},"isSnapshotUpdate":false}));
    writer.made.push(&json!({"type":"queue-operation","operation":"enqueue","content":"do it","sessionId":session}));
    for turn in 0..turns {
        writer.turn(turn);
    }
    writer.made.push(&json!({"type":"summary","summary":format!("Session {seed}"),"leafUuid":writer.parent}));
    writer.made
}

struct Claude {
    made: GeneratedLog,
    random: Random,
    clock: Steps,
    session: String,
    parent: Value,
    number: u64,
}

impl Claude {
    fn turn(&mut self, turn: u64) {
        self.line("user", &json!({"role":"user","content":format!("Please do step {turn}: “ünïcode” 🥛")}), &json!({}));
        for call in 0..self.random.below(3) {
            let id = format!("toolu_{turn}_{call}");
            let tool = json!({"type":"tool_use","id":id,"name":"Bash","input":{"command":"ls -la"}});
            self.response(&[json!({"type":"thinking","thinking":"hm","signature":"c2ln"}), tool], "tool_use", false);
            let answer = json!([{"type":"tool_result","tool_use_id":id,"content":[{"type":"text","text":"a\nb"}]}]);
            let extra = json!({"toolUseResult":{"stdout":"a\nb","stderr":"","interrupted":false}});
            self.line("user", &json!({"role":"user","content":answer}), &extra);
        }
        let progress = json!({"type":"hook_progress","hookEvent":"Stop","command":"lint"});
        self.system("progress", &json!({"data":progress}));
        let stop = if turn.is_multiple_of(2) { "end_turn" } else { "" };
        self.response(&[json!({"type":"text","text":format!("Step {turn} is done.")})], stop, turn % 4 == 3);
        if stop.is_empty() {
            self.system("system", &json!({"subtype":"turn_duration","durationMs":5500,"isMeta":false}));
        }
    }

    /// Writes one response, one line per block, and counts it once.
    fn response(&mut self, blocks: &[Value], stop: &str, replayed: bool) {
        self.number += 1;
        let (id, request) = (format!("msg_{}_{}", self.session, self.number), format!("req_{}", self.number));
        let tokens = Tokens {
            input: self.random.below(2000),
            output: 20 + self.random.below(3000),
            cache_read: self.random.below(150_000),
            cache_write_5m: self.random.below(9000),
            cache_write_1h: self.random.below(4) * 500,
            reasoning: 0,
        };
        let at = self.clock.after(4000);
        for (number, block) in blocks.iter().enumerate() {
            let last = number + 1 == blocks.len();
            // A line that is written during streaming has only a part of the output tokens.
            let output = if last { tokens.output } else { 1 + tokens.output / 8 };
            let message = json!({
                "model":self.made.model,"id":id,"type":"message","role":"assistant","content":[block],
                "stop_reason":if last && !stop.is_empty() { json!(stop) } else { Value::Null },"stop_sequence":null,
                "usage":{
                    "input_tokens":tokens.input,"cache_creation_input_tokens":tokens.cache_write_5m + tokens.cache_write_1h,
                    "cache_read_input_tokens":tokens.cache_read,
                    "cache_creation":{"ephemeral_5m_input_tokens":tokens.cache_write_5m,"ephemeral_1h_input_tokens":tokens.cache_write_1h},
                    "output_tokens":output,"service_tier":"standard",
                },
            });
            self.line_at("assistant", &message, &json!({"requestId":request}), &at);
        }
        if replayed {
            let again = self.made.lines[self.made.lines.len() - 1].clone();
            self.made
                .lines
                .push(again.replace("\"isSidechain\":false", "\"isSidechain\":true").replace(&request, "req_btw"));
            self.made.lines.push(again);
        }
        self.made.count(tokens);
    }

    /// Writes a line about the session, without a message.
    fn system(&mut self, kind: &str, extra: &Value) {
        self.line(kind, &Value::Null, extra);
        if let Some(line) = self.made.lines.last_mut() {
            *line = line.replace("\"message\":null,", "");
        }
    }

    fn line(&mut self, kind: &str, message: &Value, extra: &Value) {
        let at = self.clock.after(1500);
        self.line_at(kind, message, extra, &at);
    }

    fn line_at(&mut self, kind: &str, message: &Value, extra: &Value, at: &str) {
        let uuid = json!(format!("{:08x}-1111-4000-8000-{:012x}", self.made.lines.len(), self.number));
        let mut line = json!({
            "parentUuid":self.parent,"isSidechain":false,"userType":"external","cwd":"/home/agent/workspace",
            "sessionId":self.session,"version":"2.1.200","gitBranch":"main","type":kind,"message":message,
            "uuid":uuid,"timestamp":at,
        });
        if let (Some(line), Some(extra)) = (line.as_object_mut(), extra.as_object()) {
            line.extend(extra.clone());
        }
        self.made.push(&line);
        self.parent = uuid;
    }
}

/// The session that the forks of [`codex`] name as their parent.
const CODEX_PARENT: &str = "0199aaaa-0000-4000-8000-000000000000";

/// Generates a Codex rollout: items are written twice, totals grow and are repeated. A fork starts with its parent's
/// totals.
pub fn codex(seed: u64, turns: u64, forked: bool) -> GeneratedLog {
    let mut random = Random::new(seed);
    let mut clock = Steps::new(seed);
    let mut made = GeneratedLog { turns, model: "gpt-5.2-codex".to_owned(), ..GeneratedLog::default() };
    let id = format!("{seed:08x}-2222-4000-8000-{seed:012x}");
    let mut meta = json!({
        "id":id,"timestamp":clock.after(0),"cwd":"/home/agent/workspace","originator":"codex_cli_rs",
        "cli_version":"0.90.0","source":"cli","model_provider":"openai",
    });
    if forked {
        meta["forked_from_id"] = json!(CODEX_PARENT);
    }
    let mut rollout = Rollout { made: &mut made, clock: &mut clock };
    rollout.line("session_meta", &meta);
    let mut total = [0; 4];
    if forked {
        rollout.parent(&mut total);
        rollout.clock.after(8000);
    }
    for turn in 0..turns {
        rollout.turn(turn);
        for _ in 0..=random.below(2) {
            let input = 1000 + random.below(90_000);
            let used = [input, random.below(input), 50 + random.below(4000), random.below(50)];
            add(&mut total, used);
            rollout.clock.after(5000);
            rollout.totals(total, used);
            rollout.totals(total, used);
            let tokens = Tokens {
                input: used[0] - used[1],
                cache_read: used[1],
                output: used[2],
                reasoning: used[3],
                ..Tokens::default()
            };
            rollout.made.count(tokens);
        }
        rollout.line("event_msg", &json!({"type":"task_complete","last_agent_message":format!("Done {turn}.")}));
    }
    made
}

/// Generates the Codex rollout that every fork of [`codex`] replays.
pub fn codex_parent() -> GeneratedLog {
    let (mut made, mut clock) =
        (GeneratedLog { model: "gpt-5.2-codex".to_owned(), ..GeneratedLog::default() }, Steps::new(0));
    let meta = json!({
        "id":CODEX_PARENT,"timestamp":clock.after(0),"cwd":"/w","originator":"codex_cli_rs","cli_version":"0.90.0","source":"cli",
    });
    let mut rollout = Rollout { made: &mut made, clock: &mut clock };
    rollout.line("session_meta", &meta);
    rollout.parent(&mut [0; 4]);
    made
}

/// Generates a Codex rollout with one total, and a fork of it that replays that total and continues.
pub fn codex_fork_of_one(seed: u64) -> (GeneratedLog, GeneratedLog) {
    let model = "gpt-5.2-codex";
    let (parent_id, fork_id) =
        (format!("{seed:08x}-3333-4000-8000-{seed:012x}"), format!("{seed:08x}-4444-4000-8000-{seed:012x}"));
    let used = [9000 + seed, 4000, 700, 100];
    let rollout = |id: &str, parent: Option<&str>, seed: u64, all: &[[u64; 4]]| {
        let (mut made, mut clock) =
            (GeneratedLog { model: model.to_owned(), ..GeneratedLog::default() }, Steps::new(seed));
        let mut meta = json!({
            "id":id,"timestamp":clock.after(0),"cwd":"/w","originator":"codex_cli_rs","cli_version":"0.90.0","source":"cli",
        });
        if let Some(parent) = parent {
            meta["forked_from_id"] = json!(parent);
        }
        let mut rollout = Rollout { made: &mut made, clock: &mut clock };
        rollout.line("session_meta", &meta);
        rollout.line("turn_context", &json!({"cwd":"/w","model":model}));
        let mut total = [0; 4];
        for (number, used) in all.iter().enumerate() {
            add(&mut total, *used);
            if parent.is_none() || number > 0 {
                rollout.clock.after(6000);
                let [input, cache_read, output, reasoning] = *used;
                rollout.made.count(Tokens {
                    input: input - cache_read,
                    cache_read,
                    output,
                    reasoning,
                    ..Tokens::default()
                });
            }
            rollout.totals(total, *used);
        }
        made
    };
    (
        rollout(&parent_id, None, seed, &[used]),
        rollout(&fork_id, Some(&parent_id), seed + 1, &[used, [5000, 300, 80, 10], [2000, 0, 40, 0]]),
    )
}

fn add(total: &mut [u64; 4], used: [u64; 4]) {
    total.iter_mut().zip(used).for_each(|(total, used)| *total += used);
}

struct Rollout<'m> {
    made: &'m mut GeneratedLog,
    clock: &'m mut Steps,
}

impl Rollout<'_> {
    /// Writes the lines of [`CODEX_PARENT`].
    fn parent(&mut self, total: &mut [u64; 4]) {
        self.line("turn_context", &json!({"cwd":"/w","model":"gpt-5.2-codex"}));
        for _ in 0..3 {
            add(total, [9000, 4000, 700, 100]);
            self.totals(*total, [9000, 4000, 700, 100]);
            let tokens = Tokens { input: 5000, cache_read: 4000, output: 700, reasoning: 100, ..Tokens::default() };
            self.made.count(tokens);
        }
    }

    fn line(&mut self, kind: &str, payload: &Value) {
        let at = self.clock.after(12);
        self.made.push(&json!({"timestamp":at,"type":kind,"payload":payload}));
    }

    fn turn(&mut self, turn: u64) {
        let model = self.made.model.clone();
        let asked = format!("Do step {turn}");
        let message = |role: &str, part: &str, text: &str| json!({"type":"message","role":role,"content":[{"type":part,"text":text}]});
        self.line("event_msg", &json!({"type":"task_started","model_context_window":272_000}));
        self.line("turn_context", &json!({"cwd":"/home/agent/workspace","approval_policy":"never","model":model}));
        let context = "<environment_context>\n  <cwd>/w</cwd>\n</environment_context>";
        self.line("response_item", &message("user", "input_text", context));
        self.line("response_item", &message("user", "input_text", &asked));
        self.line("event_msg", &json!({"type":"user_message","message":asked,"images":[]}));
        self.line("event_msg", &json!({"type":"agent_reasoning","text":format!("**Thinking of {turn}**")}));
        let summary = json!([{"type":"summary_text","text":format!("**Thinking of {turn}**")}]);
        self.line(
            "response_item",
            &json!({"type":"reasoning","summary":summary,"content":null,"encrypted_content":"e"}),
        );
        let call = format!("call_{turn}");
        let arguments = r#"{"command":["ls"]}"#;
        self.line(
            "response_item",
            &json!({"type":"function_call","name":"shell","arguments":arguments,"call_id":call}),
        );
        self.line("response_item", &json!({"type":"function_call_output","call_id":call,"output":"a\nb"}));
        self.line("event_msg", &json!({"type":"agent_message","message":format!("Done {turn}.")}));
        self.line("response_item", &message("assistant", "output_text", &format!("Done {turn}.")));
    }

    fn totals(&mut self, total: [u64; 4], last: [u64; 4]) {
        let usage = |used: [u64; 4]| {
            json!({
                "input_tokens":used[0],"cached_input_tokens":used[1],"output_tokens":used[2],
                "reasoning_output_tokens":used[3],"total_tokens":used[0] + used[2],
            })
        };
        let info =
            json!({"total_token_usage":usage(total),"last_token_usage":usage(last),"model_context_window":272_000});
        self.line("event_msg", &json!({"type":"token_count","info":info,"rate_limits":null}));
    }
}

/// Generates an envelope log: turns with tools, each ended by its result.
pub fn envelope(seed: u64, turns: u64) -> GeneratedLog {
    let mut random = Random::new(seed);
    let mut clock = Steps::new(seed);
    let mut made = GeneratedLog { turns, model: "anthropic/claude-sonnet-4-6".to_owned(), ..GeneratedLog::default() };
    let input = serde_json::value::to_raw_value(&json!({"c":1})).expect("serialises");
    for turn in 0..turns {
        let (call, answer) = (format!("d{turn}"), format!("done {turn} 😀"));
        let used = EnvelopeUsage {
            input_tokens: random.below(3000),
            output_tokens: 10 + random.below(900),
            cache_read_input_tokens: random.below(20_000),
            cache_creation_input_tokens: random.below(900),
        };
        let tokens = Tokens {
            input: used.input_tokens,
            output: used.output_tokens,
            cache_read: used.cache_read_input_tokens,
            cache_write_5m: used.cache_creation_input_tokens,
            ..Tokens::default()
        };
        let at = clock.after(1000);
        let line = Builder { timestamp: &at, session_id: Some("s-1") };
        let cost = serde_json::value::to_raw_value(&0).expect("serialises");
        let ending = Ending {
            subtype: "success",
            text: &answer,
            turns: 2,
            cost: &cost,
            tokens: used,
            stop_reason: None,
            duration_ms: 1000,
        };
        let blocks = vec![Block::Text { text: "ok" }, Block::ToolUse { id: &call, name: "bash", input: &input }];
        let model = made.model.clone();
        for line in [
            line.user("PRE-FLIGHT CHECK"),
            line.assistant(Some(&model), blocks, Some(used)),
            line.tool_result(&call, "fine", false, None),
            line.assistant(Some(&model), vec![Block::Text { text: &answer }], None),
            line.result(&ending),
        ] {
            made.lines.push(line.to_text().expect("serialises"));
        }
        made.count(tokens);
    }
    made
}

/// Generates a replay log of Skillet; `cut` decides whether the last turn is incomplete.
pub fn turns(seed: u64, turns: u64, cut: Cut) -> GeneratedLog {
    let mut clock = Steps::new(seed);
    let mut made = GeneratedLog { turns, model: "openai:gpt-4.1-mini".to_owned(), ..GeneratedLog::default() };
    for turn in 0..turns {
        let (asked, answer) = (format!("turn {turn}"), format!("done {turn} — ✓"));
        let (agent_name, tool_name) = ("todo_list_agent", "run_command_line");
        let mut entries = vec![
            Entry::UserMessage(&asked),
            Entry::Step(Step::AgentStart { agent_name }),
            Entry::Step(Step::AgentToolStart { agent_name, tool_name, tool_arguments_str: "{\"commandLine\":\"ls\"}" }),
            Entry::Step(Step::AgentToolEnd { agent_name, tool_name, result: "{\"exitCode\":0}" }),
            Entry::Step(Step::AgentEnd { agent_name }),
            Entry::Step(Step::Text { text: &answer }),
        ];
        if cut == Cut::Nothing || turn + 1 < turns {
            entries.push(Entry::FinalResult { text: &answer, model: Some("openai:gpt-4.1-mini") });
        }
        for entry in entries {
            made.lines.push(entry.to_text(&clock.after(7)).expect("serialises"));
        }
    }
    made
}

/// What a generated log lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// Nothing.
    Nothing,
    /// The end of its last turn.
    LastTurn,
}

/// Generates a transcript of AgentryLab: a user, two agents and a moderator in each iteration.
pub fn transcript(seed: u64, iterations: u64) -> GeneratedLog {
    let mut made = GeneratedLog { turns: iterations, model: "fake-1".to_owned(), ..GeneratedLog::default() };
    let second = |at: u64| f64::from(u32::try_from(at).unwrap_or(u32::MAX));
    let start = 1_775_000_000 + seed % 1_000_000;
    for iter in 0..iterations {
        let content_event = |content, metadata, actions| TranscriptEvent::Content { content, metadata, actions };
        let metadata = Some("{\"provider\": \"fake\", \"model\": \"fake-1\"}");
        let verdict = Content::Json("{\"summary\": \"ok — δ\", \"drift\": 0.1}");
        let actions = Some("{\"type\": \"CONTINUE\", \"rollback\": 0, \"clear_summaries\": false}");
        let events = [
            ("user", "user", content_event(Content::Text("go on"), None, None)),
            ("pro", "agent", content_event(Content::Text("reply 🤖"), metadata, None)),
            ("con", "agent", TranscriptEvent::Error("LLMProviderError: provider timed out after 30s")),
            ("moderator", "moderator", content_event(verdict, None, actions)),
        ];
        for (number, (agent_id, role, said)) in (0..).zip(events) {
            let t = second(start + iter * 10 + number) + 0.25;
            let event = Event { t, iter, agent_id, role, said, latency_ms: Some(0.5) };
            made.lines.push(event.to_text().expect("serialises"));
        }
    }
    made
}

fn usize_of(number: u64) -> usize {
    usize::try_from(number).unwrap_or_default()
}
