//! The time from an append until a follower has the line, in another process and in this one.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::mem::MaybeUninit;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant, SystemTime};

use duolog::{Durability, Seen};
use rustix::fs::inotify;

use crate::bare::{self, Bare};
use crate::bench::{Bench, log_file, options_in, store_in};
use crate::benchmark::Target;
use crate::events;
use crate::measure::{Case, Rounds};

/// The first argument of a process that only follows.
pub const CHILD: &str = "--follows";
/// The pause before each line, so that the follower is waiting.
const PAUSE: Duration = Duration::from_millis(1);
const OURS: &str = "ours";
const BARE: &str = "bare";

/// A follower in another process against a loop with inotify, and one in this process against a channel.
pub fn cases(bench: &Bench) -> Vec<Case> {
    let (directories, rounds) = ([bench.new_dir(), bench.new_dir()], bench.size(501, 5));
    let store = store_in(&directories[0]);
    let session = store.sessions().open_thread("bench").expect("a session");
    let (log, file) = (store.log(&session.id), log_file(&store, &session));
    let (batches, bare) = (events::batches(16, 1), Bare::in_dir(&directories[1]));
    let what = "append until another process has the line / write until a loop with inotify has it";
    let process = Case::cost("follow/process", what, Target::AtMost(5.0), move || {
        let append = |round: usize| _ = log.append(&batches[round % 16], Durability::Process).expect("appended");
        let write = |round: usize| bare.write(batches[round % 16].as_bytes());
        append(0);
        write(0);
        let (mut ours, mut limit) = (Following::start(OURS, &directories[0]), Following::start(BARE, &directories[1]));
        let taken = (1..=rounds).map(|round| (ours.timed(|| append(round)), limit.timed(|| write(round)))).unzip();
        bare.assert_same(&file);
        Rounds::of(taken.0, taken.1)
    });
    vec![process, in_this_process(bench)]
}

fn in_this_process(bench: &Bench) -> Case {
    let (directory, rounds) = (bench.new_dir(), bench.size(501, 5));
    let store = store_in(&directory);
    let log = store.log(&store.sessions().open_thread("bench").expect("a session").id);
    let batches = events::batches(16, 1);
    let what = "append until a follower has the line / send until another thread has the message";
    Case::cost("follow/thread", what, Target::Shown, move || {
        let start = log.end().expect("an end");
        std::thread::scope(|scope| {
            let (delivered, deliveries) = channel();
            let mut follow = log.follow(None).expect("a follower");
            scope.spawn(move || {
                let mut seen = 0;
                while seen < rounds {
                    let mut new = 0;
                    let polled = follow.poll(&mut |item| {
                        let is_new = matches!(item, duolog::Item::Line(line) if line.start >= start);
                        new += usize::from(is_new);
                    });
                    if polled.expect("polled") == Seen::Idle {
                        follow.wait(Duration::from_secs(5));
                    }
                    (0..new).for_each(|_| delivered.send(Instant::now()).expect("someone listens"));
                    seen += new;
                }
            });
            let (send, receive) = channel::<()>();
            let (received, receipts) = channel();
            scope.spawn(move || receive.iter().for_each(|()| received.send(Instant::now()).expect("someone listens")));
            let taken = (0..rounds).map(|round| {
                std::thread::sleep(PAUSE);
                let start = Instant::now();
                log.append(&batches[round % 16], Durability::Process).expect("appended");
                let ours = deliveries.recv().expect("delivered") - start;
                std::thread::sleep(PAUSE);
                let start = Instant::now();
                send.send(()).expect("someone listens");
                (ours.as_nanos() as f64, (receipts.recv().expect("received") - start).as_nanos() as f64)
            });
            let taken = taken.unzip();
            drop(send);
            Rounds::of(taken.0, taken.1)
        })
    })
}

/// A process that follows and reports each line.
struct Following {
    child: Child,
    times: ChildStdout,
}

impl Following {
    fn start(side: &str, at: &Path) -> Self {
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        let mut child = command.arg(CHILD).arg(side).arg(at).stdout(Stdio::piped()).spawn().expect("it starts");
        let times = child.stdout.take().expect("piped");
        let mut following = Self { child, times };
        // It has read all existing lines and waits.
        following.next();
        following
    }

    fn next(&mut self) -> u64 {
        let mut nanoseconds = [0; 8];
        self.times.read_exact(&mut nanoseconds).expect("the follower lives");
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

/// Returns the time of the clock that both processes share.
fn now() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970").as_nanos() as u64
}

/// Follows until it is killed. Writes the time after it has read all existing lines, and then for each line.
pub fn child(side: &str, at: &Path) -> ! {
    let mut out = std::io::stdout();
    let mut tell = || out.write_all(&now().to_le_bytes()).and_then(|()| out.flush()).expect("someone listens");
    if side == OURS { follow(at, &mut tell) } else { follow_bare(at, &mut tell) }
}

fn follow(at: &Path, tell: &mut dyn FnMut()) -> ! {
    let store = duolog::Store::open(options_in(at).for_reading().one_shot()).expect("a store");
    let log = store.log(&store.sessions().open_thread("bench").expect("a session").id);
    let mut follow = log.follow(None).expect("a follower");
    // It listens before it reports the first line.
    follow.wait(Duration::ZERO);
    let mut is_at_end = false;
    loop {
        let polled = follow
            .poll(&mut |_| {
                if is_at_end {
                    tell();
                }
            })
            .expect("polled");
        if polled == Seen::Idle {
            if !is_at_end {
                is_at_end = true;
                tell();
            }
            follow.wait(Duration::from_secs(5));
        }
    }
}

fn follow_bare(at: &Path, tell: &mut dyn FnMut()) -> ! {
    let path = at.join(bare::NAME);
    let file = File::open(&path).expect("a file");
    let watch = inotify::init(inotify::CreateFlags::CLOEXEC).expect("inotify");
    inotify::add_watch(&watch, &path, inotify::WatchFlags::MODIFY).expect("a watch");
    let mut buffer = [MaybeUninit::uninit(); 4096];
    let mut notices = inotify::Reader::new(&watch, &mut buffer);
    let mut offset = file.metadata().expect("a size").len();
    let mut buffer = vec![0; 64 * 1024];
    tell();
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
