//! The environment variables of Duolog: those that exist, and those that are set by mistake.

use std::env;

/// What all of them begin with.
const PREFIX: &str = "DUOLOG_";

/// The variables that no key of the configuration has: the home, and what `duolog runs exec` tells its command.
const OTHERS: [&str; 9] = [
    "DUOLOG_HOME",
    "DUOLOG_RUN_ID",
    "DUOLOG_FENCE",
    "DUOLOG_WORKFLOW",
    "DUOLOG_TRIGGER_ID",
    "DUOLOG_PHASE",
    "DUOLOG_EXECUTION_ID",
    "DUOLOG_OWNER",
    "DUOLOG_SESSION_ID",
];

/// What the variables of tests begin with.
const OF_TESTS: [&str; 2] = ["DUOLOG_TEST_", "DUOLOG_SHIM_"];

/// Returns the variables that are set and that nothing reads. `keys` are those of the configuration.
pub fn unknown(keys: &[&str]) -> Vec<String> {
    let set = env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    set.filter(|name| is_unknown(name, keys)).collect()
}

fn is_unknown(name: &str, keys: &[&str]) -> bool {
    let is_of_tests = OF_TESTS.iter().any(|prefix| name.starts_with(prefix));
    name.starts_with(PREFIX) && !is_of_tests && !OTHERS.contains(&name) && !keys.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::is_unknown;

    #[test]
    fn only_what_nothing_reads_is_unknown() {
        let keys = ["DUOLOG_STORE"];
        let unknown = ["DUOLOG_HOMES", "DUOLOG_", "DUOLOG_RUN", "DUOLOG_STORE_ADDRESS"];
        assert!(unknown.iter().all(|name| is_unknown(name, &keys)));
        let known = ["DUOLOG_HOME", "DUOLOG_STORE", "DUOLOG_RUN_ID", "DUOLOG_TEST_X", "HOME", "duolog_home"];
        assert!(!known.iter().any(|name| is_unknown(name, &keys)));
    }
}
