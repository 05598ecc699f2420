//! Every log under a directory, told as conversations: what is there, oldest first, and then what comes.
//!
//! The logs of a home are told with the names of their sessions; those of others need no home, and nothing of them is
//! changed. Memory does not grow with the number of logs, but for where each stands: of most nothing else is known, and
//! one that speaks again after a while is understood from the line at hand on.

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

use known::{Known, Voice};

/// The directory of a home's logs, beneath its state.
const LOGS: &str = "sessions";
/// How long a writer of ours is waited for: it holds up its own log and no other, and is looked for again soon.
const WRITER_TIMEOUT: Duration = Duration::from_millis(5);

/// Where a piece of a stream comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The log, from the directory that is followed.
    pub path: PathBuf,
    /// The session whose log it is, where the home has one.
    pub session: Option<SessionId>,
    /// What people call the session.
    pub name: Option<String>,
    /// Whose it is.
    pub user_id: Option<String>,
}

/// A piece of a stream.
#[derive(Debug)]
pub enum Streamed<'a> {
    /// What a log tells.
    Told {
        /// Which.
        source: &'a Source,
        /// What.
        told: ReplayEvent<'a>,
    },
    /// What one should know of a log, or of the directory where none is named.
    Notice {
        /// Which.
        source: Option<&'a Source>,
        /// What.
        notice: Notice,
    },
}

/// What one should know of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// Bytes that are not a line anyone can read. What follows them is told.
    Damaged {
        /// Where they begin.
        start: Position,
        /// Where they end.
        end: Position,
        /// What is wrong with them.
        reason: String,
    },
    /// Lines that were told are no longer there. What stands behind `to` follows.
    Reset {
        /// The last position whose line still stands.
        to: Position,
        /// What happened.
        why: ResetReason,
    },
    /// The log lacks bytes that were recorded of it. The lines that are there follow.
    Lost(Loss),
    /// The log lost bytes before, and that is on record. The lines that are there follow.
    LostEarlier(RecordedLoss),
    /// The log is no longer there.
    Gone,
    /// It is not followed.
    Skipped {
        /// Why.
        reason: String,
    },
    /// The directory is not there. It is waited for.
    Missing,
}

/// Follows every log under a directory.
pub struct Stream {
    follower: RootFollower,
    teller: Teller,
    /// What is to be told of logs that lack recorded bytes, by path, until it is told.
    lost: Vec<(PathBuf, Notice)>,
}

/// Whose logs they are, and how they are told.
struct Teller {
    store: Option<Store>,
    view: ReplayDetail,
    line_bytes_max: usize,
    known: Known,
}

/// Who is told.
type Each<'e> = &'e mut dyn FnMut(Streamed<'_>);

impl Stream {
    /// The logs of a home, with the names of their sessions.
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
                // Deleted since.
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            lost.push((path.strip_prefix(LOGS).map_or(path.clone(), Path::to_path_buf), notice));
        }
        Ok(Self { lost, ..stream })
    }

    /// The logs of others, anywhere. The directory need not exist yet; it is only read.
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
        let teller = Teller { store, view, line_bytes_max, known: Known::default() };
        Ok(Self { follower, teller, lost: Vec::new() })
    }

    /// What wakes whoever waits, for one who wants it to look, or to end.
    pub fn bell(&self) -> Bell {
        self.follower.bell()
    }

    /// Whether a writer was inside a log, so that there may be more to tell of it.
    pub fn is_held_up(&self) -> bool {
        self.follower.is_held_up()
    }

    /// Tells what is new, up to a bound. After an error some of it may not have been told.
    pub fn poll(&mut self, each: Each<'_>) -> Result<Progress> {
        let Self { follower, teller, lost } = self;
        for (path, notice) in lost.drain(..) {
            teller.notice(&path, notice, each)?;
        }
        let mut told = Ok(());
        let progress = follower.poll(&mut |event| {
            if told.is_ok() {
                told = teller.event(&event, each);
            }
        })?;
        told.map(|()| progress)
    }

    /// Waits until something may have changed, or the bell rings, at most `timeout`.
    pub fn wait(&mut self, timeout: Duration) {
        self.follower.wait(timeout);
    }
}

impl Teller {
    fn event(&mut self, event: &RootEvent<'_>, each: Each<'_>) -> Result<()> {
        match event {
            RootEvent::Item { path, item } => match self.entry(*item) {
                Entry::Line(line) => return self.line(path, &line, each),
                Entry::Damaged { start, end, reason } => {
                    self.notice(path, Notice::Damaged { start, end, reason }, each)?;
                }
                // A single item never tells of a loss.
                Entry::Lost(_) | Entry::LostEarlier(_) => {}
            },
            RootEvent::Reset { path, to, why } => {
                self.notice(path, Notice::Reset { to: *to, why: *why }, each)?;
                // What was told may have been all that is known of it.
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

    /// What stands there. Of others' lines everything is shown that can be made sense of, as in a replay.
    fn entry<'b>(&self, item: Item<'b>) -> Entry<'b> {
        match item {
            Item::Line(line) if self.store.is_none() => Entry::Line(line),
            other => Entry::of(other, self.line_bytes_max),
        }
    }

    fn line(&mut self, path: &Path, line: &Line<'_>, each: Each<'_>) -> Result<()> {
        let (store, view) = (self.store.as_ref(), self.view);
        let Voice { source, replay, .. } = self.known.get_or(path, || {
            let replay = Replay::new(None, view);
            let replay = if line.start == Position::ZERO { replay } else { replay.from_within() };
            Ok(Voice::new(source_of(store, path)?, replay))
        })?;
        if is_renaming(line.bytes) {
            *source = source_of(store, path)?;
        }
        let told: std::result::Result<(), Infallible> = replay.line(line, &mut |told| {
            each(Streamed::Told { source, told });
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

/// Whether a line may tell that its session is called otherwise from now on. To ask once too often does no harm.
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
        Skip::NotAFile => "it is a link, a pipe or a device".to_owned(),
        Skip::Cold => "it is compressed".to_owned(),
        Skip::TooMany => "more logs are here than are followed at once".to_owned(),
        Skip::TooDeep => "it is too many directories down".to_owned(),
    }
}
