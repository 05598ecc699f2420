//! The types that callers pass and get.

use std::fmt;
use std::str::FromStr;

use duolog_join::CaughtUp;
use duolog_log::dialect::money::Money;
use duolog_log::dialect::usage::Tokens;
use duolog_state::derived::usage_by_quarter::{Grouping, INSTANT_CHARS, UsageFilter as FilterRow};
use duolog_state::{BadPageToken, ListId, PageOrder};
use duolog_types::Timestamp;
use duolog_types::limits::PAGE_DEFAULT;

use super::zone::Zone;
use crate::Wait;
use crate::error::{Error, Invalid};

/// A day of a time zone, in the form `2026-01-31`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Day(String);

impl Day {
    /// Returns the text of the day.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The error for a text that is not a day.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a day; expected the form 2026-01-31")]
pub struct BadDay(String);

impl FromStr for Day {
    type Err = BadDay;

    fn from_str(text: &str) -> Result<Self, BadDay> {
        let begins = format!("{text}T00:00:00Z").parse::<Timestamp>().map(|at| at.to_string());
        match begins {
            // A date in another form is not accepted: only text that formats back to itself.
            Ok(at) if at.get(..text.len()) == Some(text) && text.len() == 10 => Ok(Self(text.to_owned())),
            _ => Err(BadDay(text.chars().take(64).collect())),
        }
    }
}

/// The filter and the page of a report. The default is the first page of all usage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsageFilter {
    /// Only from this day on.
    pub since: Option<Day>,
    /// Only up to and including this day.
    pub until: Option<Day>,
    /// The time zone of the days [default: UTC].
    pub zone: Option<String>,
    /// Only sessions of this user.
    pub user_id: Option<String>,
    /// The maximum number of lines.
    pub limit: u32,
    /// The token of the previous page.
    pub after: Option<UsageToken>,
    /// The order of a report by session; `None` for that of the page token, or most recently changed first.
    pub order: Option<PageOrder>,
    /// How long the report waits for derived rows to catch up with the logs.
    pub wait: Wait,
}

impl Default for UsageFilter {
    fn default() -> Self {
        Self {
            since: None,
            until: None,
            zone: None,
            user_id: None,
            limit: PAGE_DEFAULT,
            after: None,
            order: None,
            wait: Wait::Complete,
        }
    }
}

impl UsageFilter {
    /// Returns the list id of the report, for its page tokens.
    pub(super) fn list(&self) -> ListId {
        let day = |day: &'_ Option<Day>| day.as_ref().map(|day| day.0.clone());
        let filters = [day(&self.since), day(&self.until), self.user_id.clone(), self.zone.clone()];
        ListId::of("usage", &filters.each_ref().map(Option::as_deref))
    }
}

impl UsageFilter {
    /// Returns the filter for rows, with the days as timestamps.
    pub(super) fn rows(&self, zone: &Zone) -> Result<FilterRow, Error> {
        let start = |day: &Option<Day>| day.as_ref().map(|day| zone.start_of(day)).transpose();
        let end = |day: &Option<Day>| day.as_ref().map(|day| zone.end_of(day)).transpose();
        Ok(FilterRow { user_id: self.user_id.clone(), since: start(&self.since)?, until: end(&self.until)? })
    }
}

/// A sum of usage.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UsageTotal {
    /// The number of responses.
    pub responses: u64,
    /// The tokens.
    pub tokens: Tokens,
    /// The cost of everything that has a price; `None` if nothing has.
    pub cost: Option<Money>,
    /// The models without a price, whose tokens are not in the cost; `None` for responses without a model.
    pub unpriced: Vec<Option<String>>,
}

/// A line of a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsageLine {
    /// The day, the session id, the model or the workflow; `None` for usage without one.
    pub key: Option<String>,
    /// The name of the session, in a report by session.
    pub name: Option<String>,
    /// The usage.
    pub used: UsageTotal,
}

/// A page of a report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UsageReport {
    /// The lines.
    pub lines: Vec<UsageLine>,
    /// The total of all pages.
    pub total: UsageTotal,
    /// The token of the next page; `None` if this is the last page.
    pub next: Option<UsageToken>,
    /// The backlog of derived rows.
    pub behind: CaughtUp,
}

/// A page token of a usage report. The text is opaque.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsageToken {
    list: ListId,
    by: Grouping,
    order: String,
}

const LETTERS: [(char, Grouping); 5] = [
    ('d', Grouping::Day),
    ('s', Grouping::Session(PageOrder::Updated)),
    ('c', Grouping::Session(PageOrder::Created)),
    ('m', Grouping::Model),
    ('w', Grouping::Workflow),
];

impl UsageToken {
    pub(super) fn after(list: ListId, by: Grouping, order: &str) -> Self {
        Self { list, by, order: order.to_owned() }
    }

    /// Returns the order of a report by session; `None` if the token belongs to another report.
    pub(super) fn session_order(&self) -> Option<PageOrder> {
        if let Grouping::Session(order) = self.by { Some(order) } else { None }
    }

    /// Returns true if the key of a report by session starts with a timestamp. A token from a report always does.
    fn is_whole(&self) -> bool {
        self.session_order().is_none()
            || self.order.get(..INSTANT_CHARS).is_some_and(|at| at.parse::<Timestamp>().is_ok())
    }

    /// Returns the key at which the page ended, if the token belongs to this report.
    pub(super) fn order_in(&self, list: ListId, by: Grouping) -> Result<&str, Error> {
        if self.list == list && self.by == by {
            Ok(&self.order)
        } else {
            Err(Error::Invalid(Invalid::OtherPage(self.to_string())))
        }
    }
}

impl fmt::Display for UsageToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let letter = LETTERS.iter().find(|(_, by)| *by == self.by).map_or('d', |(letter, _)| *letter);
        write!(f, "{}.{letter}", self.list)?;
        self.order.bytes().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for UsageToken {
    type Err = BadPageToken;

    fn from_str(text: &str) -> Result<Self, BadPageToken> {
        BadPageToken::parse(text, |text| {
            let (list, rest) = ListId::split(text)?;
            let (by, hex) = LETTERS.iter().find_map(|(letter, by)| Some((*by, rest.strip_prefix(*letter)?)))?;
            let digits: Vec<u8> = hex.chars().map(|c| u8::try_from(c.to_digit(16)?).ok()).collect::<Option<_>>()?;
            let bytes = digits.chunks(2).map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | digit)).collect();
            Some(Self { list, by, order: String::from_utf8(bytes).ok()? }).filter(Self::is_whole)
        })
    }
}
