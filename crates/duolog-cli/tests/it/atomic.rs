use std::fmt::Write as _;
use std::path::Path;
use std::process::Stdio;

use duolog_testkit::engines::Place;
use duolog_testkit::on_both_engines;

use crate::kit::{Kit, Ran};

on_both_engines!(a_command_that_fails_at_any_of_its_writes_changes_nothing, one_of_several_racing_ends_is_kept);

/// The tables and the statements that can fail. For sessions and lines only inserts: other writes follow the commit.
const TABLES: [(&str, &[&str]); 13] = [
    ("workflow_runs", ALL),
    ("workflow_run_bodies", ALL),
    ("workflow_run_scratch", ALL),
    ("workflow_run_phases", ALL),
    ("workflow_run_nodes", ALL),
    ("workflow_queue", ALL),
    ("workflow_approvals", ALL),
    ("workflow_overrides", ALL),
    ("executions", ALL),
    ("execution_bodies", ALL),
    ("execution_rollups", ALL),
    ("sessions", &["INSERT"]),
    ("outbox_lines", &["INSERT"]),
];
const ALL: &[&str] = &["INSERT", "UPDATE", "DELETE"];

/// A state in which a chosen write fails: the rows, the outbox and the lines of a command, in order.
struct Faulty<'p> {
    kit: Kit,
    place: &'p Place,
}

impl<'p> Faulty<'p> {
    fn on(place: &'p Place) -> Self {
        let faulty = Self { kit: Kit::on(place), place };
        faulty.kit.run(&["workflows", "enable", "other"]).is(0);
        let mut sql =
            String::from("CREATE TABLE writes_left (n BIGINT NOT NULL); INSERT INTO writes_left VALUES (0);\n");
        if place.database().is_some() {
            sql.push_str(
                "CREATE FUNCTION count_write() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
                 UPDATE writes_left SET n = n - 1; \
                 IF (SELECT n FROM writes_left) < 0 THEN RAISE EXCEPTION 'injected' USING ERRCODE = 'check_violation'; \
                 END IF; IF TG_OP = 'DELETE' THEN RETURN OLD; END IF; RETURN NEW; END $$;\n",
            );
        }
        for (table, events) in TABLES {
            for event in events {
                let when = match place.database() {
                    Some(_) => "FOR EACH ROW EXECUTE FUNCTION count_write();",
                    None => {
                        "BEGIN UPDATE writes_left SET n = n - 1; \
                         SELECT RAISE(ABORT, 'injected') WHERE (SELECT n FROM writes_left) < 0; END;"
                    }
                };
                writeln!(sql, "CREATE TRIGGER counted_{table}_{event} BEFORE {event} ON {table} {when}")
                    .expect("writes");
            }
        }
        faulty.sql(&sql);
        faulty
    }

    fn sql(&self, sql: &str) {
        match self.place.database() {
            Some(database) => drop(database.run_sql(sql).expect("runs")),
            None => rusqlite::Connection::open(self.kit.home().join("state/state.db"))
                .and_then(|state| state.execute_batch(sql))
                .expect("runs"),
        }
    }

    /// Returns the content of the tables and of the logs.
    fn dump(&self) -> String {
        let mut all = String::new();
        for (table, events) in TABLES {
            let columns = if events.len() == 1 { "COUNT(*)" } else { "*" };
            // Lines leave the outbox when their log is synced, independent of the command.
            if table == "outbox_lines" {
                continue;
            }
            if let Some(database) = self.place.database() {
                let sql = format!("SELECT {columns} FROM {table} ORDER BY 1");
                all += &database.run_sql(&sql).expect("reads");
            } else {
                let state = rusqlite::Connection::open(self.kit.home().join("state/state.db")).expect("opens");
                let mut rows = state.prepare(&format!("SELECT {columns} FROM {table} ORDER BY 1")).expect("prepares");
                let width = rows.column_count();
                let mut rows = rows.query([]).expect("reads");
                while let Some(row) = rows.next().expect("reads") {
                    for column in 0..width {
                        write!(all, "{:?}|", row.get::<_, rusqlite::types::Value>(column).expect("reads"))
                            .expect("writes");
                    }
                }
            }
            writeln!(all, "-- {table}").expect("writes");
        }
        lines_below(&self.kit.home().join("state/sessions"), &mut all);
        all
    }

    /// Runs a command that fails at its first write, then at its second, and so on, until it succeeds.
    fn run(&self, args: &[&str]) -> Ran {
        let before = self.dump();
        for writes in 0..80 {
            self.sql(&format!("UPDATE writes_left SET n = {writes}"));
            let ran = self.kit.run(args);
            if ran.code == Some(0) {
                assert!(writes > 0, "{args:?} writes nothing");
                return ran;
            }
            assert!(ran.stderr.contains("injected") || ran.text().contains("injected"), "{args:?}: {}", ran.stderr);
            assert_eq!(self.dump(), before, "{args:?} failed at write {writes} and left something");
        }
        panic!("{args:?} is never done");
    }

    /// Returns the output of a command that succeeds.
    fn printed(&self, args: &[&str]) -> String {
        self.run(args).text().trim().to_owned()
    }
}

/// Appends the number of lines of each log.
fn lines_below(directory: &Path, all: &mut String) {
    let Ok(entries) = std::fs::read_dir(directory) else { return };
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("reads").path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            lines_below(&path, all);
        } else if path.extension().is_some_and(|extension| extension == "jsonl") {
            let lines = std::fs::read_to_string(&path).expect("a log").lines().count();
            writeln!(all, "{}: {lines}", path.display()).expect("writes");
        }
    }
}

fn a_command_that_fails_at_any_of_its_writes_changes_nothing(place: &Place) {
    let state = Faulty::on(place);
    let started =
        state.printed(&["runs", "start", "build", "--trigger", "t", "--id", "r", "--owner", "w", "--context", "{}"]);
    let fence = started.split_once(' ').expect("a run and a fence").1.to_owned();
    let plan = state.printed(&["runs", "phase", "begin", "r", "plan", "--fence", &fence]);
    state.run(&["runs", "phase", "session", "r", &plan, "s", "--fence", &fence]);
    let end = ["runs", "phase", "end", "r", &plan, "--fence", &fence, "--cost-usd", "0.5", "--input-tokens", "7"];
    state.run(&[&end[..], &["--output", "the plan", "--summary", "three steps", "--session", "s2"]].concat());
    state.run(&["runs", "phase", "enter", "r", "code", "--fence", &fence]);
    state.run(&["runs", "phase", "complete", "r", "code", "--fence", &fence, "--summary", "done"]);
    state.run(&["runs", "phase", "skip", "r", "lint", "--fence", &fence, "--reason", "nothing changed"]);
    state.run(&["runs", "scratch", "r", "--merge", "{\"a\":1,\"b\":2}", "--fence", &fence]);
    state.run(&["runs", "nodes", "r", "{\"n1\":\"done\",\"n2\":\"running\"}", "--fence", &fence]);
    let gate = ["runs", "gate", "r", "ship", "--id", "g1", "--summary", "Ship?", "--scratch", "{\"c\":3,\"d\":4}"];
    state.run(&[&gate[..], &["--loop-key", "loop", "--iteration", "1", "--output", &plan, "--fence", &fence]].concat());
    state.run(&["approvals", "approve", "g1", "--reason", "go"]);
    let fence = state.printed(&["runs", "claim", "r", "--owner", "w"]);
    state.run(&["runs", "acknowledge", "r", "g1", "--fence", &fence]);
    state.run(&["runs", "renew", "r", "--fence", &fence]);
    state.run(&["runs", "phase", "begin", "r", "left", "--fence", &fence]);
    state.run(&["runs", "release", "r", "--fence", &fence]);
    let fence = state.printed(&["runs", "claim", "r", "--owner", "w"]);
    state.run(&["runs", "phase", "begin", "r", "left", "--fence", &fence]);
    state.run(&["runs", "requeue", "r", "--fence", &fence]);
    let admitted = state.printed(&["runs", "admit", "--owner", "w"]);
    let fence = admitted.split_once(' ').expect("a run and a fence").1.to_owned();
    state.run(&["runs", "phase", "begin", "r", "left", "--fence", &fence]);
    state.run(&["runs", "pause", "r"]);
    state.run(&["runs", "resume", "r"]);
    state.run(&["runs", "cancel", "r"]);
    state.run(&["runs", "retry", "r"]);
    state.run(&["runs", "gate", "r", "ship", "--id", "g2", "--summary", "Ship?"]);
    state.run(&["approvals", "reject", "g2", "--reason", "no"]);
    state.run(&["runs", "retry", "r", "--queue"]);
    state.run(&["runs", "admit"]);
    state.run(&["runs", "gate", "r", "color", "--id", "g3", "--kind", "reply", "--summary", "Which?"]);
    state.run(&["approvals", "reply", "g3", "blue"]);
    state.run(&["runs", "finish", "r", "--marker", "complete"]);
    state.run(&["workflows", "disable", "build"]);
    state.run(&["workflows", "enable", "build"]);
    state.run(&["workflows", "clear", "build"]);
    let turn = state.printed(&["runs", "execution", "begin", "chat", "--trigger", "thread", "--session", "r"]);
    state.run(&["runs", "execution", "session", &turn, "r"]);
    state.run(&["runs", "execution", "end", &turn, "--output", "hello", "--turns", "1"]);
}

/// Eight processes end one execution: one succeeds, and nothing of the others is kept.
fn one_of_several_racing_ends_is_kept(place: &Place) {
    let kit = Kit::on(place);
    kit.run(&["runs", "start", "build", "--trigger", "t", "--id", "r"]).is(0);
    let execution = kit.run(&["runs", "phase", "begin", "r", "plan"]).is(0).text().trim().to_owned();
    let end = |number: usize| {
        let said = format!("output {number}");
        let summary = format!("summary {number}");
        let args = ["runs", "phase", "end", "r", &execution, "--output", &said, "--summary", &summary, "--json"];
        kit.command(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starts")
    };
    let children: Vec<_> = (0..8).map(end).collect();
    let ran: Vec<Ran> = children.into_iter().map(|child| Ran::of(child.wait_with_output().expect("ends"))).collect();
    let won: Vec<usize> = (0..8).filter(|number| ran[*number].code == Some(0)).collect();
    assert_eq!(won.len(), 1, "one of them ended it");
    for (number, ran) in ran.into_iter().enumerate().filter(|(number, _)| *number != won[0]) {
        assert_eq!(ran.is(1).field("/error/kind"), "conflict", "{number}");
    }
    let output = kit.run(&["runs", "output", &execution]).is(0).text();
    assert_eq!(output.trim(), format!("output {}", won[0]), "the winner's");
    let shown = kit.run(&["runs", "show", "r", "--json"]).is(0);
    assert_eq!(shown.field("/run/phase_history").as_array().expect("a list").len(), 1);
    assert_eq!(shown.field("/run/phase_history/0/summary"), format!("summary {}", won[0]));
    // Repeated, the command is refused and changes nothing.
    let late = ["runs", "phase", "end", "r", &execution, "--output", "late", "--summary", "late", "--cost-usd", "1"];
    kit.run(&late).is(1).says("has ended");
    assert_eq!(kit.run(&["runs", "output", &execution]).is(0).text(), output);
    let shown = kit.run(&["runs", "show", "r", "--json"]).is(0);
    assert_eq!(shown.field("/run/phase_history").as_array().expect("a list").len(), 1);
    assert!(shown.field("/run/cost_usd").is_null());
}
