//! Formats a tool call as a person would write it: `$ cargo test`, `Read src/main.rs`, an edit as a small diff.
//!
//! The result depends only on the tool's name and its arguments. An unknown tool is shown with its raw arguments.

use std::borrow::Cow;

use super::object::{Object, decode, elements};
use super::timeline::{ItemKind, TimelineItem};

/// A line of a call's body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallLine {
    /// Plain text.
    Plain(String),
    /// A line that the edit removes.
    Removed(String),
    /// A line that the edit adds.
    Added(String),
}

/// A call, formatted for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The action, in one line if the arguments allow it.
    pub title: String,
    /// The lines below the title: the diff of an edit.
    pub body: Vec<CallLine>,
}

impl Call {
    fn of(title: impl Into<String>) -> Self {
        Self { title: title.into(), body: Vec::new() }
    }
}

/// Shells whose `-c` argument is the command that a person would type.
const SHELLS: &[&str] = &["bash", "sh", "zsh", "/bin/bash", "/bin/sh", "/bin/zsh", "/usr/bin/bash", "/usr/bin/zsh"];
/// The argument names for a file's path.
const PATHS: &[&str] = &["file_path", "path", "notebook_path", "filePath", "file"];

/// Formats a call for people; `None` if the item is not a call.
pub fn call(item: &TimelineItem) -> Option<Call> {
    if item.kind != ItemKind::ToolCall {
        return None;
    }
    let tool = item.tool.as_deref().unwrap_or("tool");
    let text = item.text.as_str();
    let Some(arguments) = Object::parse(text) else { return Some(plain(tool, text)) };
    Some(known(tool, &arguments).unwrap_or_else(|| other(tool, &arguments, text)))
}

/// Formats a call whose arguments are not an object: a command, a patch, a query.
fn plain(tool: &str, text: &str) -> Call {
    match tool {
        "command_execution" => Call::of(format!("$ {}", unwrap_shell(text))),
        "apply_patch" => patch(text),
        "web_search" => Call::of(format!("Search the web: {text}")),
        "file_change" => {
            let mut lines = text.lines();
            let title = format!("Edit {}", lines.next().unwrap_or_default());
            Call { title, body: lines.map(|line| CallLine::Plain(line.to_owned())).collect() }
        }
        _ => Call::of(format!("{tool} {text}").trim_end()),
    }
}

fn known(tool: &str, arguments: &Object<'_>) -> Option<Call> {
    let word = |name: &str| arguments.word(name);
    let path = || PATHS.iter().find_map(|name| word(name));
    let within = || path().map(|path| format!(" in {path}")).unwrap_or_default();
    Some(match tool.to_ascii_lowercase().as_str() {
        "bash" | "shell" | "local_shell" | "exec_command" | "run_command_line" | "run_shell_command" => {
            Call::of(format!("$ {}", command(arguments)?))
        }
        "read" | "read_file" | "view" => Call::of(format!("Read {}{}", path()?, lines_of(arguments))),
        "write" | "write_file" => {
            let lines = word("content").map(|text| text.lines().count()).unwrap_or_default();
            let unit = if lines == 1 { "line" } else { "lines" };
            Call::of(format!("Write {} ({lines} {unit})", path()?))
        }
        "edit" | "str_replace" => {
            let (old, new) = (arguments.text("old_string")?, arguments.text("new_string")?);
            Call { title: format!("Edit {}", path()?), body: diff(&old, &new) }
        }
        "multiedit" => {
            let edits = arguments.list("edits")?;
            let body = edits.into_iter().filter_map(Object::parse).flat_map(|edit| {
                let text = |name| edit.text(name).unwrap_or_default();
                diff(&text("old_string"), &text("new_string"))
            });
            Call { title: format!("Edit {}", path()?), body: body.collect() }
        }
        "notebookedit" => {
            let added = word("new_source").unwrap_or_default();
            Call { title: format!("Edit {}", path()?), body: diff("", &added) }
        }
        "apply_patch" => patch(&word("input").or_else(|| word("patch"))?),
        "grep" => Call::of(format!("Grep {:?}{}", word("pattern")?, within())),
        "glob" => Call::of(format!("Glob {}{}", word("pattern")?, within())),
        "ls" => Call::of(format!("LS {}", path()?)),
        "webfetch" => Call::of(format!("Fetch {}", word("url")?)),
        "websearch" | "web_search" => Call::of(format!("Search the web: {}", word("query")?)),
        "task" | "agent" => Call::of(format!("{tool} {}", word("description").or_else(|| word("prompt"))?)),
        "todowrite" | "update_plan" => {
            let items = arguments.list("todos").or_else(|| arguments.list("plan"))?;
            Call { title: "Update the plan".to_owned(), body: items.into_iter().filter_map(todo).collect() }
        }
        _ => return None,
    })
}

/// Formats a call of an unknown tool: with its only argument, or with the raw arguments.
fn other(tool: &str, arguments: &Object<'_>, text: &str) -> Call {
    // Claude Code names the tools of MCP servers `mcp__server__tool`.
    let tool = tool.strip_prefix("mcp__").map_or(Cow::Borrowed(tool), |name| Cow::Owned(name.replacen("__", ".", 1)));
    let mut members = arguments.members();
    let only = members.next().filter(|_| members.next().is_none()).and_then(|(_, raw)| decode(raw));
    match only {
        Some(only) => Call::of(format!("{tool} {only}")),
        None if text.trim() == "{}" => Call::of(tool),
        None => Call::of(format!("{tool} {text}")),
    }
}

/// Returns the command for a shell: text, or a list of arguments.
fn command(arguments: &Object<'_>) -> Option<String> {
    let raw = ["command", "cmd", "commandLine", "script"].iter().find_map(|name| arguments.some(name))?;
    if let Some(text) = decode(raw) {
        return Some(unwrap_shell(&text).into_owned());
    }
    let words: Vec<String> = elements(raw)?.into_iter().filter_map(decode).map(Cow::into_owned).collect();
    match words.as_slice() {
        [shell, flag, script] if SHELLS.contains(&shell.as_str()) && matches!(flag.as_str(), "-c" | "-lc") => {
            Some(script.clone())
        }
        words => Some(words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")),
    }
}

/// Returns the script of `bash -lc 'cargo test'`; any other command unchanged.
fn unwrap_shell(command: &str) -> Cow<'_, str> {
    let script = SHELLS.iter().find_map(|shell| {
        let rest = command.strip_prefix(shell)?.trim_start();
        rest.strip_prefix("-lc ").or_else(|| rest.strip_prefix("-c ")).map(str::trim)
    });
    let Some(script) = script else { return Cow::Borrowed(command) };
    let inner = |quote: char| script.strip_prefix(quote)?.strip_suffix(quote).filter(|inner| !inner.contains(quote));
    if let Some(inner) = inner('\'') {
        return Cow::Borrowed(inner);
    }
    match inner('"').filter(|inner| !inner.contains('\\')) {
        Some(inner) => Cow::Borrowed(inner),
        None if !script.contains(char::is_whitespace) => Cow::Borrowed(script),
        None => Cow::Borrowed(command),
    }
}

fn quoted(word: &str) -> Cow<'_, str> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return Cow::Borrowed(word);
    }
    Cow::Owned(format!("'{}'", word.replace('\'', r"'\''")))
}

/// Returns `:10-60` if only a part of a file is read.
fn lines_of(arguments: &Object<'_>) -> String {
    match (arguments.count("offset"), arguments.count("limit")) {
        (Some(from), Some(count)) if count > 0 => format!(":{from}-{}", from.saturating_add(count - 1)),
        (None, Some(count)) if count > 0 => format!(":1-{count}"),
        (Some(from), _) => format!(":{from}-"),
        _ => String::new(),
    }
}

fn todo(raw: &str) -> Option<CallLine> {
    let item = Object::parse(raw)?;
    let text = ["content", "step", "text"].iter().find_map(|name| item.word(name))?;
    let mark = match item.text("status").as_deref() {
        Some("completed") => "x",
        Some("in_progress") => ">",
        _ => " ",
    };
    Some(CallLine::Plain(format!("[{mark}] {text}")))
}

/// Formats a patch of Codex: the title names its files, the body has its lines.
fn patch(text: &str) -> Call {
    let (mut files, mut body) = (Vec::new(), Vec::new());
    for line in text.lines() {
        let file = ["*** Update File: ", "*** Add File: ", "*** Delete File: "]
            .iter()
            .find_map(|head| line.strip_prefix(head));
        if let Some(file) = file {
            files.push(file.trim());
            continue;
        }
        match (line.strip_prefix('-'), line.strip_prefix('+')) {
            _ if line.starts_with("***") || line.starts_with("@@") => {}
            (Some(removed), _) => body.push(CallLine::Removed(removed.to_owned())),
            (_, Some(added)) => body.push(CallLine::Added(added.to_owned())),
            _ => {}
        }
    }
    let title = if files.is_empty() { "apply_patch".to_owned() } else { format!("Edit {}", files.join(", ")) };
    Call { title, body }
}

/// Returns the differing lines, without the common beginning and end.
fn diff(old: &str, new: &str) -> Vec<CallLine> {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let same = old.iter().zip(&new).take_while(|(old, new)| old == new).count();
    let (old, new) = (&old[same..], &new[same..]);
    let end = old.iter().rev().zip(new.iter().rev()).take_while(|(old, new)| old == new).count();
    let removed = old[..old.len() - end].iter().map(|line| CallLine::Removed((*line).to_owned()));
    let added = new[..new.len() - end].iter().map(|line| CallLine::Added((*line).to_owned()));
    removed.chain(added).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(tool: &str, text: &str) -> Call {
        let item = TimelineItem { tool: Some(tool.to_owned()), ..TimelineItem::new(ItemKind::ToolCall, text) };
        call(&item).expect("a call")
    }

    #[test]
    fn calls_are_formatted_as_people_write_them() {
        for (tool, arguments, title) in [
            ("Bash", r#"{"command":"cargo test","description":"run"}"#, "$ cargo test"),
            ("shell", r#"{"command":["bash","-lc","ls -la"]}"#, "$ ls -la"),
            ("shell", r#"{"command":["git","commit","-m","a b"]}"#, "$ git commit -m 'a b'"),
            ("exec_command", r#"{"cmd":"make"}"#, "$ make"),
            ("command_execution", "/bin/bash -lc 'cargo test'", "$ cargo test"),
            ("command_execution", "bash -lc ls", "$ ls"),
            ("command_execution", "bash -lc 'a' && 'b'", "$ bash -lc 'a' && 'b'"),
            ("Read", r#"{"file_path":"src/main.rs"}"#, "Read src/main.rs"),
            ("Read", r#"{"file_path":"a","offset":10,"limit":5}"#, "Read a:10-14"),
            ("Write", r#"{"file_path":"a","content":"x\ny\n"}"#, "Write a (2 lines)"),
            ("Grep", r#"{"pattern":"fn .*","path":"src"}"#, r#"Grep "fn .*" in src"#),
            ("WebSearch", r#"{"query":"rust"}"#, "Search the web: rust"),
            ("mcp__git__status", r#"{"repo":"/w"}"#, "git.status /w"),
            ("mystery", r#"{"a":1,"b":2}"#, r#"mystery {"a":1,"b":2}"#),
            ("mystery", "{}", "mystery"),
            ("Bash", r#"{"no":"command","at":"all"}"#, r#"Bash {"no":"command","at":"all"}"#),
            ("Bash", "cut off {", "Bash cut off {"),
        ] {
            assert_eq!(shown(tool, arguments).title, title, "{tool} {arguments}");
        }
    }

    #[test]
    fn an_edit_shows_only_the_differing_lines() {
        let edit = shown("Edit", r#"{"file_path":"a.rs","old_string":"x\nold\nz","new_string":"x\nnew\nmore\nz"}"#);
        assert_eq!(edit.title, "Edit a.rs");
        let (removed, added) = (CallLine::Removed("old".to_owned()), |text: &str| CallLine::Added(text.to_owned()));
        assert_eq!(edit.body, [removed.clone(), added("new"), added("more")]);
        let text = "*** Begin Patch\n*** Update File: a.rs\n@@\n x\n-old\n+new\n*** End Patch";
        let patch = shown("apply_patch", text);
        assert_eq!((patch.title.as_str(), patch.body), ("Edit a.rs", vec![removed, added("new")]));
        assert_eq!(shown("Edit", r#"{"file_path":"a","old_string":"s","new_string":"s"}"#).body, []);
    }
}
