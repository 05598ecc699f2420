//! An open store.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use duolog_join::{
    Error as JoinError, Folder, IdempotencyKey, Join, OpenJoin, Told, Write, may_write, prepare, prepare_read_only,
};
use duolog_log::dialect::prices::Prices;
use duolog_search::Index;
use duolog_state::{Access as StateAccess, Address, Error as StateError, Migrate, OpenState, Reading, Tx};
use duolog_types::{Durability, HomeId, Moment, OperationId, SessionId};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::approvals::Approvals;
use crate::chats::Chats;
use crate::doctor::Doctor;
use crate::error::{Error, Result};
use crate::home::Home;
use crate::log::{Log, Start, Stream, View};
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

/// An open store. Threads share it; when it goes, a small backlog is folded and everything else is left as it is.
pub struct Store {
    pub(crate) join: Arc<Join>,
    pub(crate) home: Home,
    pub(crate) prices: Prices,
    pub(crate) schedules: Vec<BaseSchedule>,
    pub(crate) base_workflows: Arc<BaseWorkflows>,
    pub(crate) chat_idle: Duration,
    /// The search index, once a search has opened it and while none is using it.
    pub(crate) index: Mutex<Option<Index>>,
    /// Who is told when a run comes to its end.
    pub(crate) observers: Observers,
    /// The request that this store serves, until its change is made.
    request: Mutex<Option<IdempotencyKey>>,
    warnings: Vec<String>,
    folder: Option<Folder>,
    left: bool,
}

impl Store {
    /// Opens a store, making it on first use, and mends what a crash left.
    pub fn open(options: StoreOptions) -> Result<Self> {
        let StoreOptions { home, store, access, limits, prices, schedules, workflows, chat_idle, background, clock } =
            options;
        if !clock.is_usable() {
            return Err(Error::ClockBefore1970);
        }
        let address = store.or_in(&home.state);
        let place = address.to_string();
        // Who only reads makes nothing: a mistyped path would look like an empty home.
        let reads = access == Access::Read;
        let may_write_home = !reads || (home.state.exists() && may_write(&home.state));
        let prepared = if may_write_home { prepare(&home.state)? } else { prepare_read_only(&home.state)? };
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
            Background::Fold if join.is_writable() => Some(Folder::start(&join).map_err(crate::Error::Thread)?),
            _ => None,
        };
        let (index, warnings) = (Mutex::new(None), warnings.into_iter().collect());
        let observers = Observers::default();
        let base_workflows = Arc::new(workflows.into_iter().map(|one| (one.name.clone(), one)).collect());
        Ok(Self {
            join,
            home,
            prices,
            schedules,
            base_workflows,
            chat_idle,
            index,
            observers,
            request: Mutex::default(),
            warnings,
            folder,
            left: false,
        })
    }

    /// The sessions.
    pub fn sessions(&self) -> Sessions<'_> {
        Sessions { store: self, operation: None, resolved: None }
    }

    /// The log of one session.
    pub fn log(&self, session: &SessionId) -> Log<'_> {
        Log { store: self, session: session.clone() }
    }

    /// Every log of this home as one stream: what is there from `start` on, and then what comes.
    pub fn stream(&self, start: Start, view: View) -> Result<Stream<'_>> {
        Stream::of_home(self, start, view)
    }

    /// The runs of workflows.
    pub fn runs(&self) -> Runs<'_> {
        Runs { store: self, durability: Durability::Power }
    }

    /// What runs wait for people to say.
    pub fn approvals(&self) -> Approvals<'_> {
        Approvals { store: self, durability: Durability::Power }
    }

    /// Which workflows there are, and which may be started.
    pub fn workflows(&self) -> Workflows<'_> {
        Workflows { store: self }
    }

    /// The search over all logs.
    pub fn search(&self) -> Search<'_> {
        Search { store: self }
    }

    /// The state store: figures, rebuilding, copies.
    pub fn state(&self) -> State<'_> {
        State { store: self }
    }

    /// What was used: tokens, and what they cost.
    pub fn usage(&self) -> Usage<'_> {
        Usage { store: self }
    }

    /// What fires when, and what came of it.
    pub fn schedules(&self) -> Schedules<'_> {
        Schedules { store: self, actor: None }
    }

    /// Chats with people on platforms.
    pub fn chats(&self) -> Chats<'_> {
        Chats { store: self }
    }

    /// Looks whether all is well.
    pub fn doctor(&self) -> Doctor<'_> {
        Doctor { store: self }
    }

    /// Which home this is.
    pub fn home(&self) -> &Home {
        &self.home
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
    pub fn now(&self) -> Result<Moment> {
        let clock = self.join.tx_clock();
        Ok(self.join.state().read(|tx| clock.now(tx))?)
    }

    /// Whether this store can be written.
    pub fn is_writable(&self) -> bool {
        self.join.is_writable()
    }

    /// What a person should know about how the home was found.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Makes the next change of rows once under an operation id, however often it is asked for.
    ///
    /// For a process that serves one request and ends. The scope names what is asked for, and `request` is everything that
    /// makes it another request if it differs. Asked again, the change is not made, and its answer is the one it got then;
    /// another request under the same id is a conflict.
    pub fn once(&self, scope: &str, operation: &OperationId, request: &impl Serialize) -> Result<()> {
        let key = IdempotencyKey::new(scope, operation, request)?;
        *self.request.lock().unwrap_or_else(PoisonError::into_inner) = Some(key);
        Ok(())
    }

    /// Makes the next change of rows under this key.
    pub(crate) fn put_request(&self, key: Option<IdempotencyKey>) {
        *self.request.lock().unwrap_or_else(PoisonError::into_inner) = key;
    }

    /// Returns the key of the request that this store serves, if its change was not made yet.
    pub(crate) fn take_request(&self) -> Option<IdempotencyKey> {
        self.request.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Returns the answer that the request of this store got when it was carried out; `None` if it was not.
    pub(crate) fn answer_to_request<T: DeserializeOwned>(&self) -> Result<Option<T>> {
        let key = self.request.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Ok(key.as_ref().map_or(Ok(None), |key| self.join.answer_to(key))?)
    }

    /// Whether the next change has a key.
    pub(crate) fn has_request(&self) -> bool {
        self.request.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Closes the store and says whether that went well; dropping it does the same without a word.
    pub fn close(mut self) -> Result<()> {
        self.leave()
    }

    /// Closes the store of a process that is about to end: what ends with the process is not taken down before.
    pub fn close_at_exit(mut self) -> Result<()> {
        let left = self.leave();
        if self.join.state().may_be_left_open() {
            std::mem::forget(self);
        }
        left
    }

    /// Changes owned rows, as [`Join::transact`] does, with the errors of this crate.
    pub(crate) fn transact<T>(
        &self,
        how: impl Into<Write>,
        f: impl FnMut(&mut Tx<'_>) -> Result<(T, Vec<Told>)> + Send + 'static,
    ) -> Result<T>
    where
        T: Serialize + DeserializeOwned + Send + 'static,
    {
        let Write { durability, key } = how.into();
        let key = key.or_else(|| self.take_request());
        self.join.transact(Write::once(durability, key), f)
    }

    /// The thread stops first, so that nothing folds while we leave. What stays undone stays marked.
    fn leave(&mut self) -> Result<()> {
        self.folder = None;
        self.left = true;
        Ok(self.join.leave(FOLD_ON_CLOSE_BYTES)?)
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        if !self.left {
            let _ = self.leave();
        }
    }
}

/// Whether one who only reads may write a state outside its home. A database that is not there is not made for it.
fn may_write_at(address: &Address) -> bool {
    match address {
        Address::Directory(directory) => directory.join("state.db").exists() && may_write(directory),
        Address::Server(_) => true,
    }
}
