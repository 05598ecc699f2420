//! The open store.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use duolog_join::{
    Error as JoinError, Folder, HomeError, IdempotencyKey, Join, OpenJoin, OutboxLine, Write, may_write, prepare,
    prepare_read_only,
};
use duolog_log::dialect::prices::Prices;
use duolog_search::Index;
use duolog_state::{Access as StateAccess, Address, Error as StateError, Migrate, OpenState, Reading, Tx};
use duolog_types::limits::Limits;
use duolog_types::{Durability, HomeId, OperationId, SessionId, Timestamp};
use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::approvals::Approvals;
use crate::chats::Chats;
use crate::doctor::Doctor;
use crate::error::{Error, Invalid, Io, Result};
use crate::home::Home;
use crate::log::{Log, ReplayDetail, Start, Stream};
use crate::options::{Access, Background, StoreOptions};
use crate::runs::{Observers, Runs};
use crate::schedules::{BaseSchedule, Schedules};
use crate::search::Search;
use crate::sessions::Sessions;
use crate::state::State;
use crate::usage::Usage;
use crate::workflows::{BaseWorkflows, Workflows};

/// Backlog in bytes up to which closing a store folds; a larger backlog is left to the next reader.
///
/// Even a backlog of one line is folded, although that costs a sync: a line without a row could be removed by hand
/// unnoticed.
const FOLD_ON_CLOSE_BYTES: u64 = 4 << 20;

/// An open store. Cloning the handle is cheap.
///
/// All clones share one open store. Every handle that a store returns (`Runs`, `Log`, `Follow`, …) owns a clone, so it
/// may move to a thread, a task or an object of another language. Dropping the last handle closes the store, which
/// folds a small backlog.
///
/// # Examples
///
/// Calls block, so async code calls them on a thread for blocking work:
///
/// ```
/// use duolog::{Home, Store, StoreOptions};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path();
/// let store = Store::open(StoreOptions::at(Home::beneath(path)))?;
/// let runtime = tokio::runtime::Builder::new_current_thread().build()?;
/// let session = runtime.block_on(async {
///     let sessions = store.sessions();
///     tokio::task::spawn_blocking(move || sessions.open_thread("async")).await
/// })??;
/// assert_eq!(session.name.as_deref(), Some("async"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use = "dropping the last handle closes the store"]
pub struct Store {
    pub(crate) join: Arc<Join>,
    pub(crate) core: Arc<Core>,
    /// The request that this handle serves. See [`Store::once`].
    request: Option<Arc<Request>>,
}

/// The state that all clones of a store share.
pub(crate) struct Core {
    join: Arc<Join>,
    pub(crate) home: Home,
    pub(crate) prices: Prices,
    pub(crate) schedules: Vec<BaseSchedule>,
    pub(crate) base_workflows: Arc<BaseWorkflows>,
    pub(crate) chat_idle: Duration,
    /// The search index: `None` before the first search and while a search uses it.
    pub(crate) index: Mutex<Option<Index>>,
    /// The observers that are called when a run ends.
    pub(crate) observers: Observers,
    warnings: Vec<String>,
    folder: Mutex<Option<Folder>>,
    is_closed: AtomicBool,
}

/// A request under an operation id.
struct Request {
    key: IdempotencyKey,
    /// True after the change of the request was made through this handle.
    is_done: AtomicBool,
}

/// Returns the error for a missing home. If the state is on a server that has no tables, returns the error for a
/// missing state, because its hint creates both.
fn without_home(error: HomeError, address: &Address, limits: &Limits) -> Error {
    if !matches!((&error, address), (HomeError::Missing(_), Address::Server(_))) {
        return error.into();
    }
    let mut state = OpenState::address(address.clone()).busy_timeout(limits.busy_timeout);
    (state.migrate, state.access) = (Migrate::No, StateAccess::ReadOnly);
    match duolog_state::State::open(state) {
        Err(missing @ StateError::Missing { .. }) => JoinError::from(missing).into(),
        _ => error.into(),
    }
}

impl Store {
    /// Opens a store and repairs what a crash left. If the store does not exist, it is created, unless it is opened for
    /// reading.
    ///
    /// # Errors
    ///
    /// Returns an error if the home or the state cannot be opened, if it does not exist and is opened for reading, or
    /// if the clock of the machine is before 1970.
    pub fn open(options: StoreOptions) -> Result<Self> {
        let StoreOptions { home, store, access, limits, prices, schedules, workflows, chat_idle, background, clock } =
            options;
        if !clock.is_usable() {
            return Err(Error::Io(Io::ClockBefore1970));
        }
        let address = store.or_in(&home.state);
        let place = address.to_string();
        // A reader creates nothing: a mistyped path would look like an empty home.
        let reads = access == Access::Read;
        let may_write_home = !reads || (home.state.exists() && may_write(&home.state));
        let prepared = if may_write_home {
            prepare(&home.state)?
        } else {
            prepare_read_only(&home.state).map_err(|missing| without_home(missing, &address, &limits))?
        };
        let is_apart = address != Address::Directory(home.state.clone());
        let writable = may_write_home && !(reads && is_apart && !may_write_at(&address));
        let mut state = OpenState::address(address).busy_timeout(limits.busy_timeout);
        if reads && is_apart {
            state.migrate = Migrate::No;
        }
        if background == Background::Nothing {
            state.reading = Reading::WriterConnection;
        }
        if !writable {
            state.access = StateAccess::ReadOnly;
        }
        let owned_by = prepared.foreign_owner;
        let warnings = owned_by.map(|uid| format!("{} is owned by user {uid}, not by you", home.state.display()));
        let join =
            Join::open(OpenJoin { state, disk: prepared.disk, home: prepared.id, limits, clock, boot: prepared.boot });
        let join = join.map_err(|error| match error {
            JoinError::State(StateError::NeedsMigration { found: 0, .. }) => StateError::Missing { place }.into(),
            other => other,
        })?;
        let folder = match background {
            Background::Fold if join.is_writable() => {
                Some(Folder::start(&join).map_err(|error| crate::Error::Io(Io::Thread(error)))?)
            }
            _ => None,
        };
        let core = Core {
            join: Arc::clone(&join),
            home,
            prices,
            schedules,
            base_workflows: Arc::new(workflows.into_iter().map(|one| (one.name.clone(), one)).collect()),
            chat_idle,
            index: Mutex::new(None),
            observers: Observers::default(),
            warnings: warnings.into_iter().collect(),
            folder: Mutex::new(folder),
            is_closed: AtomicBool::new(false),
        };
        Ok(Self { join, core: Arc::new(core), request: None })
    }

    /// Returns the handle for sessions.
    pub fn sessions(&self) -> Sessions {
        Sessions { store: self.clone(), operation: None, resolved: None }
    }

    /// Returns the handle for the log of one session.
    pub fn log(&self, session: &SessionId) -> Log {
        Log { store: self.clone(), session: session.clone() }
    }

    /// Returns every log of this home as one stream: the existing lines from `start` on, then new lines as they arrive.
    ///
    /// # Errors
    ///
    /// Returns an error if the stream cannot start at `start`.
    pub fn stream(&self, start: Start, view: ReplayDetail) -> Result<Stream> {
        Stream::of_home(self, start, view)
    }

    /// Returns the handle for runs of workflows.
    pub fn runs(&self) -> Runs {
        Runs { store: self.clone(), durability: Durability::Power }
    }

    /// Returns the handle for approvals: the gates that runs wait at.
    pub fn approvals(&self) -> Approvals {
        Approvals { store: self.clone(), durability: Durability::Power }
    }

    /// Returns the handle for workflows.
    pub fn workflows(&self) -> Workflows {
        Workflows { store: self.clone() }
    }

    /// Returns the handle for search over all logs.
    pub fn search(&self) -> Search {
        Search { store: self.clone() }
    }

    /// Returns the handle for the state database: statistics, rebuild and backup.
    pub fn state(&self) -> State {
        State { store: self.clone() }
    }

    /// Returns the handle for token usage and cost.
    pub fn usage(&self) -> Usage {
        Usage::of_store(self.clone())
    }

    /// Returns the handle for schedules, their overrides and their history.
    pub fn schedules(&self) -> Schedules {
        Schedules { store: self.clone(), actor: None }
    }

    /// Returns the handle for chats on platforms.
    pub fn chats(&self) -> Chats {
        Chats { store: self.clone() }
    }

    /// Returns the handle for health checks.
    pub fn doctor(&self) -> Doctor {
        Doctor { store: self.clone() }
    }

    /// Returns the home of this store.
    pub fn home(&self) -> &Home {
        &self.core.home
    }

    /// Returns the display form of the state's address: a database file, or a server's address without its password.
    pub fn place(&self) -> String {
        self.join.state().place()
    }

    /// Returns the id of the home. Its logs and rows carry it.
    pub fn home_id(&self) -> HomeId {
        self.join.home()
    }

    /// Returns the current time by the clock of the state: the server's clock if the state is on a server, otherwise
    /// the machine's clock. Use it for times that several machines compare.
    ///
    /// # Errors
    ///
    /// Returns an error if the server cannot be reached.
    pub fn now(&self) -> Result<Timestamp> {
        let clock = self.join.tx_clock();
        Ok(self.join.state().read(|tx| clock.now(tx))?)
    }

    /// Returns true if this store can be written.
    pub fn is_writable(&self) -> bool {
        self.join.is_writable()
    }

    /// Returns the warnings about the home, for the user.
    pub fn warnings(&self) -> &[String] {
        &self.core.warnings
    }

    /// Returns a handle for one request under an operation id. The change of the request is made once, even if the
    /// request is repeated.
    ///
    /// `scope` names the kind of request, and `request` is the content by which a repetition is recognised. The change
    /// that is made through the handle is recorded together with its result. A later handle with the same scope, id and
    /// request makes no change and returns the recorded result, in this process or another, for at least 30 days. A
    /// different request under the same id is refused as a conflict.
    ///
    /// A handle makes one change. After a failure, the same handle may try again; after a success, a second change
    /// through it is refused. Reads are not limited. The store that this is called on is not changed: threads that
    /// share it do not see each other's requests.
    ///
    /// # Errors
    ///
    /// Returns an error if the request cannot be serialized as JSON.
    ///
    /// # Examples
    ///
    /// ```
    /// use duolog::{Home, OperationId, Store, StoreOptions};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let directory = tempfile::tempdir()?;
    /// let store = Store::open(StoreOptions::at(Home::beneath(directory.path())))?;
    /// let operation = OperationId::parse("webhook-4711")?;
    /// for _delivery in 0..2 {
    ///     let once = store.once("disable", &operation, &"nightly")?;
    ///     assert!(once.workflows().disable("nightly", None)?, "both deliveries get the first answer");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn once(&self, scope: &str, operation: &OperationId, request: &impl Serialize) -> Result<Self> {
        Ok(self.under(Some(IdempotencyKey::new(scope, operation, request)?)))
    }

    /// Returns a handle whose next change is made under `key`.
    pub(crate) fn under(&self, key: Option<IdempotencyKey>) -> Self {
        let request = key.map(|key| Arc::new(Request { key, is_done: AtomicBool::new(false) }));
        Self { request, ..self.clone() }
    }

    /// Returns the key of the request that this handle serves; `None` if it serves no request.
    ///
    /// # Errors
    ///
    /// Returns an error if the change of the request was made already.
    pub(crate) fn request_key(&self) -> Result<Option<IdempotencyKey>> {
        match self.request.as_deref() {
            Some(Request { is_done, .. }) if is_done.load(Ordering::Acquire) => Err(Error::Invalid(Invalid::Value {
                what: "operation id",
                why: "was already used: a handle of Store::once makes one change".to_owned(),
            })),
            request => Ok(request.map(|request| request.key.clone())),
        }
    }

    /// Records that the change of the request was made.
    pub(crate) fn end_request(&self) {
        if let Some(request) = &self.request {
            request.is_done.store(true, Ordering::Release);
        }
    }

    /// Returns the recorded result of this handle's request; `None` if the request was not carried out.
    pub(crate) fn answer_to_request<T: DeserializeOwned>(&self) -> Result<Option<T>> {
        Ok(self.request.as_ref().map_or(Ok(None), |request| self.join.answer_to(&request.key))?)
    }

    /// Returns the id that a reference resolved to when the request of this handle was carried out, and the operation
    /// id; `None` if it was not carried out.
    pub(crate) fn meant_before(&self, reference: &str) -> Result<Option<(String, OperationId)>> {
        let Some(request) = &self.request else { return Ok(None) };
        let meant = self.join.meant_by(&request.key, reference)?;
        Ok(meant.map(|id| (id, request.key.operation().clone())))
    }

    /// Records the id that a reference in the request of this handle resolved to.
    pub(crate) fn mean(&self, reference: String, id: &str) {
        if let Some(request) = &self.request {
            request.key.mean(reference, id);
        }
    }

    /// Closes the store for every clone and handle: folds a small backlog, then refuses every later call with
    /// [`Error::Closed`]. Dropping the last clone also closes the store, but ignores errors.
    ///
    /// A call that is running in another thread ends with its result or with that error; changes that it acknowledged
    /// are kept. Closing a closed store is not an error.
    ///
    /// # Errors
    ///
    /// Returns an error if the backlog cannot be folded. The store is closed anyway, and the next reader folds the
    /// backlog.
    pub fn close(self) -> Result<()> {
        self.core.close()
    }

    /// Closes the store of a process that is about to exit, without freeing resources that end with the process.
    ///
    /// # Errors
    ///
    /// The same as for [`Store::close`].
    pub fn close_at_exit(self) -> Result<()> {
        let closed = self.core.close();
        if self.join.state().may_be_left_open() {
            std::mem::forget(self);
        }
        closed
    }

    /// Changes owned rows with [`Join::transact`], and converts its errors.
    pub(crate) fn transact<T>(
        &self,
        how: impl Into<Write>,
        f: impl FnMut(&mut Tx<'_>) -> Result<(T, Vec<OutboxLine>)> + Send + 'static,
    ) -> Result<T>
    where
        T: Serialize + DeserializeOwned + Send + 'static,
    {
        let Write { durability, key } = how.into();
        if key.is_some() {
            return self.join.transact(Write::once(durability, key), f);
        }
        let changed = self.join.transact(Write::once(durability, self.request_key()?), f)?;
        self.end_request();
        Ok(changed)
    }
}

impl Core {
    /// Stops the background thread first, so that it does not fold at the same time. A backlog that is left stays
    /// marked.
    fn close(&self) -> Result<()> {
        if self.is_closed.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        drop(self.folder.lock().take());
        let left = self.join.leave(FOLD_ON_CLOSE_BYTES);
        self.join.state().stop();
        Ok(left?)
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        // An error has no receiver here; a backlog that was not folded stays marked.
        let _ = self.close();
    }
}

/// Returns true if a reader may write a state outside its home. A missing database is not created for a reader.
fn may_write_at(address: &Address) -> bool {
    match address {
        Address::Directory(directory) => directory.join("state.db").exists() && may_write(directory),
        Address::Server(_) => true,
    }
}
