//! Every log under a directory as conversations: the existing lines, oldest first, then new lines.
//!
//! The logs of a home have the names of their sessions. The logs of other programs need no home and are only read. For
//! most logs only the position is kept in memory. A log that continues after a long pause is interpreted from its next
//! line on.

mod known;

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::time::Duration;

use duolog_join::{Loss, RecordedLoss};
use duolog_log::{
    Bell, Hints, Item, Line, Progress, ResetReason, RootEvent, RootFollower, RootOptions, Skip, Start, Writers,
};
use duolog_types::limits::{Limits, OUTBOX_LINE_BYTES_MAX};
use duolog_types::{Position, SessionId};

use super::model::{Entry, ReplayDetail, ReplayEvent};
use super::replay::Replay;
use crate::error::{ErrorKind, Result};
use crate::store::Store;

use known::{FollowedLog, RecentLogs};

/// The directory of a home's logs, below its state directory.
const LOGS: &str = "sessions";
/// How long to wait for a writer of this home. A busy log delays no other log and is read again soon.
const WRITER_TIMEOUT: Duration = Duration::from_millis(5);

/// The source of a part of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The path of the log, relative to the directory that is followed.
    pub path: PathBuf,
    /// The session of the log, if it is the log of a home.
    pub session: Option<SessionId>,
    /// The name of the session.
    pub name: Option<String>,
    /// The user of the session.
    pub user_id: Option<String>,
}

/// A part of a stream.
#[derive(Debug)]
pub enum Streamed<'a> {
    /// An event of a log.
    Event {
        /// The log.
        source: &'a Source,
        /// The event.
        event: ReplayEvent<'a>,
    },
    /// A notice about a log, or about the directory.
    Notice {
        /// The log; `None` if the notice is about the directory.
        source: Option<&'a Source>,
        /// The notice.
        notice: Notice,
    },
}

/// A notice about a log or about the directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// Bytes that cannot be read as a line. The lines after them follow.
    Damaged {
        /// The position of the first byte.
        start: Position,
        /// The position after the last byte.
        end: Position,
        /// The reason.
        reason: String,
    },
    /// Lines that were delivered are no longer there. The lines after `to` follow.
    Reset {
        /// The end of the lines that are still there.
        to: Position,
        /// The reason.
        why: ResetReason,
    },
    /// The log lacks recorded bytes. The lines that are there follow.
    Lost(Loss),
    /// The log lost bytes before, and the loss is on record. The lines that are there follow.
    LostEarlier(RecordedLoss),
    /// The log no longer exists.
    Gone,
    /// The log is not followed.
    Skipped {
        /// The reason.
        reason: String,
    },
    /// The directory does not exist. The stream waits for it.
    Missing,
}

/// Follows every log under a directory.
pub struct Stream {
    follower: RootFollower,
    converter: Converter,
    /// The notices about logs that lack recorded bytes, by path, until they are delivered.
    lost: Vec<(PathBuf, Notice)>,
}

/// Converts events of the directory into parts of the stream.
struct Converter {
    store: Option<Store>,
    view: ReplayDetail,
    line_bytes_max: usize,
    known: RecentLogs,
}

/// Receives the parts of a stream.
type Each<'e> = &'e mut dyn FnMut(Streamed<'_>);

impl Stream {
    /// Returns the stream of a home's logs, with the names of their sessions.
    pub(crate) fn of_home(store: &Store, start: Start, view: ReplayDetail) -> Result<Self> {
        let options =
            RootOptions { start, writers: Writers::Ours { timeout: WRITER_TIMEOUT }, ..RootOptions::default() };
        let (root, join) = (store.core.home.state.join(LOGS), &store.join);
        let stream = Self::over(&root, join.hints(), options, Some(store.clone()), (view, join.limits()))?;
        let found = join.lost_logs(&join.log_standings()?)?.into_iter().map(|(id, loss)| (id, Notice::Lost(loss)));
        let earlier = join.recorded_losses()?.into_iter().map(|(id, loss)| (id, Notice::LostEarlier(loss)));
        let mut lost = Vec::new();
        for (session, notice) in found.chain(earlier) {
            let path = match store.sessions().get(&session) {
                Ok(session) => PathBuf::from(session.log_path),
                // Deleted in the meantime.
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            lost.push((path.strip_prefix(LOGS).map_or(path.clone(), Path::to_path_buf), notice));
        }
        Ok(Self { lost, ..stream })
    }

    /// Returns the stream of the logs in any directory. The directory need not exist yet; it is only read.
    ///
    /// # Errors
    ///
    /// Returns an error if the directory cannot be followed.
    pub fn of_directory(root: &Path, start: Start, view: ReplayDetail, limits: &Limits) -> Result<Self> {
        Self::over(root, &Hints::new(), RootOptions { start, ..RootOptions::default() }, None, (view, limits))
    }

    fn over(
        root: &Path,
        hints: &Hints,
        options: RootOptions,
        store: Option<Store>,
        (view, limits): (ReplayDetail, &Limits),
    ) -> Result<Self> {
        let line_bytes_max = limits.line_bytes_max;
        let follower = RootFollower::new(root, hints, RootOptions { line_bytes_max, ..options })?;
        let converter = Converter { store, view, line_bytes_max, known: RecentLogs::default() };
        Ok(Self { follower, converter, lost: Vec::new() })
    }

    /// Returns the bell that ends [`Stream::wait`] early. Another thread rings it to make this one poll or stop.
    pub fn bell(&self) -> Bell {
        self.follower.bell()
    }

    /// Returns true if a writer held a log during the last poll, so that the log may have more lines.
    pub fn is_held_up(&self) -> bool {
        self.follower.is_held_up()
    }

    /// Delivers what is new, up to a limit. After an error, some of it may not have been delivered.
    pub fn poll(&mut self, each: Each<'_>) -> Result<Progress> {
        let Self { follower, converter, lost } = self;
        for (path, notice) in lost.drain(..) {
            converter.notice(&path, notice, each)?;
        }
        let mut told = Ok(());
        let progress = follower.poll(&mut |event| {
            if told.is_ok() {
                told = converter.event(&event, each);
            }
        })?;
        told.map(|()| progress)
    }

    /// Waits until something may have changed, the bell rings, or `timeout` has passed.
    pub fn wait(&mut self, timeout: Duration) {
        self.follower.wait(timeout);
    }
}

impl Converter {
    fn event(&mut self, event: &RootEvent<'_>, each: Each<'_>) -> Result<()> {
        match event {
            RootEvent::Item { path, item } => match self.entry(*item) {
                Entry::Line(line) => return self.line(path, &line, each),
                Entry::Damaged { start, end, reason } => {
                    self.notice(path, Notice::Damaged { start, end, reason }, each)?;
                }
                // A single item never reports a loss.
                Entry::Lost(_) | Entry::LostEarlier(_) => {}
            },
            RootEvent::Reset { path, to, why } => {
                self.notice(path, Notice::Reset { to: *to, why: *why }, each)?;
                // The state of its replay comes from lines that are gone.
                self.known.forget(path);
            }
            RootEvent::Gone { path } => {
                self.notice(path, Notice::Gone, each)?;
                self.known.forget(path);
            }
            RootEvent::Skipped { path, why } => {
                self.notice(path, Notice::Skipped { reason: reason(why) }, each)?;
            }
            RootEvent::Missing => each(Streamed::Notice { source: None, notice: Notice::Missing }),
        }
        Ok(())
    }

    /// Returns the entry for an item. Of other programs' lines, everything that can be interpreted is shown, as in a
    /// replay.
    fn entry<'b>(&self, item: Item<'b>) -> Entry<'b> {
        match item {
            Item::Line(line) if self.store.is_none() => Entry::Line(line),
            other => Entry::of(other, self.line_bytes_max),
        }
    }

    fn line(&mut self, path: &Path, line: &Line<'_>, each: Each<'_>) -> Result<()> {
        let (store, view) = (self.store.as_ref(), self.view);
        let FollowedLog { source, replay, .. } = self.known.get_or(path, || {
            let replay = Replay::new(None, view);
            let replay = if line.start == Position::ZERO { replay } else { replay.from_within() };
            Ok(FollowedLog::new(source_of(store, path)?, replay))
        })?;
        if is_renaming(line.bytes) {
            *source = source_of(store, path)?;
        }
        let told: std::result::Result<(), Infallible> = replay.line(line, &mut |told| {
            each(Streamed::Event { source, event: told });
            Ok(())
        });
        let Ok(()) = told;
        Ok(())
    }

    fn notice(&self, path: &Path, notice: Notice, each: Each<'_>) -> Result<()> {
        match self.known.source(path) {
            Some(source) => each(Streamed::Notice { source: Some(source), notice }),
            None => each(Streamed::Notice { source: Some(&source_of(self.store.as_ref(), path)?), notice }),
        }
        Ok(())
    }
}

fn source_of(store: Option<&Store>, path: &Path) -> Result<Source> {
    let session = match store {
        Some(store) => store.sessions().find_by_log(&Path::new(LOGS).join(path).to_string_lossy())?,
        None => None,
    };
    let path = path.to_owned();
    Ok(match session {
        Some(session) => Source { path, session: Some(session.id), name: session.name, user_id: session.user_id },
        None => Source { path, session: None, name: None, user_id: None },
    })
}

/// Returns true if a line may rename its session. A false positive costs one more lookup.
fn is_renaming(line: &[u8]) -> bool {
    let is_ours = line.len() <= OUTBOX_LINE_BYTES_MAX;
    is_ours && std::str::from_utf8(line).is_ok_and(|line| line.contains("\"duolog.renamed\""))
}

pub(super) fn reason(why: &Skip) -> String {
    match why {
        Skip::Unreadable(error) => match std::error::Error::source(error) {
            Some(cause) => format!("{error}: {cause}"),
            None => error.to_string(),
        },
        Skip::NotAFile => "it is a symbolic link, a pipe or a device".to_owned(),
        Skip::Cold => "it is compressed".to_owned(),
        Skip::TooMany => "there are more logs than can be followed at once".to_owned(),
        Skip::TooDeep => "it is nested too deep".to_owned(),
    }
}
