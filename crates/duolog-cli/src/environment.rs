//! The environment variables of Duolog, and the detection of unknown ones.

use std::env;

/// The prefix of all variables.
const PREFIX: &str = "DUOLOG_";

/// The variables without a configuration key: the home, and those that `duolog runs exec` sets for its command.
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

/// The prefixes of the variables of tests.
const OF_TESTS: [&str; 2] = ["DUOLOG_TEST_", "DUOLOG_SHIM_"];

/// Returns the variables that are set but unknown. `keys` are the variables of the configuration keys.
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
