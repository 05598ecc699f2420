//! A writer that finds arbitrary bytes in a log loses none of them, and the next line is separate.

use duolog_log::{Append, MendKind, Place, Watermark, Writer, torn_path, torn_records};
use duolog_types::limits::Limits;
use duolog_types::{Batch, Position};

use super::choice;
use duolog_testkit::SimDisk;

const LOG: &str = "log.jsonl";

pub(super) fn target(input: &[u8]) {
    for sealed_to in [0, choice(input, 1) as u64 % (input.len() as u64 + 1)] {
        let disk = SimDisk::new();
        disk.write(LOG, input);
        let known = Watermark { sealed_to: Position(sealed_to), ..Watermark::default() };
        let (writer, recovery) = open(&disk, &known);
        let whole = input.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let (lines, rest) = input.split_at(whole);
        let now = disk.read(LOG).expect("a log");
        match recovery.mend.map(|mend| mend.kind) {
            None => assert!(rest.is_empty() && now == input),
            Some(MendKind::Completed | MendKind::Terminated) => assert_eq!(now, [input, b"\n"].concat()),
            Some(MendKind::Quarantined) => {
                assert_eq!(now, lines);
                assert!(whole as u64 >= sealed_to, "sealed bytes are never cut");
                let records = torn_records(&disk.as_disk(), LOG.as_ref()).expect("records");
                assert_eq!(records.iter().map(|record| record.len).collect::<Vec<_>>(), [rest.len() as u64]);
                let torn = disk.read(torn_path(LOG.as_ref())).expect("a .torn file");
                assert!(torn.ends_with(&[rest, b"\n"].concat()), "the removed bytes are kept");
            }
        }
        let (_, again) = open(&disk, &known);
        assert!(again.mend.is_none() && disk.read(LOG).expect("a log") == now, "recovering twice changes no byte");
        let mut batch = Batch::default();
        batch.push(b"{\"next\":1}").expect("a line");
        let appended = writer.append(&batch, &Append::default()).expect("appended");
        assert_eq!(appended.start.0, now.len() as u64);
        assert_eq!(disk.read(LOG).expect("a log"), [&now[..], b"{\"next\":1}\n"].concat());
    }
}

fn open(disk: &SimDisk, known: &Watermark) -> (Writer, duolog_log::Recovery) {
    Writer::open(&disk.as_disk(), &Place::file(LOG), known, &Limits::default()).expect("opens")
}
