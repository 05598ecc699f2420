//! Sizes, counts, amounts and ages formatted for people. JSON has the exact values.

use duolog::{Money, Timestamp};

/// Formats a size with up to three digits: `0 B`, `999 B`, `1.2 KiB`, `64 MiB`.
#[allow(clippy::cast_precision_loss)]
pub fn size(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1000 {
        return format!("{bytes} B");
    }
    let mut scaled = bytes as f64 / 1024.0;
    let mut unit = 0;
    while scaled >= 999.5 && unit + 1 < UNITS.len() {
        scaled /= 1024.0;
        unit += 1;
    }
    if scaled < 9.95 { format!("{scaled:.1} {}", UNITS[unit]) } else { format!("{scaled:.0} {}", UNITS[unit]) }
}

/// Formats a number with thousands separators: `1,234,567`.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// Formats a number with its noun: `1 line`, `2 lines`, `3 branches`.
pub fn things(number: u64, thing: &str) -> String {
    let many = if thing.ends_with("ch") { "es" } else { "s" };
    format!("{} {thing}{}", count(number), if number == 1 { "" } else { many })
}

/// Formats dollars to a hundredth of a cent, rounded half up: `$1,234.5679`.
pub fn dollars(money: Money) -> String {
    const PICOS: u128 = 100_000_000;
    let parts = money.picos().saturating_add(PICOS / 2) / PICOS;
    let whole = u64::try_from(parts / 10_000).unwrap_or(u64::MAX);
    format!("${}.{:04}", count(whole), parts % 10_000)
}

/// Formats the age of a timestamp in its largest unit; a timestamp in the future (clocks differ) is `now`.
pub fn age(at: Timestamp, now: Timestamp) -> String {
    let seconds = now.as_micros().saturating_sub(at.as_micros()) / 1_000_000;
    if seconds <= 0 { "now".to_owned() } else { format!("{} ago", span(seconds)) }
}

/// Formats the time until a timestamp in its largest unit; a timestamp in the past is `now`.
pub fn ahead(at: Timestamp, now: Timestamp) -> String {
    let seconds = at.as_micros().saturating_sub(now.as_micros()) / 1_000_000;
    if seconds <= 0 { "now".to_owned() } else { format!("in {}", span(seconds)) }
}

/// Formats a duration: `0.3s`, `1.2s`, `3m 20s`, `2h 5m`.
pub fn duration(ms: u64) -> String {
    match ms {
        ..=59_999 => format!("{}.{}s", ms / 1_000, ms % 1_000 / 100),
        60_000..=3_599_999 => format!("{}m {}s", ms / 60_000, ms % 60_000 / 1_000),
        _ => format!("{}h {}m", ms / 3_600_000, ms % 3_600_000 / 60_000),
    }
}

fn span(seconds: i64) -> String {
    match seconds {
        ..=59 => format!("{seconds}s"),
        60..=3599 => format!("{}m", seconds / 60),
        3600..=86_399 => format!("{}h", seconds / 3600),
        86_400..=5_183_999 => format!("{}d", seconds / 86_400),
        5_184_000..=63_071_999 => format!("{}mo", seconds / 2_592_000),
        _ => format!("{}y", seconds / 31_536_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_three_figures_at_most() {
        let sizes = [0, 999, 1000, 1024, 10_188, 1_023_487, 1_023_488, 64 << 20, u64::MAX].map(size);
        assert_eq!(sizes, ["0 B", "999 B", "1.0 KiB", "1.0 KiB", "9.9 KiB", "999 KiB", "1.0 MiB", "64 MiB", "16 EiB"]);
    }

    #[test]
    fn numbers_are_grouped_and_things_counted() {
        assert_eq!([0, 999, 1000, 1_234_567].map(count), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!([1, 2].map(|n| things(n, "line")), ["1 line", "2 lines"]);
    }

    #[test]
    fn money_is_rounded_to_a_hundredth_of_a_cent() {
        let shown =
            [0, 49_999_999, 50_000_000, 1_234_567_899_950_000_000].map(|picos| dollars(Money::from_picos(picos)));
        assert_eq!(shown, ["$0.0000", "$0.0000", "$0.0001", "$1,234,567.9000"]);
    }

    #[test]
    fn ages_are_in_their_largest_unit() {
        let ages = [-5, 0, 59, 60, 3599, 3600, 86_399, 86_400, 100 * 86_400, 800 * 86_400].map(|seconds| {
            age(
                Timestamp::from_micros(1_794_000_000_000_000),
                Timestamp::from_micros(1_794_000_000_000_000 + seconds * 1_000_000),
            )
        });
        assert_eq!(
            ages,
            ["now", "now", "59s ago", "1m ago", "59m ago", "1h ago", "23h ago", "1d ago", "3mo ago", "2y ago"]
        );
    }
}
