use super::*;
use duolog_types::limits::RunLimits;

fn findings_in(text: &str) -> Vec<String> {
    let error = Config::parse(text).expect_err(text);
    error.to_string().lines().map(str::to_owned).collect()
}

fn in_environment(variables: &[(&str, &str)]) -> Result<Config, ConfigError> {
    let find = |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| OsString::from(value));
    Config::parse("limits.busy_timeout_ms = 7\ndurability.log = \"power\"").expect("good").with_environment(find)
}

#[test]
fn the_defaults_are_in_force_without_a_file() {
    for text in ["", "# nothing\n", "[limits]\n[durability]\n"] {
        let config = Config::parse(text).expect("good");
        assert_eq!((config.limits(), config.durability()), (Limits::default(), Durability::Process), "{text:?}");
        assert!(config.settings().all(|setting| setting.source == Source::Default));
    }
}

#[test]
fn every_key_is_accepted_in_every_notation() {
    let text = "[limits]\nline_bytes_max = 2048\nbatch_bytes_max = \"1GiB\"\nopen_logs_max = 16\n\
                fold_batch_bytes = \"64 kib\"\nfold_before_read_bytes = \"0\"\nbusy_timeout_ms = 0\n\
                [durability]\nlog = \"power\"\n[store]\naddress = \"/srv/state\"\n[chats]\nidle = \"90m\"\n\
                [runs]\nmax_running = 1\nqueue_wait = \"2h\"\nlease = \"90s\"\nrestart_cap = 0\n\
                [user]\nemail = \"ada@example.com\"\n";
    let config = Config::parse(text).expect("good");
    let limits = Limits {
        line_bytes_max: 2048,
        batch_bytes_max: 1 << 30,
        busy_timeout: Duration::ZERO,
        open_logs_max: 16,
        fold_batch_bytes: 64 << 10,
        fold_before_read_bytes: 0,
        runs: RunLimits {
            max_running: 1,
            queue_wait: Duration::from_hours(2),
            lease: Duration::from_secs(90),
            restart_cap: 0,
        },
    };
    assert_eq!((config.limits(), config.durability()), (limits, Durability::Power));
    let lines: Vec<Source> = config.settings().map(|setting| setting.source).collect();
    assert_eq!(lines, [2, 3, 7, 4, 5, 6, 9, 11, 15, 16, 17, 18, 13, 20].map(|line| Source::File { line }));
    assert_eq!(*config.store(), StoreAddress::At(Address::Directory("/srv/state".into())));
    assert_eq!(config.chat_idle(), Duration::from_mins(90));
    assert_eq!(config.user(), "ada@example.com");
    let inline = "limits = { line_bytes_max = \"2 KiB\" }\ndurability.log = \"process\"";
    assert_eq!(Config::parse(inline).expect("good").limits().line_bytes_max, 2048);
}

#[test]
fn a_displayed_value_parses_again() {
    for setting in Config::default().settings() {
        let shown = setting.value.to_string();
        assert_eq!(rules::from_text(setting.key, &shown), Ok(setting.value), "{}: {shown}", setting.key);
    }
}

#[test]
fn values_within_the_range_are_accepted_and_others_refused() {
    for key in Key::ALL {
        let (Shape::Size { min, max } | Shape::Number { min, max, .. }) = key.shape() else { continue };
        let taken = |number: u64| Config::parse(&format!("[{}]\n{} = {number}", key.table(), key.name())).is_ok();
        assert!(taken(min) && taken(max) && !taken(max + 1), "{key}");
        assert!(min == 0 || !taken(min - 1), "{key}");
        let default = Config::default().value(*key).number().expect("a number");
        assert!((min..=max).contains(&default), "{key}");
    }
}

#[test]
fn all_errors_are_reported_at_once_with_their_lines() {
    let text = "[limits]\nline_byte_max = 1\nopen_logs_max = \"many\"\nbusy_timeout_ms = -1\n\n[durabilty]\nlog = 1\n";
    assert_eq!(
        findings_in(text),
        [
            "line 2: unknown key line_byte_max in [limits]; did you mean line_bytes_max?",
            "line 3: open_logs_max is \"many\"; expected a number of logs from 8 to 65536",
            "line 4: busy_timeout_ms is -1; expected a number of milliseconds from 0 to 3600000",
            "line 6: unknown key durabilty at the top; did you mean [durability]?",
        ]
    );
}

#[test]
fn a_similar_key_is_suggested() {
    let cases = [
        ("busy_timeout_ms = 1", "busy_timeout_ms in [limits]"),
        ("[limits]\nbusy_timeout = 1", "did you mean busy_timeout_ms?"),
        ("[limits]\nfold_before = 1", "did you mean fold_before_read_bytes?"),
        ("[limit]", "did you mean [limits]?"),
        ("[durability]\nLog = \"power\"", "did you mean log?"),
        ("[durability]\nopen_logs_max = 1", "did you mean open_logs_max in [limits]?"),
        ("[durability]\nsomething = 1", "known here: log"),
        (
            "[retention]",
            "known here: [limits], [durability], [store], [runs], [chats], [user], [prices], [schedules], [workflows]",
        ),
    ];
    for (text, hint) in cases {
        assert!(findings_in(text)[0].contains(hint), "{text}: {:?}", findings_in(text));
    }
}

#[test]
fn a_value_of_the_wrong_type_is_refused_with_the_expected_type() {
    let cases = [
        ("limits = 3", "limits is an integer; expected a table, [limits]"),
        ("[[limits]]", "limits is an array of tables; expected a table"),
        ("[limits]\nline_bytes_max = 1.5", "is a float; expected a size from 1 KiB to 1 GiB, like \"64 MiB\""),
        ("[limits]\nline_bytes_max = \"64 MB\"", "is \"64 MB\"; expected a size"),
        ("[limits]\nline_bytes_max = \"99999999999 TiB\"", "expected a size"),
        ("[limits]\nline_bytes_max = \"\"", "is \"\"; expected a size"),
        ("[limits]\nbusy_timeout_ms = \"5 s\"", "is \"5 s\"; expected a number of milliseconds"),
        ("[runs]\nmax_running = 0", "max_running is 0; expected a number of runs from 1 to 100000"),
        ("[runs]\nmax_running = \"many\"", "is \"many\"; expected a number of runs from 1"),
        ("[runs]\nlease = 60", "lease is 60; expected a time from \"3s\" to \"1d\", like \"30m\""),
        ("[runs]\nlease = \"1s\"", "lease is \"1s\"; expected a time from \"3s\""),
        ("[runs]\nqueue_wait = \"soon\"", "queue_wait is \"soon\"; expected a time from \"1s\" to \"365d\""),
        ("[runs]\nrestart_cap = 1001", "restart_cap is 1001; expected a number of takeovers from 0 to 1000"),
        ("[runs]\nlaese = \"60s\"", "unknown key laese in [runs]; did you mean lease?"),
        ("[durability]\nlog = true", "log is a boolean; expected \"process\" or \"power\""),
        ("[durability]\nlog = \"Power\"", "log is \"Power\"; expected \"process\" or \"power\""),
        ("[durability]\nlog = 1", "log is 1; expected"),
        ("\n[limits\n", "line 2: it is not TOML: "),
        ("[limits]\nopen_logs_max = 9\nopen_logs_max = 9", "line 3: it is not TOML: duplicate key"),
    ];
    for (text, expected) in cases {
        assert!(findings_in(text)[0].contains(expected), "{text}: {:?}", findings_in(text));
    }
}

#[test]
fn the_caller_overrides_the_environment_and_the_environment_the_file() {
    let source = |config: &Config, key| config.settings().find(|setting| setting.key == key).expect("there").source;
    let config = in_environment(&[]).expect("good");
    assert_eq!((config.limits().busy_timeout.as_millis(), config.durability()), (7, Durability::Power));
    assert_eq!(source(&config, Key::BusyTimeoutMs), Source::File { line: 1 });
    let said = [
        ("DUOLOG_BUSY_TIMEOUT_MS", "8"),
        ("DUOLOG_DURABILITY", "process"),
        ("DUOLOG_LINE_BYTES_MAX", "2 MiB"),
        ("DUOLOG_RUNS_MAX_RUNNING", "9"),
        ("DUOLOG_RUNS_LEASE", "5m"),
    ];
    let config = in_environment(&said).expect("good");
    assert_eq!((config.limits().runs.max_running, config.limits().runs.lease), (9, Duration::from_mins(5)));
    assert_eq!((config.limits().busy_timeout.as_millis(), config.durability()), (8, Durability::Process));
    assert_eq!(config.limits().line_bytes_max, 2 << 20);
    assert_eq!(source(&config, Key::DurabilityLog), Source::Environment);
    let config = config.with_durability(None).with_durability(Some(Durability::Power));
    assert_eq!((config.durability(), source(&config, Key::DurabilityLog)), (Durability::Power, Source::Flag));
    let unset = in_environment(&[("DUOLOG_BUSY_TIMEOUT_MS", "")]).expect("good");
    assert_eq!(unset.limits().busy_timeout.as_millis(), 7, "an empty variable counts as unset");
}

#[test]
fn errors_of_the_environment_name_the_variables() {
    let error = in_environment(&[("DUOLOG_BUSY_TIMEOUT_MS", "soon"), ("DUOLOG_DURABILITY", "disk")]).expect_err("bad");
    let text = error.to_string();
    assert!(text.starts_with("DUOLOG_BUSY_TIMEOUT_MS is \"soon\"; expected a number of milliseconds"), "{text}");
    assert!(text.contains("\nDUOLOG_DURABILITY is \"disk\"; expected \"process\" or \"power\""), "{text}");
}

#[test]
fn a_file_is_read_from_the_home() {
    let directory = tempfile::tempdir().expect("a directory");
    let home = Home::beneath(directory.path());
    let file = Config::path(&home);
    assert_eq!(Config::load(&home).expect("no file"), Config::default());
    fs::create_dir_all(&file).expect("made");
    assert!(matches!(Config::load(&home), Err(ConfigError::NotAFile(path)) if path == file));
    fs::remove_dir(&file).expect("removed");
    fs::write(&file, "[limits]\nopen_logs_max = 9\n").expect("written");
    assert_eq!(Config::load(&home).expect("good").limits().open_logs_max, 9);
    fs::write(&file, "[limits]\nopen_logs = 9\n").expect("written");
    let told = Config::load(&home).expect_err("bad").to_string();
    assert!(told.starts_with(&format!("{}:2: unknown key open_logs", file.display())), "{told}");
    fs::write(&file, b"\n# \xff\n").expect("written");
    let told = Config::load(&home).expect_err("bad").to_string();
    assert!(told.ends_with(":2: it is not UTF-8"), "{told}");
    fs::write(&file, vec![b'\n'; (1 << 20) + 1]).expect("written");
    assert!(matches!(Config::load(&home), Err(ConfigError::TooLarge(_))));
    fs::write(&file, vec![b'\n'; 1 << 20]).expect("written");
    assert!(Config::load(&home).is_ok());
    fs::remove_dir_all(directory.path()).expect("removed");
    fs::write(directory.path(), "a file in the place of the home").expect("written");
    assert_eq!(Config::load(&home).expect("no file"), Config::default());
}

/// Addresses with a password, in every form and with every typing error that leaves the password in them.
const WITH_PASSWORD: &[&str] = &[
    "postgres://ada:s3cret@h",
    "postgres://ada:s3cret@h:port/d",
    "postgres:/ada:s3cret@h/d",
    "postgress://ada:s3cret@h/d",
    "ada:s3cret@postgres://h/d",
    "ada:s3cret@h/d",
    "host=h user=ada password=s3cret dbname=d",
];

#[test]
fn errors_never_repeat_an_address() {
    for text in WITH_PASSWORD {
        let in_file = Config::parse(&format!("[store]\naddress = {text:?}\n")).expect_err(text);
        let in_environment = in_environment(&[("DUOLOG_STORE", text)]).expect_err(text);
        let flag = Config::default().with_store(Some(OsStr::new(text))).expect_err(text);
        assert!(flag.to_string().starts_with("--store "), "{flag}");
        for told in [in_file, in_environment, flag] {
            assert!(!format!("{told} {told:?}").contains("s3"), "{told}");
        }
        // Without quotes it is not TOML, and the parser must not repeat it either.
        let told = Config::parse(&format!("[store]\naddress = {text}\n")).expect_err(text);
        assert!(!format!("{told} {told:?}").contains("s3"), "{told}");
    }
}

#[test]
fn an_address_is_shown_without_its_password() {
    let config = Config::parse("[store]\naddress = \"postgres://ada:s3cret@h:5433/d?sslmode=require\"").expect("good");
    let shown = config.settings().find(|setting| setting.key == Key::StoreAddress).expect("a setting");
    assert_eq!(shown.value.to_string(), "postgres://ada@h:5433/d");
    assert!(!format!("{config:?} {shown:?}").contains("s3cret"));
    assert!(has_password(config.store()));
    let kept = config.clone().with_password(Some(OsStr::new("other")));
    assert_eq!(kept, config, "the address overrides the environment");
    let without =
        Config::default().with_store(Some(OsStr::new("postgres://ada@h:5433/d?sslmode=require"))).expect("good");
    assert!(!has_password(without.store()));
    assert_eq!(without.with_password(Some(OsStr::new("s3cret"))).store(), config.store());
    assert_eq!(*Config::default().with_password(Some(OsStr::new("s3cret"))).store(), StoreAddress::Home);
}

#[test]
fn a_relative_path_is_resolved_against_the_callers_directory() {
    let directory = |config: Config| match config.from_directory(Path::new("/here")).store() {
        StoreAddress::At(Address::Directory(path)) => path.clone(),
        other => panic!("{other:?}"),
    };
    let flag = |text: &str| Config::default().with_store(Some(OsStr::new(text))).expect("good");
    assert_eq!(directory(flag("state")), Path::new("/here/state"));
    assert_eq!(directory(flag("sqlite:/there")), Path::new("/there"));
    assert_eq!(directory(in_environment(&[("DUOLOG_STORE", "./state")]).expect("good")), Path::new("/here/./state"));
    assert!(
        findings_in("[store]\naddress = \"state\"")[0]
            .ends_with("address is a relative path; in a file it begins with /")
    );
    assert_eq!(*flag("sqlite:").from_directory(Path::new("/here")).store(), StoreAddress::Home);
    assert!(findings_in("[store]\naddress = 5432")[0].contains("address is an integer; expected a directory"));
}

#[test]
fn a_password_in_a_readable_file_gives_a_warning() {
    use std::os::unix::fs::PermissionsExt as _;
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("duolog.toml");
    let warned = |text: &str, mode: u32| {
        fs::write(&file, text).expect("written");
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).expect("set");
        Config::read(&file).expect("good").warnings().to_vec()
    };
    let text = "[store]\naddress = \"postgres://ada:s3cret@h/d\"\n";
    assert_eq!(warned(text, 0o600), Vec::<String>::new());
    for mode in [0o640, 0o604, 0o644] {
        let said = warned(text, mode);
        assert!(said.len() == 1 && said[0].contains("chmod 600") && !said[0].contains("s3cret"), "{said:?}");
    }
    assert_eq!(warned("[store]\naddress = \"postgres://ada@h/d\"\n", 0o644), Vec::<String>::new());
}

#[test]
fn a_price_is_exact_and_overrides_the_built_in_one() {
    let text = "[prices.\"my/model\"]\ninput = 1.1\noutput = 4\ncache_read = 0.000001\n\
                [prices.gpt-5]\ninput = 1_000.5\noutput = 0\n";
    let config = Config::parse(text).expect("good");
    let rates = |model: &str| config.prices().get(model).expect("priced").rates;
    let mine = rates("my/model");
    assert_eq!((mine.input, mine.output, mine.cache_read), (1_100_000, 4_000_000, 1));
    assert_eq!((mine.cache_write_5m, mine.cache_write_1h), (1_100_000, 1_100_000), "the same as input");
    assert_eq!(rates("openai/gpt-5-2026-01-01").input, 1_000_500_000);
    let set: Vec<_> = config.price_settings().iter().map(|set| (set.model.as_str(), set.line)).collect();
    assert_eq!(set, [("my/model", 1), ("gpt-5", 5)]);
    assert_eq!(Config::default().prices().get("my/model"), None);
}

#[test]
fn an_invalid_price_is_refused() {
    let cases = [
        (
            "[prices.m]\ninput = 1\noutput = 2\ncached_read = 1",
            "line 4: unknown key cached_read in [prices.\"m\"]; did you mean cache_read?",
        ),
        ("[prices.m]\ninput = 1\noutput = 2\nspeed = 1", "known here: input, output, cache_read"),
        ("[prices.m]\ninput = 1", "line 1: [prices.\"m\"] does not say output"),
        ("[prices.m]\ninput = -1\noutput = 2", "line 2: input is -1; expected US dollars per million tokens"),
        ("[prices.m]\ninput = 0.0000001\noutput = 2", "at most six decimals"),
        ("[prices.m]\ninput = inf\noutput = 2", "input is inf; expected"),
        ("[prices.m]\ninput = \"1\"\noutput = 2", "input is a string; expected"),
        ("[prices.m]\ninput = 1e30\noutput = 2", "input is 1e30; expected"),
        ("[prices]\nm = 3", "m is an integer; expected a table, [prices.\"m\"]"),
        ("[prices.\"\"]\ninput = 1\noutput = 2", "a model's name has 1 to 128 bytes"),
        ("prices = 3", "prices is an integer; expected a table, [prices]"),
        ("[price.m]", "did you mean [prices]?"),
    ];
    for (text, expected) in cases {
        assert!(findings_in(text)[0].contains(expected), "{text}: {:?}", findings_in(text));
    }
}

#[test]
fn the_default_user_is_the_login_unless_configured() {
    let none = Config::default();
    assert_eq!(none.user(), "nobody@localhost");
    assert_eq!(none.clone().for_login(Some("ada")).user(), "ada@localhost");
    for login in [None, Some(""), Some(" "), Some("a\nb")] {
        assert_eq!(none.clone().for_login(login).user(), "nobody@localhost", "{login:?}");
    }
    let said = Config::parse("[user]\nemail = \"ada@example.com\"").expect("good");
    assert_eq!(said.clone().for_login(Some("root")).user(), "ada@example.com");
    let variable = |name: &str| (name == "DUOLOG_USER_EMAIL").then(|| OsString::from(" eve@example.com "));
    let said = said.with_environment(variable).expect("good");
    assert_eq!(said.user(), "eve@example.com");
    for bad in ["\"\"", "7", "\"a\\u0000b\"", "[]"] {
        let told = Config::parse(&format!("[user]\nemail = {bad}")).expect_err(bad).to_string();
        assert!(told.contains("expected a name of 1 to 1024 bytes"), "{bad}: {told}");
    }
}

#[test]
fn a_time_is_a_number_with_a_unit() {
    let idle = |text: &str| Config::parse(&format!("[chats]\nidle = {text}"));
    for (text, seconds) in [("\"45s\"", 45), ("\"30m\"", 1_800), ("\"2 h\"", 7_200), ("\"365d\"", 31_536_000)] {
        assert_eq!(idle(text).expect(text).chat_idle(), Duration::from_secs(seconds), "{text}");
    }
    for text in ["\"0s\"", "\"366d\"", "\"30\"", "\"30 minutes\"", "30", "true", "\"99999999999999999999d\""] {
        let error = idle(text).expect_err(text).to_string();
        assert!(error.contains("expected a time from \"1s\" to \"365d\", like \"30m\""), "{error}");
    }
    let said = in_environment(&[("DUOLOG_CHATS_IDLE", "5m")]).expect("good");
    assert_eq!(said.chat_idle(), Duration::from_mins(5));
}

#[test]
fn schedules_and_workflows_are_read_as_written() {
    let text = "[schedules.nightly]\ncron = \"0 3 * * *\"\nzone = \"Europe/Berlin\"\nworkflow = \"review\"\n\
                context = { repo = \"a/b\", depth = 2, tags = [\"x\", { y = 1.5 }], since = 2026-01-01, on = true }\n\
                [schedules.\"on the hour\"]\ncron = \"@hourly\"\nenabled = false\ncatch_up = \"none\"\n\
                description = \"looks around\"\n\
                [workflows.review]\nenabled = false\ndescription = \"reads\"\n[workflows.other]\n";
    let config = Config::parse(text).expect("good");
    let [nightly, hourly] = config.schedules() else { panic!("{:?}", config.schedules()) };
    assert_eq!((nightly.name.as_str(), nightly.line, nightly.enabled), ("nightly", 1, true));
    assert_eq!((nightly.cron.as_str(), nightly.zone.as_str()), ("0 3 * * *", "Europe/Berlin"));
    let context = "{\"depth\":2,\"on\":true,\"repo\":\"a/b\",\"since\":\"2026-01-01\",\"tags\":[\"x\",{\"y\":1.5}]}";
    let same = |text: &str| serde_json::from_str::<serde_json::Value>(text).expect("JSON");
    assert_eq!(same(nightly.context.as_deref().expect("a context")), same(context));
    assert_eq!((hourly.zone.as_str(), hourly.enabled, hourly.catch_up.as_str()), ("UTC", false, "none"));
    assert_eq!((hourly.name.as_str(), hourly.line, &hourly.workflow), ("on the hour", 6, &None));
    let workflows: Vec<_> =
        config.workflows().iter().map(|flow| (flow.name.as_str(), flow.enabled, flow.line)).collect();
    assert_eq!(workflows, [("review", false, 11), ("other", true, 14)]);
    assert!(Config::default().schedules().is_empty() && Config::default().workflows().is_empty());
}

#[test]
fn an_invalid_schedule_is_refused() {
    let cases = [
        ("[schedules.n]\nzone = \"UTC\"", "line 1: [schedules.n] does not say cron; cron is minute hour day"),
        ("[schedules.n]\ncron = \"61 * * * *\"", "line 2: cron is \"61 * * * *\", which is not valid: minute \"61\""),
        ("[schedules.n]\ncron = \"@daily\"\nzone = \"Berlin\"", "line 3: zone is \"Berlin\", which is not a time zone"),
        (
            "[schedules.n]\ncron = \"@daily\"\nzones = \"UTC\"",
            "line 3: unknown key zones in [schedules.n]; did you mean zone?",
        ),
        ("[schedules.n]\ncron = \"@daily\"\nspeed = 1", "known here: cron, zone, workflow, enabled, context, catch_up"),
        ("[schedules.n]\ncron = 5", "cron is an integer; expected minute hour day month weekday"),
        ("[schedules.n]\ncron = \"@daily\"\nenabled = 1", "enabled is an integer; expected true or false"),
        ("[schedules.n]\ncron = \"@daily\"\ncatch_up = \"some\"", "expected \"latest\", \"all\" or \"none\""),
        ("[schedules.n]\ncron = \"@daily\"\ncontext = 1", "context is an integer; expected a table"),
        ("[schedules.n]\ncron = \"@daily\"\ncontext = { x = nan }", "context holds a number that JSON has not"),
        ("[schedules.n]\ncron = \"@daily\"\nworkflow = \"\"", "workflow is empty; expected the name of a workflow"),
        ("[schedules]\nn = \"@daily\"", "n is a string; expected a table, [schedules.n]"),
        ("[schedules.\"\"]\ncron = \"@daily\"", "a name in [schedules] has 1 to 1024 bytes"),
        ("schedules = 3", "schedules is an integer; expected a table, [schedules]"),
        ("[schedule.n]", "did you mean [schedules]?"),
        ("[workflows.w]\nenable = false", "unknown key enable in [workflows.w]; did you mean enabled?"),
    ];
    for (text, expected) in cases {
        assert!(findings_in(text)[0].contains(expected), "{text}: {:?}", findings_in(text));
    }
    let both = findings_in("[schedules.n]\ncron = \"x\"\nenabled = 1\n[workflows.w]\nenabled = 1");
    assert_eq!(both.len(), 3, "all at once: {both:?}");
}
