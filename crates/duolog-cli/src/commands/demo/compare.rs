//! What was acknowledged against what is in the log: pure.

use std::collections::HashMap;

use serde::Serialize;

/// How the log stands to what was acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Compared {
    /// Events that were acknowledged.
    pub acknowledged: usize,
    /// Those of them that are in the log once, byte for byte.
    pub found: usize,
    /// Those that are not there.
    pub missing: usize,
    /// Those that are there more than once.
    pub repeated: usize,
    /// Whether they stand in the order in which they were acknowledged.
    pub in_order: bool,
    /// Whole lines in the log that nobody was told of.
    pub unacknowledged: usize,
}

impl Compared {
    /// Compares lines with lines.
    pub fn of(acknowledged: &[Vec<u8>], log: &[Vec<u8>]) -> Self {
        let mut times: HashMap<&[u8], usize> = acknowledged.iter().map(|line| (&line[..], 0)).collect();
        let mut told = Vec::new();
        for line in log {
            if let Some(times) = times.get_mut(&line[..]) {
                *times += 1;
                told.push(line);
            }
        }
        let count = |wanted: fn(usize) -> bool| {
            acknowledged.iter().filter(|line| wanted(times.get(&line[..]).copied().unwrap_or_default())).count()
        };
        Self {
            acknowledged: acknowledged.len(),
            found: count(|times| times == 1),
            missing: count(|times| times == 0),
            repeated: count(|times| times > 1),
            in_order: told.iter().copied().eq(acknowledged),
            unacknowledged: log.len() - told.len(),
        }
    }

    /// Whether every acknowledged event is there, once, in order.
    pub fn holds(&self) -> bool {
        self.found == self.acknowledged && self.in_order
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<Vec<u8>> {
        text.split_whitespace().map(|word| word.as_bytes().to_vec()).collect()
    }

    #[test]
    fn only_the_same_lines_once_and_in_order_hold() {
        let told = lines("a b c");
        for (log, holds) in [
            ("a b c", true),
            ("a x b c y", true),
            ("a b", false),
            ("a b b c", false),
            ("a c b", false),
            ("a B c", false),
        ] {
            assert_eq!(Compared::of(&told, &lines(log)).holds(), holds, "{log}");
        }
        let compared = Compared::of(&told, &lines("a x a c"));
        let Compared { acknowledged, found, missing, repeated, unacknowledged, .. } = compared;
        assert_eq!((acknowledged, found, missing, repeated, unacknowledged), (3, 1, 1, 1, 1));
    }
}
