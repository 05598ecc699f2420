//! A `.torn` file with arbitrary bytes returns its complete records, and accepts another one.

use duolog_log::{MendKind, Place, Watermark, Writer, torn_path, torn_records};
use duolog_types::limits::Limits;

use duolog_testkit::SimDisk;

const LOG: &str = "log.jsonl";

pub(super) fn target(input: &[u8]) {
    let disk = SimDisk::new();
    let path = torn_path(LOG.as_ref());
    disk.write(&path, input);
    let before = torn_records(&disk.as_disk(), LOG.as_ref()).expect("records");
    let bytes: u64 = before.iter().map(|record| record.len).sum();
    assert!(bytes <= input.len() as u64, "no byte is in two records");
    disk.write(LOG, b"{}\n{\"half");
    let opened = Writer::open(&disk.as_disk(), &Place::file(LOG), &Watermark::default(), &Limits::default());
    let (_, recovery) = opened.expect("opens");
    assert_eq!(recovery.mend.map(|mend| (mend.kind, mend.bytes)), Some((MendKind::Quarantined, 6)));
    let now = disk.read(&path).expect("a .torn file");
    assert!(now.starts_with(input), "no byte is removed");
    let after = torn_records(&disk.as_disk(), LOG.as_ref()).expect("records");
    assert!(after.starts_with(&before), "earlier records are kept");
    let last = after.last().expect("the new one");
    assert_eq!((last.position, last.len), (3, 6));
}
