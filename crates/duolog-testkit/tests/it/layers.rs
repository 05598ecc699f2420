use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

/// The crates that each crate may depend on: all of ours, and the relevant ones of others. Arrows point down only.
const MAY_USE: &[(&str, &[&str])] = &[
    ("duolog-types", &[]),
    ("duolog-log", &["duolog-types"]),
    ("duolog-state", &["duolog-types"]),
    ("duolog-search", &["duolog-types"]),
    ("duolog-join", &["duolog-types", "duolog-log", "duolog-state"]),
    ("duolog", &["duolog-types", "duolog-log", "duolog-state", "duolog-search", "duolog-join"]),
    ("duolog-wire", &["duolog"]),
    ("duolog-cli", &["duolog", "duolog-wire"]),
    ("duolog-testkit", &["duolog", "duolog-types", "duolog-log", "duolog-state", "duolog-join"]),
    ("duolog-bench", &["duolog"]),
];

/// The crates that may depend on each driver.
const DRIVERS: &[(&str, &[&str])] = &[
    ("rusqlite", &["duolog-state", "duolog-search", "duolog-testkit", "duolog-bench"]),
    ("tokio", &["duolog-state", "duolog-bench"]),
    ("tokio-postgres", &["duolog-state", "duolog-bench"]),
    ("clap", &["duolog-cli"]),
];

fn dependencies() -> BTreeMap<String, BTreeSet<String>> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crates");
    let mut found = BTreeMap::new();
    for entry in crates.read_dir().expect("the crates").flatten() {
        let manifest = std::fs::read_to_string(entry.path().join("Cargo.toml")).expect("a manifest");
        let section = manifest.split("\n[dependencies]\n").nth(1).unwrap_or_default();
        let lines = section.lines().take_while(|line| !line.starts_with('['));
        let names = lines.filter_map(|line| line.split(['.', ' ', '=']).next()).filter(|name| !name.is_empty());
        let name = entry.file_name().into_string().expect("a name");
        found.insert(name, names.filter(|name| !name.starts_with('#')).map(str::to_owned).collect());
    }
    found
}

#[test]
fn arrows_point_down_only() {
    let found = dependencies();
    assert_eq!(
        found.keys().map(String::as_str).collect::<BTreeSet<_>>(),
        MAY_USE.iter().map(|(name, _)| *name).collect()
    );
    for (name, may_use) in MAY_USE {
        for used in found[*name].iter().filter(|used| used.starts_with("duolog")) {
            assert!(may_use.contains(&used.as_str()), "{name} must not depend on {used}");
        }
    }
}

/// The shapes depend on no transport and no format except JSON.
#[test]
fn shapes_need_only_the_library_and_json() {
    let used: Vec<String> = dependencies()["duolog-wire"].iter().cloned().collect();
    assert_eq!(used, ["duolog", "schemars", "serde", "serde_json"]);
}

#[test]
fn drivers_are_dependencies_of_their_crates_only() {
    for (driver, rooms) in DRIVERS {
        for (name, used) in dependencies().iter().filter(|(name, _)| !rooms.contains(&name.as_str())) {
            assert!(!used.contains(*driver), "{name} must not depend on {driver}");
        }
    }
}

/// Runs cargo on the workspace, offline.
fn cargo(args: &[&str]) -> (String, String) {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().and_then(Path::parent).expect("the workspace");
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
    let output = command.args(args).args(["--offline", "--quiet"]).current_dir(workspace).output().expect("runs");
    let [stdout, stderr] = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    assert!(output.status.success(), "cargo {args:?}\n{stderr}");
    (stdout, stderr)
}

/// Without the feature `postgres` the library has no async runtime and no TLS, and compiles without a warning.
#[test]
fn without_the_feature_postgres_there_is_no_tokio_and_no_tls() {
    let library = ["-p", "duolog", "--no-default-features"];
    let tree =
        |more: &[&str]| cargo(&[&["tree"], &library[..], &["-e", "normal", "--prefix", "none"], more].concat()).0;
    let (without, with) = (tree(&[]), tree(&["--features", "postgres"]));
    for brought in ["tokio", "tokio-postgres", "rustls", "deadpool-postgres"] {
        let names = |tree: &str| tree.lines().any(|line| line.split(' ').next() == Some(brought));
        assert!(!names(&without) && names(&with), "{brought}");
    }
    let (_, warnings) = cargo(&[&["check"], &library[..]].concat());
    assert_eq!(warnings, "");
}

/// Functions that write derived rows.
const DERIVED_WRITES: &[&str] = &[
    "catalog::advance",
    "catalog::replace",
    "catalog::clear",
    "catalog::outdate",
    "digests::put",
    "responses::claim",
    "responses::confirm",
    "responses::forget",
    "usage_by_quarter::change",
    "usage_by_quarter::forget",
];

/// Only the fold and the rebuild write rows of derived tables.
#[test]
fn only_the_fold_and_the_rebuild_write_derived_rows() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crates");
    for room in ["duolog-join", "duolog", "duolog-cli"] {
        for file in sources(&crates.join(room).join("src")) {
            let text = std::fs::read_to_string(&file).expect("a source");
            let writes = DERIVED_WRITES.iter().any(|call| text.contains(call));
            let may = ["rows.rs", "rebuild.rs"].iter().any(|name| file.ends_with(name));
            assert!(!writes || may, "{} writes derived rows", file.display());
        }
    }
}

/// Row types belong to the state; the library has its own types.
#[test]
fn the_library_exports_no_row_type() {
    let library = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("duolog").join("src");
    for file in sources(&library) {
        let text = std::fs::read_to_string(&file).expect("a source");
        for shown in text.split("\npub use ").skip(1).filter_map(|rest| rest.split(';').next()) {
            let is_row = |name: &str| name.trim().ends_with("Row");
            assert!(!shown.split(['{', '}', ',', ':']).any(is_row), "{} shows {shown}", file.display());
        }
    }
}

fn sources(directory: &Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in directory.read_dir().expect("a directory").flatten() {
        if entry.path().is_dir() {
            found.extend(sources(&entry.path()));
        } else {
            found.push(entry.path());
        }
    }
    found
}
