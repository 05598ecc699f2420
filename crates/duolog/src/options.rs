//! Options for opening a store.

use std::sync::Arc;
use std::time::Duration;

use duolog_log::dialect::prices::Prices;
use duolog_state::StoreAddress;
use duolog_types::limits::{CHAT_IDLE, Limits};
use duolog_types::{Clock, SystemClock};

use crate::config::{Config, WorkflowSetting};
use crate::home::Home;
use crate::schedules::BaseSchedule;

/// The access that the caller needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Read and write.
    Write,
    /// Read only. If the home is writable, opening still repairs what a crash left and updates derived rows; otherwise
    /// the home is read as it is.
    Read,
}

/// The background work of an open store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Background {
    /// A thread keeps derived rows close to the logs. For processes that keep running.
    Fold,
    /// No background thread. Closing the store folds a small backlog. For one-shot commands.
    Nothing,
}

/// Options for opening a store.
#[derive(Clone)]
pub struct StoreOptions {
    /// The home. Its directory holds the logs, the home's id and the process locks, even if the state is elsewhere.
    pub home: Home,
    /// The address of the state: in the home or elsewhere. Several homes may share one state.
    pub store: StoreAddress,
    /// The access that the caller needs.
    pub access: Access,
    /// The limits.
    pub limits: Limits,
    /// The prices of models.
    pub prices: Prices,
    /// The configured schedules. An override replaces the settings of a schedule.
    pub schedules: Vec<BaseSchedule>,
    /// The configured workflows. An override replaces the settings of a workflow.
    pub workflows: Vec<WorkflowSetting>,
    /// The longest silence after which a message still belongs to the same chat.
    pub chat_idle: Duration,
    /// The background work.
    pub background: Background,
    /// The clock.
    pub clock: Arc<dyn Clock>,
}

impl StoreOptions {
    /// Returns options that read and write the store of a home, with the default limits and a background thread.
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

    /// Takes the limits, prices, schedules, workflows and store address of a configuration. The durability is an
    /// argument of each append: see [`Config::durability`].
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

    /// Sets the address of the state.
    #[must_use]
    pub fn with_store(mut self, store: StoreAddress) -> Self {
        self.store = store;
        self
    }

    /// Opens the store for reading only.
    #[must_use]
    pub fn for_reading(mut self) -> Self {
        self.access = Access::Read;
        self
    }

    /// Opens the store without a background thread.
    #[must_use]
    pub fn one_shot(mut self) -> Self {
        self.background = Background::Nothing;
        self
    }
}
