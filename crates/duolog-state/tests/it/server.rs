//! Tests of a server only: it refuses, disconnects, restarts, and its disk is full.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use duolog_state::owned::sessions;
use duolog_state::{Address, Error, Migrate, OpenState, State, StoreAddress, WalCheckpoint, params};
use duolog_testkit::engines::Place;
use duolog_testkit::postgres::{Database, NewRole, Options, Plan, Proxy, Server, Shared, SmallDisk};
use duolog_types::Durability::{Power, Process};

use super::{add, count, id, session};

fn database() -> Database {
    Shared::get().and_then(duolog_testkit::postgres::Access::create_database).expect("a database")
}

fn proxy() -> Proxy {
    Proxy::start(Shared::get().expect("a server").address()).expect("a proxy")
}

fn address(url: &str) -> Address {
    url.parse::<StoreAddress>().expect("an address").or_in(Path::new("."))
}

fn options(url: &str) -> OpenState {
    OpenState::address(address(url))
}

fn open(url: &str) -> State {
    State::open(options(url)).unwrap_or_else(|error| panic!("{error}: {error:?}"))
}

/// Opens a state that cannot be opened, and checks that the error does not contain the secret.
fn refused(url: &str, secret: &str) -> Error {
    let error = State::open(options(url).busy_timeout(Duration::from_millis(300))).map(drop).expect_err("refused");
    let mut told = vec![format!("{error} {error:?}")];
    let mut cause = std::error::Error::source(&error);
    while let Some(beneath) = cause {
        told.push(format!("{beneath} {beneath:?}"));
        cause = beneath.source();
    }
    assert!(told.iter().all(|words| !words.contains(secret)), "{told:?}");
    error
}

/// Returns the address with another password.
fn with_password(url: &str, password: &str) -> String {
    let (user, rest) = url.split_once("://").and_then(|(_, rest)| rest.split_once('@')).expect("user and host");
    let user = user.split(':').next().expect("a user");
    format!("postgres://{user}:{password}@{rest}")
}

fn password_of(url: &str) -> String {
    let user = url.split_once("://").and_then(|(_, rest)| rest.split_once('@')).expect("user and host").0;
    user.split_once(':').expect("a password").1.to_owned()
}

#[test]
fn a_wrong_password_user_or_database_is_refused_by_name() {
    let database = database();
    let url = database.url();
    let answer = refused(&with_password(&url, "wr0ng-s3cret"), "wr0ng-s3cret");
    assert!(matches!(&answer, Error::Denied { detail, .. } if detail.contains("password")), "{answer:?}");
    let missing = url.replace(database.name(), "no_such_database");
    let answer = refused(&missing, &password_of(&url));
    assert!(matches!(&answer, Error::Denied { detail, .. } if detail.contains("no_such_database")), "{answer:?}");
    let nobody = url.replacen("://postgres:", "://nobody_here:", 1);
    let answer = refused(&nobody, &password_of(&url));
    assert!(matches!(&answer, Error::Denied { .. }), "{answer:?}");
}

#[test]
fn an_unreachable_server_is_named_without_its_password() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").expect("binds").local_addr().expect("an address");
    let answer = refused(&format!("postgres://ada:s3cret@{free}/duolog"), "s3cret");
    assert!(matches!(&answer, Error::Unreachable { place, .. } if place.contains(&free.to_string())), "{answer:?}");
    // A server that accepts the connection and does not answer.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("binds");
    let at = silent.local_addr().expect("an address");
    let answer = refused(&format!("postgres://ada:s3cret@{at}/duolog"), "s3cret");
    assert!(matches!(answer, Error::Unreachable { .. }), "{answer:?}");
    let answer = refused("postgres://ada:s3cret@no-such-host.invalid/duolog", "s3cret");
    assert!(matches!(answer, Error::Unreachable { .. }), "{answer:?}");
}

#[test]
fn a_server_that_is_too_old_is_refused() {
    let database = database();
    let proxy = proxy();
    proxy.plan(Plan::Version("14.99".into()));
    let answer = refused(&proxy.url(&database.url()), &password_of(&database.url()));
    assert!(matches!(answer, Error::TooOld { needed: 15, .. }), "{answer:?}");
    assert_eq!(tables(&database), "", "nothing was created");
}

fn tables(database: &Database) -> String {
    database.run_sql("SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace").expect("lists")
}

#[test]
fn a_database_of_another_program_is_refused_and_left_alone() {
    let database = database();
    for table in ["CREATE TABLE notes (text text)", "CREATE TABLE schema_meta (name text, version int)"] {
        database.run_sql(table).expect("makes");
        let before = tables(&database);
        let answer = refused(&database.url(), &password_of(&database.url()));
        assert!(matches!(answer, Error::Foreign { .. }), "{answer:?}");
        assert_eq!(tables(&database), before);
    }
    let other = self::database();
    other
        .run_sql("CREATE TABLE schema_meta (key text, value text); INSERT INTO schema_meta VALUES ('lineage', 'x')")
        .expect("makes");
    assert!(matches!(refused(&other.url(), "postgres:p"), Error::Foreign { .. }));
}

#[test]
fn tables_of_extensions_are_not_another_program() {
    let database = database();
    if database.run_sql("CREATE EXTENSION pg_stat_statements").is_err() {
        // Only extensions of the server's own package are available; this one creates a view.
        database.run_sql("CREATE EXTENSION pg_buffercache").expect("an extension with a view");
    }
    add(&open(&database.url()), "a").expect("writes");
}

#[test]
fn a_role_without_privileges_gets_an_error() {
    let shared = Shared::get().expect("a server");
    let database = database();
    let role = shared.create_role(&NewRole::default()).expect("a role");
    let url = database.url_as(&role);
    let answer = refused(&url, role.password());
    assert!(matches!(answer, Error::Denied { .. }), "{answer:?}");
    assert_eq!(tables(&database), "");
    drop(database);
}

#[test]
fn a_role_that_does_not_own_the_tables_cannot_vacuum_them() {
    let shared = Shared::get().expect("a server");
    let database = database();
    open(&database.url()).vacuum().expect("the owner vacuums");
    let role = shared.create_role(&NewRole::default()).expect("a role");
    let grant = format!("GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {}", role.name());
    database.run_sql(&grant).expect("granted");
    let answer = open(&database.url_as(&role)).vacuum().expect_err("the server would skip every table");
    assert!(matches!(answer, Error::Denied { .. }), "{answer:?}");
    assert!(answer.to_string().contains(role.name()) && answer.to_string().contains(" tables"), "{answer}");
    drop(database);
}

#[test]
fn a_connection_limit_is_busy_after_the_timeout() {
    let shared = Shared::get().expect("a server");
    let role = shared.create_role(&NewRole { connections: Some(1), ..NewRole::default() }).expect("a role");
    let database = shared.create_database_for(&role).expect("a database");
    let url = database.url_as(&role);
    let holder = open(&url);
    add(&holder, "a").expect("writes");
    let answer = refused(&url, role.password());
    assert!(matches!(&answer, Error::Busy { what, .. } if what.contains("connection")), "{answer:?}");
    // A caller that waits long enough gets a connection when one is free.
    let waiter = thread::spawn({
        let url = url.clone();
        move || State::open(options(&url).busy_timeout(Duration::from_secs(20)))
    });
    thread::sleep(Duration::from_millis(50));
    drop(holder);
    assert_eq!(count(&waiter.join().expect("ends").expect("opens")), 1);
    drop(database);
}

#[test]
fn a_full_pool_is_busy_after_the_timeout() {
    let database = database();
    let mut options = options(&database.url()).busy_timeout(Duration::from_millis(100));
    options.connections_max = 1;
    let state = State::open(options).expect("opens");
    let inner = state.clone();
    let answer = state.read(|_| inner.read(|tx| sessions::find(tx, &id("a"))));
    assert!(matches!(answer, Err(Error::Busy { .. })), "{answer:?}");
    assert_eq!(count(&state), 0);
}

/// Inserts a row that fills pages and cannot be compressed.
fn put_large(state: &State, number: u32) -> Result<(), Error> {
    let mut seed = u64::from(number) + 1;
    let letters = std::iter::repeat_with(move || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        char::from(b'!' + u8::try_from((seed >> 33) % 90).unwrap_or_default())
    });
    let mut row = session(&format!("s{number}"));
    row.node_metadata = Some(letters.take(60_000).collect());
    state.write(Power, move |tx| sessions::insert(tx, &row))
}

#[test]
fn a_full_disk_on_the_server_refuses_the_row_and_keeps_the_others() {
    let server = Server::start_small(SmallDisk::Tables(24 << 20)).expect("a server with a small disk");
    let database = server.create_database().expect("a database");
    let state = open(&database.url());
    let written = (0..10_000).find(|number| put_large(&state, *number).is_err()).expect("the disk fills up");
    let answer = put_large(&state, written);
    assert!(matches!(answer, Err(Error::Full { .. })), "{answer:?}");
    assert!(written > 5, "{written}");
    assert_eq!(count(&state), u64::from(written), "exactly the acknowledged rows are there");
    drop(state);
    drop(database);
}

#[test]
fn a_transaction_is_retried_if_the_connection_is_lost_before_the_commit() {
    let database = database();
    let proxy = proxy();
    let state = open(&proxy.url(&database.url()));
    add(&state, "a").expect("writes");
    proxy.plan(Plan::cut_before("COMMIT"));
    let runs = Arc::new(AtomicU32::new(0));
    let seen = Arc::clone(&runs);
    let row = session("b");
    let written = state.write(Power, move |tx| {
        seen.fetch_add(1, Ordering::SeqCst);
        sessions::insert(tx, &row)
    });
    // It is unknown here whether the commit arrived: the error says so, and it is never retried automatically.
    assert!(matches!(written, Err(Error::Unknown { .. })), "{written:?}");
    assert_eq!((runs.load(Ordering::SeqCst), count(&state)), (1, 1));
    proxy.plan(Plan::cut_before("INSERT"));
    add(&state, "c").expect("the transaction is retried on another connection");
    assert_eq!(count(&state), 2);
    assert!(state.counters().again >= 1, "{:?}", state.counters());
}

#[test]
fn a_connection_lost_after_the_commit_is_unknown() {
    let database = database();
    let proxy = proxy();
    let state = open(&proxy.url(&database.url()));
    proxy.plan(Plan::cut_after("COMMIT"));
    let written = add(&state, "a");
    assert!(matches!(written, Err(Error::Unknown { .. })), "{written:?}");
    assert_eq!(count(&state), 1, "it was committed once");
}

#[test]
fn a_row_that_is_locked_too_long_is_busy() {
    let database = database();
    let state = State::open(options(&database.url()).busy_timeout(Duration::from_millis(200))).expect("opens");
    add(&state, "a").expect("writes");
    let (hold, done) = (Arc::new(Barrier::new(2)), Arc::new(Barrier::new(2)));
    let holder = thread::spawn({
        let (state, hold, done) = (state.clone(), Arc::clone(&hold), Arc::clone(&done));
        move || {
            state.write(Process, move |tx| {
                let changed = tx.execute("UPDATE sessions SET log_base = 7 WHERE id = 'a'", &[])?;
                hold.wait();
                done.wait();
                Ok::<_, Error>(changed)
            })
        }
    });
    hold.wait();
    let late = state.write(Process, |tx| tx.execute("UPDATE sessions SET log_base = 9 WHERE id = ?1", params!["a"]));
    assert!(matches!(late, Err(Error::Busy { .. })), "{late:?}");
    done.wait();
    assert_eq!(holder.join().expect("ends").expect("writes"), 1);
    let base = state.read(|tx| sessions::find(tx, &id("a"))).expect("reads").map(|row| row.log_base.0);
    assert_eq!(base, Some(7));
}

#[test]
fn one_of_two_deadlocked_transactions_is_retried() {
    let database = database();
    let state = open(&database.url());
    add(&state, "a").expect("writes");
    add(&state, "b").expect("writes");
    let both = Arc::new(Barrier::new(2));
    let cross = |first: &'static str, then: &'static str| {
        let (state, both) = (state.clone(), Arc::clone(&both));
        thread::spawn(move || {
            let mut met = false;
            state.write(Power, move |tx| {
                let raise = "UPDATE sessions SET log_base = log_base + 1 WHERE id = ?1";
                tx.execute(raise, params![first])?;
                if !std::mem::replace(&mut met, true) {
                    both.wait();
                }
                tx.execute(raise, params![then])
            })
        })
    };
    let racers = [cross("a", "b"), cross("b", "a")];
    for racer in racers {
        racer.join().expect("ends").expect("writes");
    }
    let base =
        |name: &str| state.read(|tx| sessions::find(tx, &id(name))).expect("reads").expect("is there").log_base.0;
    assert_eq!((base("a"), base("b")), (2, 2));
    assert!(state.counters().again >= 1);
}

#[test]
fn a_schema_from_the_future_is_read_and_never_written() {
    let database = database();
    let state = open(&database.url());
    add(&state, "a").expect("writes");
    database.run_sql("UPDATE schema_meta SET value = '999' WHERE key = 'version'").expect("changes");
    let answer = add(&state, "b");
    assert!(matches!(answer, Err(Error::SchemaChanged { found: 999, .. })), "{answer:?}");
    let answer = State::open(options(&database.url())).map(drop);
    assert!(matches!(answer, Err(Error::Newer { found: 999, .. })), "{answer:?}");
    let reader = State::open(options(&database.url()).read_only()).expect("reads");
    assert_eq!((count(&reader), reader.schema_version()), (1, 999));
    database.run_sql("UPDATE schema_meta SET value = 'x' WHERE key = 'version'").expect("changes");
    let answer = State::open(options(&database.url())).map(drop);
    assert!(matches!(answer, Err(Error::Damaged { .. })), "{answer:?}");
}

#[test]
fn an_older_schema_is_migrated_only_if_allowed() {
    let database = database();
    let answer = State::open(OpenState { migrate: Migrate::No, ..options(&database.url()) }).map(drop);
    assert!(matches!(answer, Err(Error::NeedsMigration { found: 0, .. })), "{answer:?}");
    assert_eq!(tables(&database), "");
}

#[test]
fn a_database_of_a_development_schema_is_refused_and_left_alone() {
    let database = database();
    database
        .run_sql(
            "CREATE TABLE schema_meta (key TEXT NOT NULL PRIMARY KEY, value TEXT NOT NULL);
             INSERT INTO schema_meta VALUES ('lineage', 'duolog'), ('version', '17')",
        )
        .expect("makes");
    let before = tables(&database);
    for options in [options(&database.url()), options(&database.url()).read_only()] {
        let answer = State::open(options).map(drop);
        assert!(matches!(answer, Err(Error::Development { found: 17, .. })), "{answer:?}");
    }
    assert_eq!(tables(&database), before);
}

#[test]
fn unsafe_server_settings_are_reported() {
    let server = Options::default()
        .settings(&[("fsync", "off"), ("synchronous_commit", "off"), ("full_page_writes", "off")])
        .start()
        .expect("a careless server");
    let database = server.create_database().expect("a database");
    let state = open(&database.url());
    let engine = state.stats().expect("stats").engine_stats;
    let named: Vec<_> = engine.unsafe_settings.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(named, ["fsync", "synchronous_commit", "full_page_writes"]);
    let shown = |name: &str| engine.settings.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
    assert_eq!(shown("synchronous_commit"), Some("on"), "it is on for Duolog's connections");
    drop(database);
    let place = Place::postgres();
    let careful = place.open();
    let stats = careful.stats().expect("stats");
    assert!(stats.engine_stats.engine.starts_with("postgresql "), "{stats:?}");
    assert_eq!((stats.engine_stats.unsafe_settings.len(), stats.engine_stats.wal_bytes), (0, None));
    assert!(stats.engine_stats.bytes > 0);
    assert_eq!(careful.checkpoint().expect("answers"), WalCheckpoint::ManagedByServer);
    careful.vacuum().expect("vacuums");
    assert!(matches!(careful.backup_to(Path::new("/nonexistent/copy")), Err(Error::NotHere { .. })));
    assert!(careful.integrity().expect("checks").is_empty());
    assert_eq!(careful.lock_holder().expect("asks"), None);
}

#[test]
fn a_handle_outlives_a_restart_of_the_server() {
    let mut server = Server::start().expect("a server");
    let database = server.create_database().expect("a database");
    let state = open(&database.url());
    add(&state, "a").expect("writes");
    server.stop_immediate().expect("stops");
    let starting = thread::spawn({
        let state = state.clone();
        move || add(&state, "b")
    });
    server.restart().expect("starts");
    starting.join().expect("ends").expect("the write waits for the server");
    assert_eq!(count(&state), 2);
    drop(database);
}

/// A caller inside its own runtime blocks and does not panic.
#[test]
fn a_state_can_be_used_inside_a_runtime() {
    let database = database();
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let counted = runtime.block_on(async {
        let state = open(&database.url());
        add(&state, "a").expect("writes");
        count(&state)
    });
    assert_eq!(counted, 1);
}

/// Creates a self-signed certificate for one name; both files belong to the owner of the directory.
fn make_certificate(dir: &Path, name: &str, stem: &str) {
    let (key, cert) = (format!("{stem}.key"), format!("{stem}.crt"));
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"])
        .args(["-subj", "/CN=duolog test", "-addext", &format!("subjectAltName={name}")])
        .args(["-addext", "basicConstraints=critical,CA:FALSE", "-keyout", &key, "-out", &cert])
        .current_dir(dir)
        .output()
        .expect("openssl starts");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let owner = dir.metadata().expect("a directory");
    for file in [&key, &cert] {
        std::os::unix::fs::chown(dir.join(file), Some(owner.uid()), Some(owner.gid())).expect("given away");
    }
    std::fs::set_permissions(dir.join(key), std::fs::Permissions::from_mode(0o600)).expect("hidden");
}

#[test]
fn a_certificate_is_checked_as_the_address_requires() {
    let mut server = Server::start().expect("a server");
    make_certificate(&server.data(), "DNS:db.example", "elsewhere");
    make_certificate(&server.data(), "IP:127.0.0.1", "here");
    let database = server.create_database().expect("a database");
    let url = |more: &str| format!("{}?{more}", database.url().split('?').next().expect("an address"));
    let roots = |stem: &str| format!("sslrootcert={}", server.data().join(format!("{stem}.crt")).display());
    let set = |server: &mut Server, stem: &str| {
        let settings = format!(
            "ALTER SYSTEM SET ssl = on; ALTER SYSTEM SET ssl_cert_file = '{stem}.crt'; \
             ALTER SYSTEM SET ssl_key_file = '{stem}.key'"
        );
        settings.split(';').for_each(|setting| drop(server.run_sql("postgres", setting).expect("set")));
        server.stop().expect("stops");
        server.restart().expect("starts");
    };
    let (here, elsewhere) = (roots("here"), roots("elsewhere"));
    let encrypted = |url: &str| {
        let sql = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()";
        open(url).read(|tx| tx.find(sql, &[], |row| row.get::<bool>(0))).expect("reads")
    };
    assert_eq!(encrypted(&url("sslmode=prefer")), Some(false), "the server has no certificate yet");
    let answer = refused(&url("sslmode=require"), "postgres:p");
    assert!(matches!(answer, Error::Denied { .. }), "{answer:?}");
    set(&mut server, "here");
    for trusting in ["sslmode=require", "sslmode=prefer", &here, &format!("sslmode=verify-full&{here}")] {
        assert_eq!(encrypted(&url(trusting)), Some(true), "{trusting}");
    }
    assert_eq!(encrypted(&url("sslmode=disable")), Some(false));
    for wary in ["sslmode=verify-full".to_owned(), format!("sslmode=verify-ca&{elsewhere}")] {
        let answer = refused(&url(&wary), &password_of(&database.url()));
        assert!(matches!(&answer, Error::Denied { .. } | Error::BadAddress { .. }), "{wary}: {answer:?}");
    }
    set(&mut server, "elsewhere");
    assert_eq!(encrypted(&url(&format!("sslmode=verify-ca&{elsewhere}"))), Some(true), "the name is not checked");
    let answer = refused(&url(&format!("sslmode=verify-full&{elsewhere}")), &password_of(&database.url()));
    assert!(matches!(&answer, Error::Denied { detail, .. } if detail.contains("certificate")), "{answer:?}");
    let answer = refused(&url("sslmode=verify-ca&sslrootcert=/nonexistent.pem"), &password_of(&database.url()));
    assert!(matches!(&answer, Error::BadAddress { detail } if detail.contains("/nonexistent.pem")), "{answer:?}");
    drop(database);
}
