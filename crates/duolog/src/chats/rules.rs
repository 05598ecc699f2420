//! Pure decisions: the end of a chat, and the limits of its rows.

use std::time::Duration;

use duolog_state::owned::messaging_sessions::ChatPlace;
use duolog_types::Timestamp;
use duolog_types::limits::{CHAT_CONTENT_BYTES_MAX, CHAT_DELIVERY_BYTES_MAX, NAME_BYTES_MAX, WORD_BYTES_MAX};

use super::model::{ChatKey, NewChatMessage};
use crate::error::{Error, Invalid, Result};
use crate::sessions::bounded;

/// Returns true if a chat with this last activity is still active now. A clock that went back does not end a chat.
pub(super) fn is_fresh(last_activity_at: Timestamp, now: Timestamp, idle: Duration) -> bool {
    let silent = now.as_micros().saturating_sub(last_activity_at.as_micros());
    silent <= i64::try_from(idle.as_micros()).unwrap_or(i64::MAX)
}

pub(super) fn check_key(key: &ChatKey) -> Result<()> {
    bounded::<WORD_BYTES_MAX>("platform", &key.platform)?;
    bounded::<NAME_BYTES_MAX>("channel", &key.channel)?;
    bounded::<NAME_BYTES_MAX>("user", &key.user)?;
    for (what, text) in [("platform", &key.platform), ("channel", &key.channel), ("user", &key.user)] {
        said(what, text)?;
    }
    let Some(thread) = &key.thread else { return Ok(()) };
    bounded::<NAME_BYTES_MAX>("thread", thread)?;
    said("thread", thread)
}

pub(super) fn check_message(message: &NewChatMessage) -> Result<()> {
    bounded::<CHAT_CONTENT_BYTES_MAX>("content", &message.content)?;
    let Some(id) = &message.platform_message_id else { return Ok(()) };
    bounded::<NAME_BYTES_MAX>("platform_message_id", id)?;
    said("platform_message_id", id)
}

/// Returns an error if the platform message id and the conversation are together too long for their index.
pub(super) fn check_delivery(place: &ChatPlace, message: &NewChatMessage) -> Result<()> {
    let Some(id) = &message.platform_message_id else { return Ok(()) };
    let bytes = delivery_bytes(place, id);
    if bytes > CHAT_DELIVERY_BYTES_MAX {
        let why = format!(
            "is {bytes} bytes together with platform, channel, thread and user; expected {CHAT_DELIVERY_BYTES_MAX} at most"
        );
        return Err(Error::Invalid(Invalid::Value { what: "platform_message_id", why }));
    }
    Ok(())
}

/// Returns the length of a conversation's key and a platform message id together, in bytes.
pub(crate) fn delivery_bytes(place: &ChatPlace, platform_message_id: &str) -> usize {
    let ChatPlace { platform, channel_id, thread_id, user_id } = place;
    platform.len() + channel_id.len() + thread_id.len() + user_id.len() + platform_message_id.len()
}

fn said(what: &'static str, text: &str) -> Result<()> {
    if text.is_empty() {
        return Err(Error::Invalid(Invalid::Value { what, why: "must not be empty".to_owned() }));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chat_stays_active_until_it_was_silent_for_too_long() {
        let at = |seconds: i64| Timestamp::from_micros(seconds * 1_000_000);
        let idle = Duration::from_mins(1);
        assert!(is_fresh(at(100), at(100), idle) && is_fresh(at(100), at(160), idle));
        assert!(!is_fresh(at(100), at(161), idle));
        assert!(is_fresh(at(100), at(1), idle), "a clock that went back does not end a chat");
    }
}
