//! Figures as people read them: sizes, counts, ages. JSON has the exact ones.

use duolog::Moment;

/// A size with three figures at most: `0 B`, `999 B`, `1.2 KiB`, `64 MiB`.
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

/// A number with its thousands apart: `1,234,567`.
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

/// A number of things: `1 line`, `2 lines`.
pub fn things(number: u64, thing: &str) -> String {
    format!("{} {thing}{}", count(number), if number == 1 { "" } else { "s" })
}

/// How long ago something was, in its largest unit. What lies ahead (clocks differ) is `now`.
pub fn age(at: Moment, now: Moment) -> String {
    let seconds = now.as_micros().saturating_sub(at.as_micros()) / 1_000_000;
    match seconds {
        ..=0 => "now".to_owned(),
        1..=59 => format!("{seconds}s ago"),
        60..=3599 => format!("{}m ago", seconds / 60),
        3600..=86_399 => format!("{}h ago", seconds / 3600),
        86_400..=5_183_999 => format!("{}d ago", seconds / 86_400),
        5_184_000..=63_071_999 => format!("{}mo ago", seconds / 2_592_000),
        _ => format!("{}y ago", seconds / 31_536_000),
    }
}
