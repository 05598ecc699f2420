//! An open store.

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

/// How many bytes a process folds on its way out; more would keep it waiting, and the next reader does that.
///
/// Even one line is folded, though that costs a sync: what no row names could be taken away by hand without a trace.
const FOLD_ON_CLOSE_BYTES: u64 = 4 << 20;

/// An open store: a handle that clones cheaply and goes wherever it is needed.
///
/// Clones are the same opening. Every handle that a store gives out (`Runs`, `Log`, `Follow`, …) owns a clone, so it may live in
/// a thread, in a task or in an object of another language. When the last of them is dropped the store closes: a small backlog
/// is folded, and everything else is left as it is.
///
/// # Examples
///
/// Calls block, so async code makes them on a thread for blocking work:
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
#[must_use = "the last handle that is dropped closes the store"]
pub struct Store {
    pub(crate) join: Arc<Join>,
    pub(crate) core: Arc<Core>,
    /// The request that this handle serves; see [`Store::once`].
    request: Option<Arc<Request>>,
}

/// What all clones of a store share.
pub(crate) struct Core {
    join: Arc<Join>,
    pub(crate) home: Home,
    pub(crate) prices: Prices,
    pub(crate) schedules: Vec<BaseSchedule>,
    pub(crate) base_workflows: Arc<BaseWorkflows>,
    pub(crate) chat_idle: Duration,
    /// The search index, once a search has opened it and while none is using it.
    pub(crate) index: Mutex<Option<Index>>,
    /// The observers that are called when a run ends.
    pub(crate) observers: Observers,
    warnings: Vec<String>,
    folder: Mutex<Option<Folder>>,
    is_closed: AtomicBool,
}

/// One request under an operation id.
struct Request {
    key: IdempotencyKey,
    /// Whether its change was made through this handle.
    is_done: AtomicBool,
}

/// Why a store without a home cannot be read: its server may have no tables either, and then those are to be made.
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
    /// Opens a store, making it on first use, and mends what a crash left.
    pub fn open(options: StoreOptions) -> Result<Self> {
        let StoreOptions { home, store, access, limits, prices, schedules, workflows, chat_idle, background, clock } =
            options;
        if !clock.is_usable() {
            return Err(Error::Io(Io::ClockBefore1970));
        }
        let address = store.or_in(&home.state);
        let place = address.to_string();
        // Who only reads makes nothing: a mistyped path would look like an empty home.
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
            state.reading = Reading::Lent;
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

    /// The sessions.
    pub fn sessions(&self) -> Sessions {
        Sessions { store: self.clone(), operation: None, resolved: None }
    }

    /// The log of one session.
    pub fn log(&self, session: &SessionId) -> Log {
        Log { store: self.clone(), session: session.clone() }
    }

    /// Every log of this home as one stream: what is there from `start` on, and then what comes.
    pub fn stream(&self, start: Start, view: ReplayDetail) -> Result<Stream> {
        Stream::of_home(self, start, view)
    }

    /// The runs of workflows.
    pub fn runs(&self) -> Runs {
        Runs { store: self.clone(), durability: Durability::Power }
    }

    /// What runs wait for people to say.
    pub fn approvals(&self) -> Approvals {
        Approvals { store: self.clone(), durability: Durability::Power }
    }

    /// Which workflows there are, and which may be started.
    pub fn workflows(&self) -> Workflows {
        Workflows { store: self.clone() }
    }

    /// The search over all logs.
    pub fn search(&self) -> Search {
        Search { store: self.clone() }
    }

    /// The state store: figures, rebuilding, copies.
    pub fn state(&self) -> State {
        State { store: self.clone() }
    }

    /// What was used: tokens, and what they cost.
    pub fn usage(&self) -> Usage {
        Usage::of_store(self.clone())
    }

    /// What fires when, and what came of it.
    pub fn schedules(&self) -> Schedules {
        Schedules { store: self.clone(), actor: None }
    }

    /// Chats with people on platforms.
    pub fn chats(&self) -> Chats {
        Chats { store: self.clone() }
    }

    /// Looks whether all is well.
    pub fn doctor(&self) -> Doctor {
        Doctor { store: self.clone() }
    }

    /// Which home this is.
    pub fn home(&self) -> &Home {
        &self.core.home
    }

    /// Where the state is, for people: a database file, or a server's address without its password.
    pub fn place(&self) -> String {
        self.join.state().place()
    }

    /// The home's id, which its logs and rows carry.
    pub fn home_id(&self) -> HomeId {
        self.join.home()
    }

    /// The present time by the clock of the state: the server's clock if the state is on one, else the machine's. For what
    /// several machines compare.
    ///
    /// # Errors
    ///
    /// Returns an error if the server cannot be asked.
    pub fn now(&self) -> Result<Timestamp> {
        let clock = self.join.tx_clock();
        Ok(self.join.state().read(|tx| clock.now(tx))?)
    }

    /// Whether this store can be written.
    pub fn is_writable(&self) -> bool {
        self.join.is_writable()
    }

    /// What a person should know about how the home was found.
    pub fn warnings(&self) -> &[String] {
        &self.core.warnings
    }

    /// Returns a handle for one request under an operation id: its change is made once, however often it is asked for.
    ///
    /// The scope names the kind of request, and `request` is everything that makes it another request if it differs. The change
    /// that is made through the handle is recorded with its answer. A later handle with the same scope, id and request makes no
    /// change and returns that answer, in this process or another, for at least 30 days; another request under the same id is
    /// refused as a conflict.
    ///
    /// A handle makes one change. After a failed one the same handle may try again; after a successful one a second change
    /// through it is refused, because no record would keep the two apart. Reading is free. The store that this is called on
    /// stays as it was: threads that share it never see each other's requests.
    ///
    /// # Errors
    ///
    /// Returns an error if the request cannot be written as JSON.
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

    /// Returns a handle whose next change is made under this key; `None` if under none.
    pub(crate) fn under(&self, key: Option<IdempotencyKey>) -> Self {
        let request = key.map(|key| Arc::new(Request { key, is_done: AtomicBool::new(false) }));
        Self { request, ..self.clone() }
    }

    /// Returns the key of the request that this handle serves; `None` if it serves none.
    ///
    /// # Errors
    ///
    /// Returns an error if the change of the request was made.
    pub(crate) fn request_key(&self) -> Result<Option<IdempotencyKey>> {
        match self.request.as_deref() {
            Some(Request { is_done, .. }) if is_done.load(Ordering::Acquire) => Err(Error::Invalid(Invalid::Value {
                what: "operation id",
                why: "was used: a handle of Store::once makes one change".to_owned(),
            })),
            request => Ok(request.map(|request| request.key.clone())),
        }
    }

    /// Notes that the change of the request was made.
    pub(crate) fn end_request(&self) {
        if let Some(request) = &self.request {
            request.is_done.store(true, Ordering::Release);
        }
    }

    /// Returns the answer that the request of this handle got when it was carried out; `None` if it was not.
    pub(crate) fn answer_to_request<T: DeserializeOwned>(&self) -> Result<Option<T>> {
        Ok(self.request.as_ref().map_or(Ok(None), |request| self.join.answer_to(&request.key))?)
    }

    /// Returns the operation id of the request of this handle if the request was carried out; `None` if it was not.
    pub(crate) fn answered_request(&self) -> Result<Option<OperationId>> {
        let Some(request) = &self.request else { return Ok(None) };
        Ok(self.join.was_answered(&request.key)?.then(|| request.key.operation().clone()))
    }

    /// Closes the store for every clone and handle: folds a small backlog, then refuses every later call with
    /// [`Error::Closed`]. Dropping the last clone does the same and reports no error.
    ///
    /// A call that is running in another thread ends with its result or with that error; what it acknowledged stands. Closing
    /// twice is no error.
    ///
    /// # Errors
    ///
    /// Returns an error if the backlog cannot be folded. The store is closed either way, and the next reader folds it.
    pub fn close(self) -> Result<()> {
        self.core.close()
    }

    /// Closes the store of a process that is about to end: what ends with the process is not taken down before.
    ///
    /// # Errors
    ///
    /// As [`Store::close`].
    pub fn close_at_exit(self) -> Result<()> {
        let closed = self.core.close();
        if self.join.state().may_be_left_open() {
            std::mem::forget(self);
        }
        closed
    }

    /// Changes owned rows, as [`Join::transact`] does, with the errors of this crate.
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
    /// The thread stops first, so that nothing folds while we leave. What stays undone stays marked.
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
        // Nobody is left to tell; what was not folded stays marked.
        let _ = self.close();
    }
}

/// Whether one who only reads may write a state outside its home. A database that is not there is not made for it.
fn may_write_at(address: &Address) -> bool {
    match address {
        Address::Directory(directory) => directory.join("state.db").exists() && may_write(directory),
        Address::Server(_) => true,
    }
}
