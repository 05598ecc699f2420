//! How to open a store.

use std::sync::Arc;
use std::time::Duration;

use duolog_log::dialect::prices::Prices;
use duolog_state::StoreAddress;
use duolog_types::limits::{CHAT_IDLE, Limits};
use duolog_types::{Clock, SystemClock};

use crate::config::{Config, WorkflowSetting};
use crate::home::Home;
use crate::schedules::BaseSchedule;

/// What the caller wants to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Read and write.
    Write,
    /// Read. Where the home can be written, what a crash left is mended and derived rows are brought up to date all the
    /// same; where it cannot, it is read as it is.
    Read,
}

/// Whether a thread folds while the store is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Background {
    /// A thread keeps derived rows near the log: for processes that stay.
    Fold,
    /// Nothing runs by itself; closing folds a small backlog: for one-shot commands.
    Nothing,
}

/// How to open a store.
#[derive(Clone)]
pub struct StoreOptions {
    /// Which. Its directory holds the logs, the home's id and the locks of processes, wherever the state is.
    pub home: Home,
    /// Where the state is: in the home, or elsewhere. Any number of homes may share one.
    pub store: StoreAddress,
    /// For what.
    pub access: Access,
    /// Limits.
    pub limits: Limits,
    /// What models cost.
    pub prices: Prices,
    /// What fires when, where nothing is said over it.
    pub schedules: Vec<BaseSchedule>,
    /// The workflows that the configuration speaks of: each is as it says, where nothing is said over it.
    pub workflows: Vec<WorkflowSetting>,
    /// How long a chat may be silent and still be the same one.
    pub chat_idle: Duration,
    /// Whether a thread folds.
    pub background: Background,
    /// Where the time comes from.
    pub clock: Arc<dyn Clock>,
}

impl StoreOptions {
    /// Reads and writes the store of a home, with the default limits and a folding thread.
    pub fn at(home: Home) -> Self {
        Self {
            home,
            store: StoreAddress::Home,
            access: Access::Write,
            limits: Limits::default(),
            prices: Prices::builtin(),
            schedules: Vec::new(),
            workflows: Vec::new(),
            chat_idle: CHAT_IDLE,
            background: Background::Fold,
            clock: Arc::new(SystemClock),
        }
    }

    /// With the limits, the prices, the schedules, the workflows and the address of a configuration. What an append
    /// survives is said with each append: [`Config::durability`].
    #[must_use]
    pub fn configured(mut self, config: &Config) -> Self {
        self.limits = config.limits();
        self.prices = config.prices().clone();
        self.store = config.store().clone();
        self.schedules = config.schedules().to_vec();
        self.workflows = config.workflows().to_vec();
        self.chat_idle = config.chat_idle();
        self
    }

    /// With the state at another place.
    #[must_use]
    pub fn with_store(mut self, store: StoreAddress) -> Self {
        self.store = store;
        self
    }

    /// For reading.
    #[must_use]
    pub fn for_reading(mut self) -> Self {
        self.access = Access::Read;
        self
    }

    /// Without a thread of its own.
    #[must_use]
    pub fn one_shot(mut self) -> Self {
        self.background = Background::Nothing;
        self
    }
}
