//! Generated output of agents for programs: `claude --output-format stream-json` and `codex exec --json`. No line has a
//! timestamp.

use duolog_log::dialect::money::Money;
use duolog_log::dialect::usage::Tokens;
use serde_json::{Value, json};

use super::GeneratedLog;
use crate::random::Random;

/// The model of titles and summaries, whose responses no line shows.
const SMALL_MODEL: &str = "claude-haiku-4-5-20251001";

/// Generates the stream of one Claude Code process that answers `turns` prompts, with partial messages.
///
/// Every response spans several lines, each with only a part of its output tokens. A subagent responds in the first
/// turn. The totals of each result grow, include a small model that no line shows, and report the cost so far.
pub fn claude_stream(seed: u64, turns: u64) -> GeneratedLog {
    let model = "claude-opus-4-8";
    let mut writer = Stream {
        made: GeneratedLog { turns, model: model.to_owned(), ..GeneratedLog::default() },
        random: Random::new(seed),
        session: format!("{seed:08x}-5555-4000-8000-{seed:012x}"),
        number: 0,
        big: Tokens::default(),
        small: Tokens::default(),
        picos: 0,
        small_picos: 0,
    };
    for turn in 0..turns {
        writer.turn(turn);
    }
    writer.made
}

struct Stream {
    made: GeneratedLog,
    random: Random,
    session: String,
    number: u64,
    /// The tokens of the models so far.
    big: Tokens,
    small: Tokens,
    picos: u128,
    small_picos: u128,
}

impl Stream {
    fn turn(&mut self, turn: u64) {
        let model = self.made.model.clone();
        self.line(&json!({
            "type":"system","subtype":"init","cwd":"/home/agent/workspace","tools":["Bash","Read","Edit","Task"],
            "mcp_servers":[],"model":model,"permissionMode":"default","slash_commands":["review"],"apiKeySource":"none",
        }));
        self.line(&json!({
            "type":"user","message":{"role":"user","content":[{"type":"text","text":format!("Fix bug {turn}")}]},
            "parent_tool_use_id":null,"isReplay":true,
        }));
        self.line(
            &json!({"type":"rate_limit_event","rate_limit_info":{"status":"allowed","rateLimitType":"five_hour"}}),
        );
        let command =
            json!({"type":"tool_use","id":format!("toolu_{turn}_a"),"name":"Bash","input":{"command":"cargo test"}});
        self.response(&[json!({"type":"thinking","thinking":"hm","signature":"c2ln"}), command], None);
        self.answer(&format!("toolu_{turn}_a"), "1 test failed", true, None);
        let input = json!({"file_path":"src/main.rs","old_string":"a + b","new_string":"a - b"});
        let edit = json!({"type":"tool_use","id":format!("toolu_{turn}_b"),"name":"Edit","input":input});
        self.response(&[json!({"type":"text","text":"I see it."}), edit], None);
        self.answer(&format!("toolu_{turn}_b"), "The file was updated.", false, None);
        if turn == 0 {
            let input = json!({"description":"Check the docs","prompt":"Check","subagent_type":"general"});
            let task = json!({"type":"tool_use","id":"toolu_task","name":"Task","input":input});
            self.response(&[task], None);
            self.response(&[json!({"type":"text","text":"The docs are right."})], Some("toolu_task"));
            self.answer("toolu_task", "The docs are right.", false, None);
        }
        let text = format!("Bug {turn} is fixed.");
        self.response(&[json!({"type":"text","text":text})], None);
        let hidden = Tokens { input: 300 + turn, output: 12, ..Tokens::default() };
        self.small = self.small.plus(&hidden);
        self.made.count(hidden);
        self.picos += 1_234_000_000;
        self.small_picos += 1_234_000_000;
        self.result(&text);
    }

    /// Writes one response, one line per block, each after its partial messages.
    fn response(&mut self, blocks: &[Value], parent: Option<&str>) {
        self.number += 1;
        let id = format!("msg_{}_{}", self.session, self.number);
        let tokens = Tokens {
            input: self.random.below(50),
            output: 40 + self.random.below(900),
            cache_read: self.random.below(90_000),
            cache_write_5m: self.random.below(5000),
            ..Tokens::default()
        };
        // A stream reports the input tokens when a response begins, and only the first output tokens.
        let usage = |output: u64| {
            json!({
                "input_tokens":tokens.input,"cache_creation_input_tokens":tokens.cache_write_5m,
                "cache_read_input_tokens":tokens.cache_read,"output_tokens":output,"service_tier":"standard",
            })
        };
        let model = self.made.model.clone();
        let event = |event: Value| json!({"type":"stream_event","event":event,"parent_tool_use_id":parent});
        let message = |content: Value| json!({"id":id,"type":"message","role":"assistant","model":model,"content":content,"stop_reason":null,"usage":usage(3)});
        self.line(&event(json!({"type":"message_start","message":message(json!([]))})));
        for (index, block) in blocks.iter().enumerate() {
            let mut begun = block.clone();
            for empty in ["text", "thinking"] {
                if begun[empty].is_string() {
                    begun[empty] = json!("");
                }
            }
            self.line(&event(json!({"type":"content_block_start","index":index,"content_block":begun})));
            let delta = json!({"type":"text_delta","text":block["text"]});
            if block["type"] == "text" {
                self.line(&event(json!({"type":"content_block_delta","index":index,"delta":delta})));
            }
            self.line(&json!({"type":"assistant","message":message(json!([block])),"parent_tool_use_id":parent}));
            self.line(&event(json!({"type":"content_block_stop","index":index})));
        }
        self.line(&event(
            json!({"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":usage(tokens.output)}),
        ));
        self.line(&event(json!({"type":"message_stop"})));
        self.big = self.big.plus(&tokens);
        self.picos += 20_500_000_000 + u128::from(tokens.output) * 25_000_000;
        self.made.count(tokens);
    }

    fn answer(&mut self, call: &str, text: &str, failed: bool, parent: Option<&str>) {
        let result = json!({"tool_use_id":call,"type":"tool_result","content":text,"is_error":failed});
        let message = json!({"role":"user","content":[result]});
        self.line(
            &json!({"type":"user","message":message,"parent_tool_use_id":parent,"tool_use_result":{"stdout":text}}),
        );
    }

    fn result(&mut self, text: &str) {
        let cost = Money::from_picos(self.picos);
        let number = |money: Money| money.to_string().parse::<f64>().expect("a number");
        let small = Money::from_picos(self.small_picos);
        let by_model = |used: &Tokens, cost: Money| {
            json!({
                "inputTokens":used.input,"outputTokens":used.output,"cacheReadInputTokens":used.cache_read,
                "cacheCreationInputTokens":used.cache_write_5m,"webSearchRequests":0,"costUSD":number(cost),"contextWindow":200_000,
            })
        };
        let (model, big_cost) = (self.made.model.clone(), cost.less(small));
        let models = json!({model:by_model(&self.big, big_cost),SMALL_MODEL:by_model(&self.small, small)});
        let used = self.big;
        let usage = json!({
            "input_tokens":used.input,"cache_creation_input_tokens":used.cache_write_5m,
            "cache_read_input_tokens":used.cache_read,"output_tokens":used.output,
        });
        self.line(&json!({
            "type":"result","subtype":"success","is_error":false,"duration_ms":4200,"duration_api_ms":4000,"num_turns":4,
            "result":text,"stop_reason":"end_turn","total_cost_usd":number(cost),"usage":usage,"modelUsage":models,
            "permission_denials":[],
        }));
        self.made.cost = cost;
    }

    fn line(&mut self, line: &Value) {
        let mut line = line.clone();
        let uuid = format!("{:08x}-6666-4000-8000-{:012x}", self.made.lines.len(), self.number);
        line["session_id"] = json!(self.session);
        line["uuid"] = json!(uuid);
        self.made.push(&line);
    }
}

/// Generates the output of `codex exec --json` for a thread that is resumed for each of `turns` prompts: totals grow.
pub fn codex_exec(seed: u64, turns: u64) -> GeneratedLog {
    let mut random = Random::new(seed);
    let mut made = GeneratedLog { turns, ..GeneratedLog::default() };
    let thread = format!("{seed:08x}-7777-4000-8000-{seed:012x}");
    let mut total = [0; 3];
    for turn in 0..turns {
        made.push(&json!({"type":"thread.started","thread_id":thread}));
        made.push(&json!({"type":"turn.started"}));
        let item = |event: &str, item: Value| json!({"type":event,"item":item});
        let shell = |status: &str, output: &str, code: Value| {
            json!({
                "id":"item_1","type":"command_execution","command":"bash -lc 'cargo test'","aggregated_output":output,
                "exit_code":code,"status":status,
            })
        };
        let todo = |done: bool| json!({"id":"item_4","type":"todo_list","items":[{"text":"Fix it","completed":done}]});
        let call = |status: &str, result: Value| {
            json!({
                "id":"item_5","type":"mcp_tool_call","server":"docs","tool":"search","arguments":{"q":"rust"},
                "result":result,"error":null,"status":status,
            })
        };
        let found = json!({"content":[{"type":"text","text":"one page"}],"structured_content":null});
        let changes = json!([{"path":"src/main.rs","kind":"update"}]);
        for line in [
            item("item.completed", json!({"id":"item_0","type":"reasoning","text":"**Looking**"})),
            item("item.started", shell("in_progress", "", Value::Null)),
            item("item.completed", shell("failed", "1 test failed\n", json!(101))),
            item("item.completed", json!({"id":"item_3","type":"file_change","changes":changes,"status":"completed"})),
            item("item.started", todo(false)),
            item("item.updated", todo(true)),
            item("item.started", call("in_progress", Value::Null)),
            item("item.completed", call("completed", found)),
            item("item.completed", json!({"id":"item_6","type":"web_search","query":"rust editions"})),
            item(
                "item.completed",
                json!({"id":"item_7","type":"agent_message","text":format!("Bug {turn} is fixed.")}),
            ),
            item("item.completed", todo(true)),
        ] {
            made.push(&line);
        }
        let input = 1000 + random.below(60_000);
        let used = [input, random.below(input), 50 + random.below(3000)];
        total.iter_mut().zip(used).for_each(|(total, used)| *total += used);
        let usage = json!({"input_tokens":total[0],"cached_input_tokens":total[1],"output_tokens":total[2]});
        made.push(&json!({"type":"turn.completed","usage":usage}));
        made.count(Tokens { input: used[0] - used[1], cache_read: used[1], output: used[2], ..Tokens::default() });
    }
    made
}
