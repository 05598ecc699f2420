//! Detection of a dialect: white space around lines, blank lines and the order of lines do not matter.

use duolog_log::dialect::detect::{Detector, LINES_MAX, of_line};

use super::lines_in;

pub(super) fn target(input: &[u8]) {
    let lines: Vec<String> =
        lines_in(input).into_iter().map(|line| String::from_utf8_lossy(line).into_owned()).collect();
    for line in &lines {
        let found = of_line(line);
        for padded in [format!("{line} \t\r"), format!(" {line}")] {
            assert_eq!(of_line(&padded), found, "white space around a line does not matter");
        }
    }
    // At most as many lines as are examined, with room for blank ones.
    let seen = &lines[..lines.len().min(LINES_MAX as usize - 8)];
    let found = detect(seen.iter());
    assert_eq!(detect(seen.iter().rev()), found, "the order does not matter");
    let blank = " \t".to_owned();
    assert_eq!(detect(seen.iter().chain([&blank, &blank])), found, "blank lines after them do not matter");
    assert_eq!(detect([&blank, &blank].into_iter().chain(seen)), found, "blank lines before them do not matter");
    if let Some(found) = found {
        assert!(seen.iter().any(|line| of_line(line) == Some(found)), "the dialect is that of a line");
    }
}

fn detect<'l>(lines: impl Iterator<Item = &'l String>) -> Option<duolog_log::dialect::Dialect> {
    let mut detector = Detector::default();
    lines.for_each(|line| detector.line(line));
    detector.dialect()
}
