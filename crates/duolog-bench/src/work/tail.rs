//! From an append to a follower in another process that has the line in hand.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::mem::MaybeUninit;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use duolog_log::{Append, Disk, Files, Follower, Hints, Item, Place, Polled, Watermark, Writer};
use duolog_types::Position;
use duolog_types::limits::Limits;
use rustix::fs::inotify;

use crate::bare::Bare;
use crate::bench::Bench;
use crate::events;
use crate::measure::{Figure, Pairs, Target};

/// The first argument of a process that follows and does nothing else.
pub const CHILD: &str = "--follows-for-tail";
/// How long both sides are left alone before a line comes: a follower that waits is what is measured.
const PAUSE: Duration = Duration::from_millis(2);
const OURS: &str = "ours.jsonl";
const BARE: &str = "bare.jsonl";

/// Append and delivery against a bare write and a loop around inotify, each in a process of its own.
pub fn run(bench: &Bench) -> Vec<Figure> {
    let rounds = bench.size(1001, 5);
    let room = bench.room();
    // Directories of their own: neither side hears the other.
    let (ours_at, bare_at) = (room.path().join("ours"), room.path().join("bare"));
    for directory in [&ours_at, &bare_at] {
        std::fs::create_dir(directory).expect("a directory");
    }
    let disk: Arc<dyn Disk> = Arc::new(Files::beneath(&ours_at).expect("a directory"));
    let limits = Limits::default();
    let writer = Writer::open(&disk, &Place::file(OURS), &Watermark::default(), &limits).expect("a log").0;
    let bare = Bare::in_dir(&bare_at);
    let batches = events::batches(16, 1);
    let append = |round: usize| {
        writer.append(&batches[round % batches.len()], &Append::default()).expect("appended");
    };
    append(0);
    bare.write(batches[0].as_bytes());
    let (mut ours_follower, mut bare_follower) = (Following::start(OURS, &ours_at), Following::start(BARE, &bare_at));
    let (mut ours, mut limit) = (Vec::new(), Vec::new());
    for round in 1..=rounds {
        let write = |round: usize| bare.write(batches[round % batches.len()].as_bytes());
        ours.push(ours_follower.timed(|| append(round)));
        limit.push(bare_follower.timed(|| write(round)));
    }
    bare.assert_same(&ours_at.join(OURS));
    let what = "append until another process has the line / write until a loop around inotify has read it";
    let target = Target::AtMostOrMore { times: 3.0, nanoseconds: 1e6 };
    vec![Pairs::of(ours, limit).cost("tail/process", what, target)]
}

/// A process that tells when it has a line.
struct Following {
    child: Child,
    told: ChildStdout,
}

impl Following {
    fn start(which: &str, at: &Path) -> Self {
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        let mut child = command.arg(CHILD).arg(which).arg(at).stdout(Stdio::piped()).spawn().expect("it starts");
        let told = child.stdout.take().expect("piped");
        let mut following = Self { child, told };
        // The line that stands there already: from then on it waits for the next.
        following.next();
        following
    }

    fn next(&mut self) -> u64 {
        let mut nanoseconds = [0; 8];
        self.told.read_exact(&mut nanoseconds).expect("the follower lives");
        u64::from_le_bytes(nanoseconds)
    }

    fn timed(&mut self, write: impl FnOnce()) -> f64 {
        std::thread::sleep(PAUSE);
        let start = now();
        write();
        self.next().saturating_sub(start) as f64
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// One clock for both processes.
fn now() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970").as_nanos() as u64
}

/// Follows until it is ended, and tells the time of each line.
pub fn child(which: &str, at: &Path) -> ! {
    let mut out = std::io::stdout();
    let mut tell = || {
        let written = out.write_all(&now().to_le_bytes()).and_then(|()| out.flush());
        written.expect("someone listens");
    };
    if which == OURS { follow(at, &mut tell) } else { follow_bare(at, &mut tell) }
}

fn follow(at: &Path, tell: &mut dyn FnMut()) -> ! {
    let disk: Arc<dyn Disk> = Arc::new(Files::beneath(at).expect("a directory"));
    let limits = Limits::default();
    let place = Place::file(OURS);
    let mut follower = Follower::new(&disk, &place, Position::ZERO, limits.busy_timeout, limits.line_bytes_max)
        .hearing(&Hints::new(), at);
    // It listens before it tells of the first line.
    follower.wait(Duration::ZERO);
    loop {
        let polled = follower.poll(&mut |item| match item {
            Item::Line(_) => tell(),
            Item::TooLong { .. } => panic!("a short line"),
        });
        if polled.expect("polled") == Polled::Idle {
            follower.wait(Duration::from_secs(5));
        }
    }
}

fn follow_bare(at: &Path, tell: &mut dyn FnMut()) -> ! {
    let path = at.join(BARE);
    let file = File::open(&path).expect("a file");
    let watch = inotify::init(inotify::CreateFlags::CLOEXEC).expect("inotify");
    inotify::add_watch(&watch, &path, inotify::WatchFlags::MODIFY).expect("a watch");
    let mut room = [MaybeUninit::uninit(); 4096];
    let mut notices = inotify::Reader::new(&watch, &mut room);
    let (mut buffer, mut offset) = (vec![0; 64 * 1024], 0);
    loop {
        loop {
            let read = file.read_at(&mut buffer, offset).expect("read");
            if read == 0 {
                break;
            }
            offset += read as u64;
            memchr::memchr_iter(b'\n', &buffer[..read]).for_each(|_| tell());
        }
        notices.next().expect("a notice");
    }
}
