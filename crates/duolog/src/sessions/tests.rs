use std::collections::{HashMap, HashSet};

use duolog_types::json::check_value;
use duolog_types::limits::WORD_BYTES_MAX;
use proptest::prelude::*;
use serde_json::value::RawValue;

use super::*;
use crate::error::{Conflict, Invalid, NotFound};
use crate::{Home, StoreOptions};

fn store() -> (tempfile::TempDir, Store) {
    let directory = tempfile::tempdir().expect("a directory");
    let store = Store::open(StoreOptions::at(Home::beneath(directory.path())).one_shot()).expect("opens");
    (directory, store)
}

fn named(name: &str) -> NewSession {
    NewSession { name: Some(name.to_owned()), ..NewSession::default() }
}

#[test]
fn names_that_sanitize_alike_never_share_a_file() {
    let (_directory, store) = store();
    let names = ["Foo", "foo", "a/b", "a_b", "a b", "../x", "日本", "中国", "CON", &"x".repeat(300), &"x".repeat(301)];
    let paths: HashSet<String> =
        names.iter().map(|name| store.sessions().create(&named(name)).expect(name).log_path.to_lowercase()).collect();
    assert_eq!(paths.len(), names.len());
    for path in &paths {
        assert!(path.starts_with("sessions/threads/") && !path.contains(".."), "{path}");
        assert!(path.rsplit('/').next().expect("a file").len() <= 255, "{path}");
    }
}

#[test]
fn a_name_is_one_session_per_user() {
    let (_directory, store) = store();
    let of = |user: &str| NewSession { user_id: Some(user.to_owned()), ..named("plan") };
    let first = store.sessions().create(&of("john@example.com")).expect("made");
    assert_eq!(first.log_path, "sessions/john_example_com/plan.jsonl");
    assert!(matches!(store.sessions().create(&of("john@example.com")), Err(Error::Conflict(Conflict::NameTaken(_)))));
    let other = store.sessions().create(&of("anna@example.com")).expect("made");
    assert_ne!(first.id, other.id);
    let reference = SessionRef::UserAndName { user: "anna@example.com".to_owned(), name: "plan".to_owned() };
    assert_eq!(store.sessions().resolve(&reference).expect("found").id, other.id);
}

#[test]
fn a_working_directory_gives_its_slug_and_the_id() {
    let (_directory, store) = store();
    let new = NewSession { cwd: Some("/home/agent/workspace".into()), ..NewSession::default() };
    let session = store.sessions().create(&new).expect("made");
    assert_eq!(session.log_path, format!("sessions/-home-agent-workspace/{}.jsonl", session.id));
}

#[test]
fn reads_take_a_prefix_and_writes_never_do() {
    let (_directory, store) = store();
    let ids = ["abc-1", "abc-2", "xyz-1"];
    for id in ids {
        let id = Some(SessionId::parse(id).expect("an id"));
        store.sessions().create(&NewSession { id, ..NewSession::default() }).expect("made");
    }
    let resolve = |text: &str| store.sessions().resolve(&SessionRef::Text(text.to_owned()));
    assert_eq!(resolve("xyz").expect("one").id.as_str(), "xyz-1");
    assert!(matches!(resolve("abc"), Err(Error::Invalid(Invalid::Ambiguous { found, .. })) if found.len() == 2));
    assert!(matches!(resolve("q"), Err(Error::NotFound(NotFound::Session(_)))));
    let thread = store.sessions().open_thread("xyz").expect("a new thread");
    assert_ne!(thread.id.as_str(), "xyz-1");
    assert_eq!(store.sessions().open_thread("xyz").expect("the same").id, thread.id);
    assert_eq!(store.sessions().open_thread("abc-1").expect("by id").id.as_str(), "abc-1");
}

#[test]
fn a_rename_keeps_the_file_and_adds_a_log_line() {
    let (_directory, store) = store();
    let before = store.sessions().open_thread("before").expect("made");
    let after = store.sessions().rename(&before.id, "after").expect("renamed");
    assert_eq!((after.name.as_deref(), &after.log_path), (Some("after"), &before.log_path));
    let lines = store.log(&before.id).last(10).expect("reads");
    assert_eq!(lines.len(), 1);
    let text = String::from_utf8(lines[0].clone()).expect("UTF-8");
    assert!(text.contains("\"duolog.renamed\"") && text.contains("\"previousName\":\"before\""), "{text}");
    store.sessions().open_thread("taken").expect("made");
    assert!(matches!(store.sessions().rename(&before.id, "taken"), Err(Error::Conflict(Conflict::NameTaken(_)))));
    assert_eq!(store.log(&before.id).last(10).expect("reads").len(), 1, "a refused rename adds no line");
}

#[test]
fn an_invalid_name_is_refused() {
    let (_directory, store) = store();
    for bad in ["", " ", "a\0b", "a\nb", &"x".repeat(1025)] {
        assert!(matches!(store.sessions().create(&named(bad)), Err(Error::Invalid(Invalid::Name(_)))), "{bad:?}");
    }
    let metadata = Some("x".repeat(65 * 1024));
    let refused = store.sessions().create(&NewSession { node_metadata: metadata, ..NewSession::default() });
    assert!(refused.expect_err("too long").to_string().contains("belongs"));
}

#[test]
fn a_deleted_session_is_gone_with_its_log() {
    let (directory, store) = store();
    let session = store.sessions().open_thread("x").expect("made");
    let mut batch = crate::Batch::default();
    batch.push(b"{}").expect("a line");
    store.log(&session.id).append(&batch, Durability::Process).expect("appended");
    let file = directory.path().join("state").join(&session.log_path);
    assert!(file.exists());
    store.sessions().delete(&session.id).expect("deleted");
    assert!(!file.exists());
    assert!(matches!(store.sessions().get(&session.id), Err(Error::NotFound(NotFound::Session(_)))));
    assert!(store.log(&session.id).append(&batch, Durability::Process).is_err());
}

/// The role of an item and whether it is compactable, parsed by serde_json.
fn seen_by_serde(item: &str) -> (String, bool) {
    let members: HashMap<String, &RawValue> = serde_json::from_str(item).unwrap_or_default();
    let text = |name| members.get(name).and_then(|value: &&RawValue| serde_json::from_str::<String>(value.get()).ok());
    let (role, kind): (Option<String>, Option<String>) = (text("role"), text("type"));
    let by_user = role.as_deref() == Some("user") && matches!(kind.as_deref(), None | Some("message"));
    let compactable = !by_user && kind.as_deref() != Some("compaction");
    let role = role.filter(|role| !role.trim().is_empty() && role.len() <= WORD_BYTES_MAX);
    (role.unwrap_or_else(|| "item".to_owned()), compactable)
}

fn assert_seen(item: &str) {
    match rules::seen_in(item) {
        Ok(seen) => {
            assert_eq!(check_value(item), Ok(()), "{item}");
            assert_eq!((seen.role.into_owned(), seen.compactable), seen_by_serde(item), "{item}");
        }
        Err(fault) => assert_eq!(check_value(item), Err(fault), "{item}"),
    }
}

#[test]
fn the_role_is_read_from_odd_items_too() {
    for (item, role, compactable) in [
        (r#"{"role":"user"}"#, "user", false),
        (r#"{"role":"user","type":"message"}"#, "user", false),
        (r#"{"role":"user","type":"output"}"#, "user", true),
        (r#"{"role":"user","type":7}"#, "user", false),
        (r#"{"type":"compaction","role":"assistant"}"#, "assistant", false),
        (r#"{"ro\u006ce":"us\u0065r"}"#, "user", false),
        (r#"{"role":"assistant","role":"user"}"#, "user", false),
        (r#"{"role":"user","role":null}"#, "item", true),
        (r#"{"role":"\ud83d"}"#, "item", true),
        (r#"{"role":"user","\ud83d":1}"#, "item", true),
        (r#"{"role":"user","nested":{"\ud83d":1,"role":"tool"}}"#, "user", false),
        (r#"{"role":" ","type":"message"}"#, "item", true),
        (r#"[{"role":"user"}]"#, "item", true),
        (r#""user""#, "item", true),
    ] {
        let seen = rules::seen_in(item).expect(item);
        assert_eq!((&*seen.role, seen.compactable), (role, compactable), "{item}");
        assert_seen(item);
    }
}

/// Items with the members that matter, and with similar ones.
fn items() -> impl Strategy<Value = String> {
    let names =
        [r"role", r"type", r"ro\u006ce", r"\u0074ype", r"Role", r"role ", r"", r"\ud83d", r"content", r"\\role"];
    let texts =
        [r"user", r"us\u0065r", r"message", r"compaction", r"assistant", r"", r" \t", r"\udc00", r"\ud83d\ude00", "é"];
    let string = prop_oneof![
        8 => prop::sample::select(texts.to_vec()).prop_map(str::to_owned),
        1 => (WORD_BYTES_MAX - 1..WORD_BYTES_MAX + 2).prop_map(|len| "x".repeat(len)),
    ];
    let other =
        [r"null", r"-1.5e3", r"[]", r"{}", r#"{"role":"user","type":["compaction"]}"#, r#"["role",{"type":"x"}]"#];
    let value = prop_oneof![
        3 => string.prop_map(|text| format!("\"{text}\"")),
        1 => prop::sample::select(other.to_vec()).prop_map(str::to_owned),
    ];
    let member = (prop::sample::select(names.to_vec()), value, prop::sample::select(vec!["", " ", "\r\n\t"]))
        .prop_map(|(name, value, space)| format!("{space}\"{name}\"{space}:{space}{value}{space}"));
    let object = prop::collection::vec(member, 0..6).prop_map(|members| format!("{{{}}}", members.join(",")));
    (object, 0..8).prop_map(|(object, around)| match around {
        0 => format!("[{object}]"),
        1 => format!(" {object}\n"),
        2 => format!("{object},"),
        _ => object,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2048))]

    #[test]
    fn one_pass_equals_serde_json(item in items(), at in any::<prop::sample::Index>(), put in any::<char>()) {
        assert_seen(&item);
        // The same item with one character replaced.
        let mut chars: Vec<char> = item.chars().collect();
        let (one, other) = (at.index(chars.len()), at.index("\"\\{}[]:,u0 ".len()));
        chars[one] = put;
        assert_seen(&chars.iter().collect::<String>());
        chars[one] = char::from(b"\"\\{}[]:,u0 "[other]);
        assert_seen(&chars.iter().collect::<String>());
    }
}
