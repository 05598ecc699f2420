//! Chats between a user on a platform and an agent.
//!
//! A conversation is a platform, a channel, a thread (optional) and a user. It has one active chat, which the state
//! enforces: a caller that loses the race to create it gets the winner's chat. The active chat ends after a long
//! silence or by a reset. The messages are in the state; what the agent does is in the log of the session that the chat
//! refers to.

mod model;
mod rules;

use duolog_join::TxClock;
use duolog_state::owned::messaging_deliveries;
use duolog_state::owned::messaging_messages::{self, NewChatMessageRow};
use duolog_state::owned::messaging_sessions::{self as table, ChatPlace, ChatRow};
use duolog_state::{ListId, PageOrder, PageToken, Tx};
use duolog_types::limits::PAGE_MAX;
use duolog_types::{ChatId, Durability, SessionId, Timestamp};

pub use duolog_state::owned::messaging_messages::ChatMessage;
pub use model::{AddedMessage, Answering, Chat, ChatFilter, ChatKey, ChatList, History, NewChatMessage, Opened};

pub(crate) use rules::delivery_bytes;

use crate::error::{Error, ErrorKind, Invalid, NotFound, Result};
use crate::resolve::resolve;
use crate::store::Store;

/// The handle for chats.
#[derive(Clone)]
pub struct Chats {
    pub(crate) store: Store,
}

impl Chats {
    /// Returns the active chat of a conversation. Creates one if there is none, or if it was silent for too long.
    pub fn open(&self, key: &ChatKey, durability: Durability) -> Result<Opened> {
        rules::check_key(key)?;
        let begin = self.begin(key);
        self.store.transact(durability, move |tx| Ok((begin.open(tx)?, Vec::new())))
    }

    /// Returns the active chat of a conversation; `None` if there is none, or if it was silent for too long.
    pub fn find_active(&self, key: &ChatKey) -> Result<Option<Chat>> {
        let (clock, idle) = (self.store.join.tx_clock(), self.store.core.chat_idle);
        let find = |tx: &mut Tx<'_>| Ok::<_, Error>((table::find_active(tx, &key.into())?, clock.now(tx)?));
        let (row, now) = self.store.join.state().read(find)?;
        Ok(row.filter(|row| rules::is_fresh(row.last_activity_at, now, idle)).map(Chat::from))
    }

    /// Stores a message in the active chat of a conversation. Creates a chat if none is active.
    ///
    /// A platform message id that was stored before in any chat of the conversation changes nothing: the result names
    /// that message and its chat.
    pub fn add(&self, key: &ChatKey, message: &NewChatMessage, durability: Durability) -> Result<AddedMessage> {
        rules::check_key(key)?;
        rules::check_message(message)?;
        let (begin, message) = (self.begin(key), message.clone());
        rules::check_delivery(&begin.place, &message)?;
        self.store.transact(durability, move |tx| {
            // Looked up first: a message that is delivered again does not create a chat.
            if let Some(again) = delivered(tx, &begin.place, &message)? {
                return Ok((again, Vec::new()));
            }
            let opened = begin.open(tx)?;
            let now = begin.clock.now(tx)?;
            let added = add(tx, &opened.chat.id, &begin.place, &message, now)?;
            Ok((AddedMessage { created: opened.created, ..added }, Vec::new()))
        })
    }

    /// Stores a message in a chat, even if the chat is no longer active: an answer belongs to its question.
    ///
    /// A platform message id that was stored before in any chat of the same conversation changes nothing.
    pub fn add_to(&self, chat: &ChatId, message: &NewChatMessage, durability: Durability) -> Result<AddedMessage> {
        rules::check_message(message)?;
        let (chat, message, clock) = (chat.clone(), message.clone(), self.store.join.tx_clock());
        self.store.transact(durability, move |tx| {
            let now = clock.now(tx)?;
            let row = table::find(tx, &chat)?.ok_or_else(|| Error::NotFound(NotFound::Chat(chat.to_string())))?;
            rules::check_delivery(&row.place, &message)?;
            let added = match delivered(tx, &row.place, &message)? {
                Some(again) => again,
                None => add(tx, &chat, &row.place, &message, now)?,
            };
            Ok((added, Vec::new()))
        })
    }

    /// Records activity in a chat, so that it stays active.
    pub fn touch(&self, chat: &ChatId, durability: Durability) -> Result<()> {
        let clock = self.store.join.tx_clock();
        self.change(chat, durability, move |tx, chat| {
            let now = clock.now(tx)?;
            table::touch(tx, chat, now)
        })
    }

    /// Sets the agent session that answers in a chat.
    pub fn set_agent_session(&self, chat: &ChatId, session: Option<&SessionId>, durability: Durability) -> Result<()> {
        let session = session.cloned();
        self.change(chat, durability, move |tx, chat| table::set_agent_session(tx, chat, session.as_ref()))
    }

    /// Ends the active chat of a conversation, so that the next message starts another one. Returns `None` if no chat
    /// was active.
    pub fn reset(&self, key: &ChatKey, durability: Durability) -> Result<Option<Chat>> {
        let place = ChatPlace::from(key);
        self.store.transact(durability, move |tx| {
            let Some(active) = table::find_active(tx, &place)? else { return Ok((None, Vec::new())) };
            table::deactivate(tx, &active.id)?;
            Ok((Some(Chat::from(ChatRow { active: false, ..active })), Vec::new()))
        })
    }

    /// Returns the chat with this id.
    pub fn get(&self, id: &ChatId) -> Result<Chat> {
        let row = self.store.join.state().read(|tx| table::find(tx, id))?;
        row.map(Chat::from).ok_or_else(|| Error::NotFound(NotFound::Chat(id.to_string())))
    }

    /// Returns the chat with this id, or the only one whose id starts with it.
    pub fn resolve(&self, text: &str) -> Result<Chat> {
        let found = self.store.join.state().read(|tx| {
            let exact = match ChatId::parse(text) {
                Ok(id) => table::find(tx, &id)?.map(|row| row.id),
                Err(_) => None,
            };
            resolve(tx, "chat", text, exact, table::starting_with)
        })?;
        self.get(&found.ok_or_else(|| Error::NotFound(NotFound::Chat(text.to_owned())))?)
    }

    /// Returns the agent session that answers in a chat, with the statistics of its log; `None` if none is set, or if
    /// it is not in this store.
    pub fn answering(&self, chat: &Chat) -> Result<Option<Answering>> {
        let Some(id) = &chat.agent_session_id else { return Ok(None) };
        let sessions = self.store.sessions();
        match sessions.get(id) {
            Ok(session) => Ok(Some(Answering { figures: sessions.figures(id)?, session })),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns the last messages of a chat, or those before `before`, oldest first.
    pub fn history(&self, chat: &ChatId, before: Option<i64>, limit: u32) -> Result<History> {
        let limit = limit.clamp(1, PAGE_MAX);
        let mut rows = self.store.join.state().read(|tx| messaging_messages::newest(tx, chat, before, limit + 1))?;
        let is_more = rows.len() > limit as usize;
        rows.truncate(limit as usize);
        rows.reverse();
        let before = rows.first().filter(|_| is_more).map(|row| row.id);
        Ok(History { messages: rows, before })
    }

    /// Returns a page of chats, in the order of the filter, without their messages (I5).
    ///
    /// # Errors
    ///
    /// Returns an error if the token belongs to a list with another filter or order.
    pub fn list(&self, filter: &ChatFilter, after: Option<&PageToken>, limit: u32) -> Result<ChatList> {
        let limit = limit.clamp(1, PAGE_MAX);
        let order = filter.order.or(after.map(PageToken::order)).unwrap_or_default();
        let of_list = ListId::of("chats", &[filter.platform.as_deref(), filter.active.then_some("active")]);
        if let Some(token) = after.filter(|token| token.list() != of_list || token.order() != order) {
            return Err(Error::Invalid(Invalid::OtherPage(token.to_string())));
        }
        let filter = table::ChatFilter { platform: filter.platform.clone(), active: filter.active };
        let after = after.map(|token| (token.at(), token.key()));
        let mut rows = self.store.join.state().read(|tx| table::list(tx, &filter, order, after, limit + 1))?;
        let is_more = rows.len() > limit as usize;
        rows.truncate(limit as usize);
        let last = rows.last().filter(|_| is_more);
        let at = |row: &ChatRow| if order == PageOrder::Created { row.created_at } else { row.last_activity_at };
        let next = last.map(|row| PageToken::new(of_list, order.rank(), at(row), &row.id));
        Ok(ChatList { chats: rows.into_iter().map(Chat::from).collect(), next })
    }

    fn begin(&self, key: &ChatKey) -> Begin {
        let (clock, idle) = (self.store.join.tx_clock(), self.store.core.chat_idle);
        Begin { place: key.into(), id: ChatId::new(), clock, idle }
    }

    fn change(
        &self,
        chat: &ChatId,
        durability: Durability,
        change: impl Fn(&mut Tx<'_>, &ChatId) -> duolog_state::Result<bool> + Send + 'static,
    ) -> Result<()> {
        let chat = chat.clone();
        self.store.transact(durability, move |tx| {
            if change(tx, &chat)? {
                Ok(((), Vec::new()))
            } else {
                Err(Error::NotFound(NotFound::Chat(chat.to_string())))
            }
        })
    }
}

/// The data for finding or creating the active chat of a conversation.
struct Begin {
    place: ChatPlace,
    /// The id of a new chat. It stays the same if the transaction is retried.
    id: ChatId,
    clock: TxClock,
    idle: std::time::Duration,
}

impl Begin {
    /// Finds the active chat or creates one. On a server, the loser of a race retries and finds the winner's chat.
    fn open(&self, tx: &mut Tx<'_>) -> Result<Opened> {
        let (mut ended, now) = (None, self.clock.now(tx)?);
        if let Some(active) = table::find_active(tx, &self.place)? {
            if rules::is_fresh(active.last_activity_at, now, self.idle) {
                return Ok(Opened { chat: active.into(), created: false, ended });
            }
            table::deactivate(tx, &active.id)?;
            ended = Some(active.id);
        }
        let row = ChatRow {
            id: self.id.clone(),
            place: self.place.clone(),
            agent_session_id: None,
            created_at: now,
            last_activity_at: now,
            message_count: 0,
            active: true,
        };
        table::insert(tx, &row)?;
        Ok(Opened { chat: row.into(), created: true, ended })
    }
}

/// Returns the message if the platform delivered it before.
fn delivered(tx: &mut Tx<'_>, place: &ChatPlace, message: &NewChatMessage) -> Result<Option<AddedMessage>> {
    let Some(platform_id) = &message.platform_message_id else { return Ok(None) };
    let found = messaging_deliveries::find(tx, place, platform_id)?;
    Ok(found.map(|(chat, id)| AddedMessage { chat, id, added: false, created: false }))
}

fn add(
    tx: &mut Tx<'_>,
    chat: &ChatId,
    place: &ChatPlace,
    message: &NewChatMessage,
    now: Timestamp,
) -> Result<AddedMessage> {
    if !table::count_message(tx, chat, now)? {
        return Err(Error::NotFound(NotFound::Chat(chat.to_string())));
    }
    let NewChatMessage { role, content, platform_message_id, agent_session_id } = message.clone();
    let row = NewChatMessageRow { session_id: chat.clone(), role, content, timestamp: now, platform_message_id };
    let id = messaging_messages::insert(tx, &row)?;
    // The id was free at the start of this transaction; if another process claimed it on a server meanwhile, this one
    // retries.
    if let Some(platform_id) = &row.platform_message_id
        && !messaging_deliveries::claim(tx, place, platform_id, id)?
    {
        let (what, detail) = ("messaging_deliveries".to_owned(), format!("{platform_id:?} was free and is taken"));
        return Err(duolog_state::Error::Damaged { what, detail }.into());
    }
    if agent_session_id.is_some() {
        table::set_agent_session(tx, chat, agent_session_id.as_ref())?;
    }
    Ok(AddedMessage { chat: chat.clone(), id, added: true, created: false })
}
