use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use duolog_testkit::engines::Place;
use duolog_testkit::postgres::{NewRole, Role, Shared};

use crate::kit::{Kit, Ran, Transcript, lines_of};

/// Returns a server's address with and without its password, and asserts that it has one.
fn parts(url: &str) -> (String, String) {
    let (login, place) = url.rsplit_once('@').expect("an address");
    let (user, password) = login.rsplit_once(':').expect("a password");
    (format!("{user}@{place}"), password.to_owned())
}

fn with(kit: &Kit, args: &[&str], variables: &[(&str, &str)]) -> Ran {
    Ran::of(kit.command(args).envs(variables.iter().copied()).output().expect("runs"))
}

fn role() -> Role {
    Shared::get().and_then(|server| server.create_role(&NewRole::default())).expect("a role")
}

#[test]
fn output_of_commands_with_a_server() {
    let place = Place::postgres();
    let kit = Kit::on(&place);
    let mut transcript = Transcript::default();
    kit.run(&["sessions", "list"]).is(1).says("has no Duolog tables").says("duolog state migrate");
    kit.run(&["--home", "home", "init"]).is(0);
    transcript.run(&kit, &["sessions", "list"]).is(1);
    transcript.run(&kit, &["state", "migrate"]).is(0);
    kit.append("demo", "{\"n\":1}\n");
    transcript.run(&kit, &["state", "stats", "--json"]).is(0);
    transcript.run(&kit, &["state", "checkpoint"]).is(0);
    transcript.run(&kit, &["state", "checkpoint", "--json"]).is(0);
    transcript.run(&kit, &["state", "vacuum"]).is(0);
    transcript.run(&kit, &["state", "vacuum", "--json"]).is(0);
    transcript.run(&kit, &["state", "backup", "copy"]).is(2);
    transcript.run(&kit, &["state", "backup", "copy", "--json"]).is(2);
    assert!(!kit.dir.path().join("copy").exists(), "it is refused before anything is created");
    transcript.run(&kit, &["doctor"]).is(0);
    let database = place.database().expect("a server");
    database.run_sql(&format!("ALTER DATABASE {} SET synchronous_commit = off", database.name())).expect("set");
    let doctor = transcript.run(&kit, &["doctor", "--json"]).is(0);
    assert_eq!(doctor.field("/verdict"), "warnings");
    let stats = kit.run(&["state", "stats"]).is(0).says("synchronous_commit is off on the server").text();
    assert!(stats.lines().all(|line| line.chars().count() <= 110), "{stats}");
    kit.snapshot("server", &transcript.0);
}

#[test]
fn two_homes_share_a_state_and_keep_their_own_logs() {
    let place = Place::postgres();
    let (mine, yours) = (Kit::on(&place), Kit::on(&place));
    mine.append("demo", "{\"n\":1}\n");
    let owner = mine.run(&["sessions", "show", "demo", "--json"]).is(0).field("/session/home_id");
    let owner = owner.as_str().expect("a home id");
    yours
        .run(&["log", "append", "--session", "demo", "--line", "{}"])
        .is(1)
        .says(owner)
        .says("run the command in that home");
    yours.run(&["log", "cat", "demo"]).is(1).says(owner);
    yours.run(&["sessions", "delete", "demo", "--yes"]).is(1).says(owner);
    assert_eq!(yours.run(&["sessions", "list", "--json"]).is(0).field("/sessions/0/name"), "demo");
    let shown = yours.run(&["sessions", "show", "demo"]).is(0).says(owner).text();
    assert!(shown.contains(&format!("sessions/threads/demo.jsonl in home {owner}")), "{shown}");
    assert_eq!(yours.run(&["doctor", "--json"]).is(0).field("/verdict"), "ok");
    yours.run(&["sessions", "rename", "demo", "plan"]).is(0);
    assert_eq!(lines_of(&mine.log_of("demo")), ["{\"n\":1}"], "its line waits for the home that has the log");
    yours.append("yours", "{\"n\":1}\n");
    mine.run(&["sessions", "list"]).is(0);
    let lines = lines_of(&mine.log_of("demo"));
    assert!(lines.len() == 2 && lines[1].contains("\"previousName\":\"demo\""), "{lines:?}");
    assert_eq!(mine.run(&["state", "stats", "--json"]).is(0).field("/logs/files"), 1, "the logs that are here");
    for kit in [&mine, &yours] {
        assert_eq!(kit.run(&["doctor", "--json"]).is(0).field("/verdict"), "ok");
    }
}

/// A copy of a home on the same state would take the logs of the original for its own.
#[test]
fn a_second_copy_of_a_home_on_one_state_is_refused() {
    let place = Place::postgres();
    let kit = Kit::on(&place);
    kit.append("demo", "{\"n\":1}\n");
    let copy = kit.home().with_extension("copy");
    let copied = Command::new("cp").arg("-a").arg(kit.home()).arg(&copy).status().expect("cp");
    assert!(copied.success());
    let at_copy = copy.to_str().expect("a path");
    let append = ["log", "append", "--session", "demo", "--line", "{\"n\":2}"];
    let refused = [&["--home", at_copy][..], &append].concat();
    kit.run(&refused).is(1).says("are copies of one home").says("its own database");
    assert_eq!(lines_of(&kit.log_of("demo")), ["{\"n\":1}"]);
    kit.run(&append).is(0);
    // With another database the copy is an independent home, and so it is in the directory of the first.
    let other = Place::postgres();
    let address = other.database().expect("a server").url();
    let elsewhere = [&["--store", &address][..], &refused].concat();
    kit.run(&elsewhere).is(0);
    fs::remove_dir_all(&copy).expect("removed");
    fs::rename(kit.home(), &copy).expect("moved");
    kit.run(&refused).is(0);
}

/// Every command, valid and invalid, on stdout and stderr, as text and as JSON.
#[test]
fn no_password_is_ever_said() {
    const SECRET: &str = "s3cret-w0rd";
    let place = Place::postgres();
    let kit = Kit::on(&place);
    let url = place.database().expect("a server").url();
    let (bare, password) = parts(&url);
    let wrong = url.replace(&password, SECRET);
    let elsewhere = format!("postgres://ada:{SECRET}@127.0.0.1:1/duolog");
    let foreign = Place::postgres();
    let database = foreign.database().expect("a server");
    database.run_sql("CREATE TABLE others (id INT)").expect("made");
    let stranger = role();
    let slips = [
        format!("postgres://ada:{SECRET}@127.0.0.1"),
        format!("postgres:/ada:{SECRET}@h/d"),
        format!("ada:{SECRET}@h/d"),
        format!("mysql://ada:{SECRET}@h/d"),
        format!("host=h user=ada password={SECRET}"),
        format!("postgres://ada@h/d?pasword={SECRET}"),
    ];
    let refused: Vec<(String, i32, &str)> = [
        (wrong, 5, "password authentication failed"),
        (elsewhere, 5, "cannot reach"),
        (database.url(), 5, "is a database of another program"),
        (url.replace("/duolog_", "/no_such_"), 5, "does not exist"),
        (place.database().expect("a server").url_as(&stranger), 5, "refused"),
    ]
    .into_iter()
    .chain(slips.into_iter().map(|slip| (slip, 2, "--store ")))
    .collect();
    let secrets = [SECRET, &password, stranger.password()];
    let silent = |ran: &Ran, args: &dyn std::fmt::Debug| {
        for secret in secrets {
            assert!(
                !ran.text().contains(secret) && !ran.stderr.contains(secret),
                "{args:?}: {}{}",
                ran.text(),
                ran.stderr
            );
        }
    };
    kit.append("demo", "{}\n");
    let commands: [&[&str]; 9] = [
        &["state", "stats"],
        &["doctor"],
        &["config", "show"],
        &["config", "check"],
        &["sessions", "list"],
        &["sessions", "show", "demo"],
        &["state", "migrate"],
        &["state", "backup", "copy"],
        &["log", "append", "--session", "demo", "--line", "{}"],
    ];
    for args in commands {
        for json in [&[][..], &["--json"]] {
            let args = [args, json].concat();
            silent(&kit.run(&args), &args);
            for (address, code, said) in &refused {
                let given = [&["--store", address][..], &args].concat();
                let ran = kit.run(&given);
                silent(&ran, &given);
                if args[0] == "log" {
                    let ran = ran.is(*code);
                    assert!((ran.text() + &ran.stderr).contains(said), "{given:?}: {}{}", ran.text(), ran.stderr);
                }
                // The same through the environment.
                silent(&with(&kit, &args, &[("DUOLOG_STORE", address.as_str())]), &given);
            }
        }
    }
    // An address in a wrong argument is repeated by a parser that does not know that it is one.
    for args in
        [&[url.as_str(), "state", "stats"][..], &["--color", &url, "doctor"], &["state", &url], &["--stor", &url]]
    {
        for json in [&[][..], &["--json"]] {
            let args = [args, json].concat();
            let ran = kit.run(&args).is(2);
            silent(&ran, &args);
        }
    }
    assert!(!bare.contains(&password));
}

#[test]
fn a_password_comes_from_the_environment_if_the_address_has_none() {
    let place = Place::postgres();
    let kit = Kit::new();
    let (bare, password) = parts(&place.database().expect("a server").url());
    let new = ["sessions", "new", "--store", &bare];
    kit.run(&new).is(5).says("refused").says("PGPASSWORD");
    with(&kit, &new, &[("PGPASSWORD", &password)]).is(0);
    with(&kit, &new, &[("PGPASSWORD", "other")]).is(5).says("password authentication failed");
    with(&kit, &new, &[("PGPASSWORD", &password), ("DUOLOG_STORE", "mysql://x")]).is(2).says("DUOLOG_STORE");
    let full = place.database().expect("a server").url();
    with(&kit, &["sessions", "new"], &[("PGPASSWORD", "other"), ("DUOLOG_STORE", &full)]).is(0);
}

#[test]
fn the_flag_overrides_the_environment_which_overrides_the_file() {
    let kit = Kit::new();
    let file = kit.home().join("config/duolog.toml");
    fs::create_dir_all(kit.home().join("config")).expect("made");
    let write = |text: &str, mode: u32| {
        fs::write(&file, text).expect("written");
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).expect("set");
    };
    let shown = |args: &[&str], variables: &[(&str, &str)]| {
        let ran = with(&kit, &[&["config", "show", "--json"], args].concat(), variables).is(0);
        (ran.field("/settings/7/value"), ran.field("/settings/7/source"))
    };
    assert_eq!(shown(&[], &[]), ("sqlite:".into(), "default".into()));
    write("[store]\naddress = \"postgres://ada:s3cret@h:5433/d\"\n", 0o600);
    assert_eq!(shown(&[], &[]), ("postgres://ada@h:5433/d".into(), "file".into()));
    let environment = [("DUOLOG_STORE", "there")];
    let at = |name: &str| serde_json::Value::from(format!("{}/{name}/state.db", kit.dir.path().display()));
    assert_eq!(shown(&[], &environment), (at("there"), "environment".into()));
    assert_eq!(shown(&["--store", "here"], &environment), (at("here"), "flag".into()));
    assert_eq!(shown(&["--store", "sqlite:"], &environment), ("sqlite:".into(), "flag".into()));
    let people = with(&kit, &["config", "show", "--store", "here"], &environment).is(0).text();
    assert!(people.contains("--store"), "{people}");
    assert_eq!(kit.run(&["config", "check"]).is(0).stderr, "");
    // The flag overrides the environment.
    with(&kit, &["sessions", "new", "--store", "here"], &environment).is(0);
    assert!(kit.dir.path().join("here/state.db").exists() && !kit.dir.path().join("there").exists());
    // A password in a file that others can read is a warning, whatever the state is.
    write("[store]\naddress = \"postgres://ada:s3cret@h:5433/d\"\n", 0o644);
    for args in [&["config", "check"][..], &["config", "show"], &["sessions", "list", "--store", "here"]] {
        let ran = kit.run(args).is(0).says("warning: ").says("chmod 600");
        assert!(!ran.stderr.contains("s3cret"));
    }
    assert_eq!(kit.run(&["config", "check", "--quiet"]).is(0).stderr, "");
    let warned = kit.run(&["config", "check", "--json"]).is(0).field("/warnings/0");
    assert!(warned.as_str().is_some_and(|text| text.contains("mode 644")), "{warned}");
    write("[store]\naddress = \"postgres://ada:s3cret@h\"\n", 0o600);
    let wrong = kit.run(&["config", "check"]).is(2).text();
    assert!(wrong.contains(":2: address cannot be used: it names no database") && !wrong.contains("s3cret"), "{wrong}");
    let wrong = kit.run(&["config", "check", "--store", "mysql://x"]).is(2).text();
    assert!(wrong.contains("flag: --store cannot be used: it is neither a path"), "{wrong}");
}

#[test]
fn the_demo_leaves_a_shared_state_alone() {
    let place = Place::postgres();
    let kit = Kit::on(&place);
    assert_eq!(kit.run(&["demo", "--fast", "--half", "--json"]).is(0).field("/holds"), true);
    let tables = "SELECT COUNT(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace";
    assert_eq!(place.database().expect("a server").run_sql(tables).expect("answers"), "0");
    kit.run(&["--store", "sqlite:", "demo"]).is(2).says("--store");
}
