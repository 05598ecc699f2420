//! Following a session from a cursor: each position is delivered once, with a reset if delivered lines are gone.
//!
//! All surfaces wait the same way: on a bell, which writers in this process ring through the feed, and the system rings
//! for writers in others. If the disk has no file notification, it is polled.

use std::sync::Arc;
use std::time::Duration;

use duolog_log::{Bell, Error as LogError, Follower, Item, Pace, Place, Polled, Reader};
use duolog_types::{Cursor, Epoch, Position, SessionId, mutant, mutant::Mutant};

use crate::error::{Error, Result};
use crate::feed::Subscription;
use crate::life::kept_to;
use crate::store::Join;

/// The result of one poll of a follower.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// Nothing new.
    Idle,
    /// Lines were delivered; there may be more.
    Delivered,
    /// Delivered lines are gone. Following continues from this cursor.
    Reset(Cursor),
}

/// A follower of one session. It keeps the join open.
pub struct Follow {
    join: Arc<Join>,
    session: SessionId,
    epoch: Epoch,
    place: Place,
    /// The file of the epoch, held open so that no other file can get its inode.
    file: Option<Reader>,
    follower: Follower,
    _subscription: Subscription,
    /// A reset to report before anything else.
    stale: Option<Cursor>,
}

impl Join {
    /// Follows a session from a cursor, or from its first line.
    pub fn follow(self: &Arc<Self>, session: &SessionId, from: Option<Cursor>) -> Result<Follow> {
        let known = self.known(session)?;
        self.own(&known.row)?;
        let epoch = known.row.log_epoch;
        let (start, stale) = match from {
            None => (known.row.log_base, None),
            Some(cursor) if cursor.epoch == epoch => (cursor.position, None),
            Some(cursor) => {
                let position = self.last_good(session, cursor, epoch)?.max(known.row.log_base);
                // A repair that kept all delivered lines is no reset.
                (position, (position != cursor.position).then_some(Cursor { epoch, position }))
            }
        };
        if let Some(reader) = self.reader(session)? {
            // A position inside a line is the caller's mistake; it is reported at once.
            reader.lines(start, start, self.limits.line_bytes_max)?;
        } else if start > known.row.log_base {
            return Err(duolog_log::Error::BeyondEnd { position: start, end: known.row.log_base }.into());
        }
        let (timeout, line_bytes_max) = (self.limits.busy_timeout, self.limits.line_bytes_max);
        let mut follower = Follower::new(&self.disk, &known.place(), start, timeout, line_bytes_max);
        if let Some(root) = self.disk.local_root() {
            follower = follower.with_hints(&self.hints, root);
        }
        let subscription = self.feed.subscribe(session, follower.bell());
        Ok(Follow {
            join: Arc::clone(self),
            session: session.clone(),
            epoch,
            place: known.place(),
            file: None,
            follower,
            _subscription: subscription,
            stale,
        })
    }

    /// Returns the last position that a cursor of another epoch has seen and that is still valid.
    fn last_good(&self, session: &SessionId, cursor: Cursor, epoch: Epoch) -> Result<Position> {
        // Every epoch in between ended with a record of what was kept; without a record nothing is certain. Nothing is
        // known about a later epoch.
        let repairs = self.repairs_of(session)?;
        let mut good = if cursor.epoch < epoch { cursor.position } else { Position::ZERO };
        for ended in cursor.epoch.0..epoch.0 {
            let of_epoch = repairs.iter().map(|row| &row.repair).filter(|repair| repair.epoch == Epoch(ended));
            let kept_end = of_epoch.filter_map(|repair| kept_to(repair.action, repair.position)).min();
            good = good.min(kept_end.unwrap_or(Position::ZERO));
            if good == Position::ZERO {
                break;
            }
        }
        Ok(good)
    }
}

impl Follow {
    /// Sets the pace of polling.
    #[must_use]
    pub fn at_pace(mut self, pace: Pace) -> Self {
        self.follower = self.follower.at_pace(pace);
        self
    }

    /// Returns the bell that wakes this follower.
    pub fn bell(&self) -> Bell {
        self.follower.bell()
    }

    /// Returns the cursor after the last delivered line.
    pub fn cursor(&self) -> Cursor {
        Cursor { epoch: self.epoch, position: self.follower.position() }
    }

    /// Delivers new stable lines.
    pub fn poll(&mut self, each: &mut dyn FnMut(Item<'_>)) -> Result<Seen> {
        self.join.state.check()?;
        if let Some(cursor) = self.stale.take() {
            return Ok(Seen::Reset(cursor));
        }
        let polled = match self.meet_file().and_then(|reset| match reset {
            Some(cursor) => Ok(Err(cursor)),
            None => Ok(Ok(self.follower.poll(each)?)),
        }) {
            // A writer holds its lock for too long: nothing after the last delivered line is stable.
            Err(Error::Log(LogError::Busy { .. })) => return Ok(Seen::Idle),
            other => other?,
        };
        let polled = match polled {
            Ok(polled) => polled,
            Err(cursor) => return Ok(Seen::Reset(cursor)),
        };
        Ok(match polled {
            Polled::Idle => Seen::Idle,
            Polled::Delivered => Seen::Delivered,
            Polled::Reset { to, .. } => {
                self.epoch = self.new_epoch()?;
                Seen::Reset(Cursor { epoch: self.epoch, position: to })
            }
        })
    }

    /// Checks whether another file is at the path, and its epoch: its lines may be equal to delivered ones and still be
    /// others. Returns a cursor if delivered lines are not in it.
    ///
    /// A process that unlinks a file raises the epoch first, both under the file's lock. So a file that is still at its
    /// path under the lock belongs to the epoch in the state.
    fn meet_file(&mut self) -> Result<Option<Cursor>> {
        let path = &self.place.path;
        let at_path = self.join.disk.stat(path).map_err(LogError::io("examine", path))?.map(|stat| stat.ident);
        if at_path.is_none() {
            self.file = None;
        }
        if at_path == self.file.as_ref().map(Reader::ident) || mutant::is(Mutant::FollowerKeepsEpoch) {
            self.follower.read_only(at_path);
            return Ok(None);
        }
        let Some(reader) = Reader::open(&self.join.disk, &self.place)? else { return Ok(None) };
        let known = reader.while_current(self.join.limits.busy_timeout, || self.join.known(&self.session))?;
        // The file was replaced again; the next poll finds the new one.
        let Some(known) = known.transpose()? else { return Ok(None) };
        if known.row.unlink_due {
            // A file of the previous epoch that a deletion has yet to unlink. The current epoch has no file.
            self.follower.read_only(None);
            return Ok(None);
        }
        let (before, epoch) = (self.cursor(), known.row.log_epoch);
        self.epoch = epoch;
        self.follower.read_only(Some(reader.ident()));
        self.file = Some(reader);
        if before.epoch == epoch {
            return Ok(None);
        }
        let position = self.join.last_good(&self.session, before, epoch)?.max(known.row.log_base);
        if position == before.position {
            return Ok(None);
        }
        self.follower.go_back(position);
        Ok(Some(self.cursor()))
    }

    /// Waits until the log may have changed or the bell rings, at most `timeout`.
    pub fn wait(&mut self, timeout: Duration) {
        self.follower.wait(timeout);
    }

    /// Returns the epoch after a reset. The first process that notices the change records it; a read-only home only
    /// reads it.
    fn new_epoch(&self) -> Result<Epoch> {
        if self.join.is_writable() {
            match self.join.fold(&self.session, 0) {
                Ok(_) | Err(Error::Log(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(self.join.known(&self.session)?.row.log_epoch)
    }
}
