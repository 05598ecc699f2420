//! Compares the acknowledged lines with the lines in the log.

use std::collections::HashMap;

use duolog_wire::DemoComparison;

/// Compares the acknowledged lines with the lines in the log.
pub fn compare(acknowledged: &[Vec<u8>], log: &[Vec<u8>]) -> DemoComparison {
    let mut times: HashMap<&[u8], usize> = acknowledged.iter().map(|line| (&line[..], 0)).collect();
    let mut found = Vec::new();
    for line in log {
        if let Some(times) = times.get_mut(&line[..]) {
            *times += 1;
            found.push(line);
        }
    }
    let count = |wanted: fn(usize) -> bool| {
        acknowledged.iter().filter(|line| wanted(times.get(&line[..]).copied().unwrap_or_default())).count() as u64
    };
    DemoComparison {
        acknowledged: acknowledged.len() as u64,
        found: count(|times| times == 1),
        lost: count(|times| times == 0),
        repeated: count(|times| times > 1),
        in_order: found.iter().copied().eq(acknowledged),
        unacknowledged: (log.len() - found.len()) as u64,
    }
}

/// Returns true if the log has every acknowledged event once and in order.
pub fn holds(compared: &DemoComparison) -> bool {
    compared.found == compared.acknowledged && compared.in_order
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<Vec<u8>> {
        text.split_whitespace().map(|word| word.as_bytes().to_vec()).collect()
    }

    #[test]
    fn only_the_same_lines_once_and_in_order_hold() {
        let acknowledged = lines("a b c");
        for (log, holds) in [
            ("a b c", true),
            ("a x b c y", true),
            ("a b", false),
            ("a b b c", false),
            ("a c b", false),
            ("a B c", false),
        ] {
            assert_eq!(super::holds(&compare(&acknowledged, &lines(log))), holds, "{log}");
        }
        let compared = compare(&acknowledged, &lines("a x a c"));
        let DemoComparison { acknowledged, found, lost, repeated, unacknowledged, .. } = compared;
        assert_eq!((acknowledged, found, lost, repeated, unacknowledged), (3, 1, 1, 1, 1));
    }
}
