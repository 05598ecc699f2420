//! Commands to stop or kill, and the commands that run meanwhile.

use std::path::{Path, PathBuf};

use super::home::{Binary, Home};
use super::ledger::{Attempt, Effect, Ledger, Session};
use super::template::{Copied, Template};
use crate::postgres::Access;

/// A command and its effect.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    pub(crate) arguments: Vec<String>,
    pub(crate) effect: Effect,
}

pub(crate) const SAME: &str = "{\"type\":\"user\",\"text\":\"same\"}";

/// The session of most commands, with three lines; one that no command may touch; one without a log; one whose log was
/// closed by a failed sync.
pub(crate) const FIRST: &str = "s1";
pub(crate) const OTHER: &str = "s2";
pub(crate) const FRESH: &str = "s3";
pub(crate) const CLOSED: &str = "s4";
/// A session that was exported and deleted.
const EXPORTED: &str = "s5";

fn order(arguments: &[&str], effect: Effect) -> Order {
    Order { arguments: arguments.iter().map(|word| (*word).to_owned()).collect(), effect }
}

fn create(id: &str, name: &str) -> Order {
    let effect = Effect::Create { session: id.to_owned(), name: name.to_owned() };
    order(&["sessions", "new", "--id", id, "--name", name], effect)
}

pub(crate) fn append(id: &str, power: bool, operation: Option<&str>) -> Order {
    let (session, lines) = (id.to_owned(), vec![SAME.to_owned()]);
    let effect = Effect::Append { session, lines, operation: operation.map(str::to_owned), power };
    let durability = if power { "power" } else { "process" };
    let mut order = order(&["log", "append", "--session", id, "--durability", durability, "--line", SAME], effect);
    if let Some(operation) = operation {
        order.arguments.extend(["--operation-id".to_owned(), operation.to_owned()]);
    }
    order
}

fn delete(id: &str) -> Order {
    order(&["sessions", "delete", id, "--yes"], Effect::Delete { session: id.to_owned() })
}

fn delete_log(id: &str) -> Order {
    order(&["sessions", "delete", id, "--log", "--yes"], Effect::DeleteLog { session: id.to_owned() })
}

fn rename(id: &str, name: &str) -> Order {
    let effect = Effect::Rename { session: id.to_owned(), name: name.to_owned() };
    order(&["sessions", "rename", id, name, "--operation-id", &format!("to-{name}")], effect)
}

fn repair(id: &str) -> Order {
    order(&["log", "repair", id], Effect::None)
}

pub(crate) fn backup(to: &Path) -> Order {
    order(&["state", "backup", &to.display().to_string()], Effect::None)
}

fn import(document: &Path) -> Order {
    let effect = Effect::Import { session: EXPORTED.to_owned(), was: exported() };
    order(&["sessions", "import", &document.display().to_string()], effect)
}

fn exported() -> Session {
    let mut session = Session { name: "epsilon".to_owned(), ..Session::default() };
    (0..2).for_each(|_| session.add(SAME));
    session
}

/// The files of a case.
pub(crate) struct Places {
    /// The exported document.
    document: PathBuf,
    /// A directory for copies.
    scratch: PathBuf,
    /// False for a state on a server, which `state backup` does not copy.
    copies: bool,
}

/// Commands that are stopped or killed at each of their steps.
pub(crate) fn targets(places: &Places) -> Vec<(&'static str, Order)> {
    let mut targets = vec![
        ("append", append(FIRST, false, None)),
        ("append power", append(FIRST, true, None)),
        ("append once", append(FIRST, true, Some("target"))),
        ("first append", append(FRESH, true, None)),
        ("first append once", append(FRESH, false, Some("target"))),
        ("delete", delete(FIRST)),
        ("delete --log", delete_log(FIRST)),
        ("repair", repair(CLOSED)),
        ("rename", rename(FIRST, "zeta")),
        ("import", import(&places.document)),
        ("new", create("s9", "alpha-2")),
    ];
    if places.copies {
        targets.push(("backup", backup(&places.scratch.join("target-copy"))));
    }
    targets
}

/// Commands that run while a command is stopped.
pub(crate) fn meanwhile(places: &Places) -> Vec<(&'static str, Vec<Order>)> {
    let mut all = vec![
        (
            "append equal lines",
            vec![append(FIRST, true, None), append(FIRST, true, Some("other")), append(FRESH, true, None)],
        ),
        (
            "delete and re-create",
            vec![delete(FIRST), create("s6", "alpha"), append("s6", true, None), append("s6", true, None)],
        ),
        ("delete and re-create, equal length", {
            let mut orders = vec![delete(FIRST), create("s6", "alpha")];
            orders.extend((0..3).map(|_| append("s6", true, None)));
            orders
        }),
        ("delete the log", vec![delete_log(FIRST), append(FIRST, true, None)]),
        ("repair", vec![repair(FIRST), append(FIRST, false, None), repair(CLOSED), append(CLOSED, true, None)]),
        ("re-create the fresh session", vec![delete(FRESH), create("s7", "gamma"), append("s7", true, None)]),
        ("rename and reuse the name", vec![rename(FIRST, "eta"), create("s8", "alpha"), append("s8", true, None)]),
        ("import", vec![import(&places.document)]),
    ];
    if places.copies {
        all.push(("backup", vec![backup(&places.scratch.join("copy"))]));
    }
    all
}

/// A prepared home, which is copied for each case, and the commands that created it.
pub(crate) struct Prepared {
    pub(crate) template: Template,
    pub(crate) ledger: Ledger,
}

impl Prepared {
    /// Creates the home with the real binary.
    pub(crate) fn make(binary: &Binary, store: Option<&Access>) -> Result<Self, String> {
        let template = Template::new(store)?;
        let home = template.home(binary);
        let document = document(&template).display().to_string();
        let mut ledger = Ledger::default();
        let mut orders = vec![
            create(EXPORTED, "epsilon"),
            append(EXPORTED, true, None),
            append(EXPORTED, true, None),
            order(&["sessions", "export", EXPORTED, "--output", &document], Effect::None),
            delete(EXPORTED),
            create(FIRST, "alpha"),
            create(OTHER, "beta"),
            create(FRESH, "gamma"),
            create(CLOSED, "delta"),
        ];
        for operation in [None, Some("before"), None] {
            orders.extend([append(FIRST, true, operation), append(CLOSED, true, None)]);
        }
        orders.extend([append(OTHER, true, None), append(OTHER, true, None)]);
        for order in orders {
            let played = ask(&home, &order);
            if played.code != Some(0) {
                return Err(format!("creating the home: {:?} exited with {:?}", order.arguments, played.code));
            }
            ledger.played.push(played);
        }
        let failing = append(CLOSED, true, None);
        ledger.played.push(ask_with(&home, &failing, Some("fail=5 sync .jsonl 1 0")));
        template.finish()?;
        Ok(Self { template, ledger })
    }

    /// Copies the home, with a short busy timeout. The timeout also limits the time to connect to a server, and a
    /// loaded machine needs more than 200 ms for that.
    pub(crate) fn copy(&self, binary: &Binary) -> Result<Copied, String> {
        let mut copied = self.template.copy(binary)?;
        let timeout_ms = if copied.home.store.is_some() { "1000" } else { "200" };
        copied.home.with.push(("DUOLOG_BUSY_TIMEOUT_MS", timeout_ms.to_owned()));
        Ok(copied)
    }

    /// Returns the files of a case.
    pub(crate) fn places(&self, scratch: &Path) -> Places {
        let copies = self.template.database().is_none();
        Places { document: document(&self.template), scratch: scratch.to_owned(), copies }
    }
}

/// Returns the path of the exported document.
fn document(template: &Template) -> PathBuf {
    template.beside("document.json")
}

/// Runs a command and records its outcome.
pub(crate) fn ask(home: &Home, order: &Order) -> Attempt {
    ask_with(home, order, None)
}

pub(crate) fn ask_with(home: &Home, order: &Order, plan: Option<&str>) -> Attempt {
    let words: Vec<&str> = order.arguments.iter().map(String::as_str).collect();
    let answer = home.run_with(&words, None, plan);
    played(order, answer.pid, answer.code)
}

pub(crate) fn played(order: &Order, pid: u32, code: Option<i32>) -> Attempt {
    let Order { arguments, effect } = order.clone();
    Attempt { arguments, input: None, effect, pid, begun: 0, ended: 0, code }
}
