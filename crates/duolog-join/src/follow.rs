//! Following a session from a cursor: each position once, and a reset where what was seen is no longer there.
//!
//! There is one way to wait, for every surface: a bell, rung by writers in this process through the feed and by the
//! system for those in others. Where the disk cannot be heard, it is looked at now and then.

use std::sync::Arc;
use std::time::Duration;

use duolog_log::{Bell, Error as LogError, Follower, Item, Pace, Place, Polled, Reader};
use duolog_types::{Cursor, Epoch, Position, SessionId, mutant, mutant::Mutant};

use crate::error::{Error, Result};
use crate::feed::Subscription;
use crate::life::kept_to;
use crate::store::Join;

/// What one look at a followed session gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// Nothing new.
    Idle,
    /// Lines were delivered; there may be more.
    Delivered,
    /// Lines that were seen are gone. Following goes on from this cursor.
    Reset(Cursor),
}

/// A follower of one session. It keeps the join open.
pub struct Follow {
    join: Arc<Join>,
    session: SessionId,
    epoch: Epoch,
    place: Place,
    /// The file that the epoch is of; held open, so that no other can get its inode.
    file: Option<Reader>,
    follower: Follower,
    _subscription: Subscription,
    /// A reset that is to be told before anything else.
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
                // A repair that kept all that was seen is no reset.
                (position, (position != cursor.position).then_some(Cursor { epoch, position }))
            }
        };
        if let Some(reader) = self.reader(session)? {
            // A position inside a line is the caller's mistake, and is said at once.
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

    /// The last position that a cursor of another epoch saw and that still holds.
    fn last_good(&self, session: &SessionId, cursor: Cursor, epoch: Epoch) -> Result<Position> {
        // Every epoch in between ended with a record that says what outlived it; without one nothing is certain. Of an
        // epoch that is still to come nothing is known here.
        let repairs = self.repairs_of(session)?;
        let mut good = if cursor.epoch < epoch { cursor.position } else { Position::ZERO };
        for ended in cursor.epoch.0..epoch.0 {
            let of_epoch = repairs.iter().map(|row| &row.repair).filter(|repair| repair.epoch == Epoch(ended));
            let kept = of_epoch.filter_map(|repair| kept_to(repair.action, repair.position)).min();
            good = good.min(kept.unwrap_or(Position::ZERO));
            if good == Position::ZERO {
                break;
            }
        }
        Ok(good)
    }
}

impl Follow {
    /// Looks at another pace.
    #[must_use]
    pub fn at_pace(mut self, pace: Pace) -> Self {
        self.follower = self.follower.at_pace(pace);
        self
    }

    /// What wakes this follower, for whoever wants it to look, or to end.
    pub fn bell(&self) -> Bell {
        self.follower.bell()
    }

    /// The cursor after the last line delivered.
    pub fn cursor(&self) -> Cursor {
        Cursor { epoch: self.epoch, position: self.follower.position() }
    }

    /// Delivers what is new and stable.
    pub fn poll(&mut self, each: &mut dyn FnMut(Item<'_>)) -> Result<Seen> {
        self.join.state.check()?;
        if let Some(cursor) = self.stale.take() {
            return Ok(Seen::Reset(cursor));
        }
        let polled = match self.meet_file().and_then(|reset| match reset {
            Some(cursor) => Ok(Err(cursor)),
            None => Ok(Ok(self.follower.poll(each)?)),
        }) {
            // A writer that sleeps inside its lock: nothing is stable above what we have.
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

    /// Looks whether another file stands at the path, and of which epoch it is: its lines may be equal to those that were
    /// delivered, and still be others. Returns a cursor if lines that were delivered are not in it.
    ///
    /// Whoever takes a file away raises the epoch first, both under its lock. So a file that is still in its place under
    /// the lock is the one of the epoch that the state names.
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
        // Another by now: the next look meets that one.
        let Some(known) = known.transpose()? else { return Ok(None) };
        if known.row.unlink_due {
            // A file of the previous epoch, which a deletion has still to unlink: there is none of this one.
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

    /// Waits until the log may have changed, or the bell rings, at most `timeout`.
    pub fn wait(&mut self, timeout: Duration) {
        self.follower.wait(timeout);
    }

    /// The epoch after a reset. Whoever sees the change first records it; a reader of a read-only home just reads it.
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
