//! Values for statements and from rows. Conversions are exact or an error, in both directions.

use std::borrow::Cow;
use std::str::FromStr;

use duolog_types::{
    ApprovalId, ApprovalKind, ApprovalStatus, BranchId, Charge, ChatId, ChatRole, CronOutcome, CronRunId, Epoch,
    ExecutionId, HomeId, InvocationKind, MessageId, OperationId, OutboxId, Position, ProcessId, ProgressionId, RunId,
    RunStatus, SessionId, SessionStatus, SourceKind, Timestamp, TriggerType,
};

use super::Row;
use crate::error::Error;

/// A parameter of a statement.
#[derive(Clone, Debug, PartialEq)]
pub enum Value<'a> {
    /// NULL.
    Null,
    /// An integer.
    Int(i64),
    /// A floating-point number.
    Real(f64),
    /// Text.
    Text(Cow<'a, str>),
    /// Bytes.
    Blob(&'a [u8]),
    /// A number that is too large for a column. The statement returns [`Error::OutOfRange`].
    TooLarge(u64),
}

impl From<i64> for Value<'_> {
    fn from(number: i64) -> Self {
        Self::Int(number)
    }
}

impl From<u64> for Value<'_> {
    fn from(number: u64) -> Self {
        i64::try_from(number).map_or(Self::TooLarge(number), Self::Int)
    }
}

impl From<u32> for Value<'_> {
    fn from(number: u32) -> Self {
        Self::Int(number.into())
    }
}

impl From<bool> for Value<'_> {
    fn from(yes: bool) -> Self {
        Self::Int(yes.into())
    }
}

impl From<f64> for Value<'_> {
    fn from(number: f64) -> Self {
        Self::Real(number)
    }
}

impl From<Position> for Value<'_> {
    fn from(position: Position) -> Self {
        position.0.into()
    }
}

impl From<Epoch> for Value<'_> {
    fn from(epoch: Epoch) -> Self {
        epoch.0.into()
    }
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(Cow::Borrowed(text))
    }
}

impl<'a> From<&'a String> for Value<'a> {
    fn from(text: &'a String) -> Self {
        Self::Text(Cow::Borrowed(text))
    }
}

impl From<String> for Value<'_> {
    fn from(text: String) -> Self {
        Self::Text(Cow::Owned(text))
    }
}

/// Ids that are stored as text: borrowed without an allocation.
macro_rules! text_ids {
    ($($type:ty),+) => { $(
        impl<'a> From<&'a $type> for Value<'a> {
            fn from(id: &'a $type) -> Self {
                id.as_str().into()
            }
        }
    )+ };
}

text_ids!(SessionId, OperationId, MessageId, BranchId, ProgressionId, ChatId, RunId, ExecutionId, ApprovalId);

impl<'a> From<&'a [u8]> for Value<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Self::Blob(bytes)
    }
}

impl<'a, const N: usize> From<&'a [u8; N]> for Value<'a> {
    fn from(bytes: &'a [u8; N]) -> Self {
        Self::Blob(bytes)
    }
}

impl<'a, T: Into<Value<'a>>> From<Option<T>> for Value<'a> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

/// A field of a row, as a parameter of a statement.
pub(crate) trait Field {
    /// Returns the value, borrowed if possible.
    fn value(&self) -> Value<'_>;
}

/// A field of a row with several columns.
pub(crate) trait Columns: Sized {
    /// Reads the field from the columns at `at` and advances `at`.
    fn read_at(row: &Row<'_>, at: &mut usize) -> Result<Self, Error>;

    /// Appends its values, one per column.
    fn add_to<'v>(&'v self, values: &mut Vec<Value<'v>>);
}

impl<T: Field> Field for Option<T> {
    fn value(&self) -> Value<'_> {
        self.as_ref().map_or(Value::Null, Field::value)
    }
}

impl Field for Vec<u8> {
    fn value(&self) -> Value<'_> {
        Value::Blob(self)
    }
}

macro_rules! fields {
    ($($type:ty),+; copied $($copied:ty),+) => {
        $(impl Field for $type {
            fn value(&self) -> Value<'_> {
                self.into()
            }
        })+
        $(impl Field for $copied {
            fn value(&self) -> Value<'_> {
                (*self).into()
            }
        })+
    };
}

fields!(
    String, SessionId, MessageId, BranchId, ProgressionId, RunId, ExecutionId, ApprovalId, [u8; 32];
    copied i64, u64, u32, bool, Position, Epoch, HomeId, ProcessId, OutboxId, CronRunId, Timestamp,
    ChatRole, CronOutcome, SessionStatus, InvocationKind, SourceKind, RunStatus, TriggerType, ApprovalKind, ApprovalStatus
);

/// A value in a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Column<'r> {
    /// NULL.
    Null,
    /// An integer.
    Int(i64),
    /// A floating-point number.
    Real(f64),
    /// Text.
    Text(&'r str),
    /// Bytes.
    Blob(&'r [u8]),
}

impl Column<'_> {
    pub(super) fn is_not(self, what: &str) -> String {
        let kind = match self {
            Self::Null => "NULL",
            Self::Int(_) => "an integer",
            Self::Real(_) => "a number",
            Self::Text(_) => "text",
            Self::Blob(_) => "bytes",
        };
        format!("it has {kind} instead of {what}")
    }
}

/// A type that can be read from a column.
pub trait FromColumn: Sized {
    /// Converts the value, or returns what is wrong with it.
    fn from_column(column: Column<'_>) -> Result<Self, String>;
}

impl<T: FromColumn> FromColumn for Option<T> {
    fn from_column(column: Column<'_>) -> Result<Self, String> {
        if column == Column::Null { Ok(None) } else { T::from_column(column).map(Some) }
    }
}

impl FromColumn for i64 {
    fn from_column(column: Column<'_>) -> Result<Self, String> {
        if let Column::Int(number) = column { Ok(number) } else { Err(column.is_not("an integer")) }
    }
}

impl FromColumn for u64 {
    fn from_column(column: Column<'_>) -> Result<Self, String> {
        let number = i64::from_column(column)?;
        Self::try_from(number).map_err(|_| format!("{number} is out of range"))
    }
}

impl FromColumn for u32 {
    fn from_column(column: Column<'_>) -> Result<Self, String> {
        let number = i64::from_column(column)?;
        Self::try_from(number).map_err(|_| format!("{number} is out of range"))
    }
}

impl FromColumn for bool {
    fn from_column(column: Column<'_>) -> Result<Self, String> {
        match i64::from_column(column)? {
            0 => Ok(false),
            1 => Ok(true),
            number => Err(format!("{number} is neither 0 nor 1")),
        }
    }
}

impl FromColumn for f64 {
    fn from_column(column: Column<'_>) -> Result<Self, String> {
        if let Column::Real(number) = column { Ok(number) } else { Err(column.is_not("a number")) }
    }
}

impl FromColumn for String {
    fn from_column(column: Column<'_>) -> Result<Self, String> {
        text(column).map(str::to_owned)
    }
}

impl FromColumn for Vec<u8> {
    fn from_column(column: Column<'_>) -> Result<Self, String> {
        if let Column::Blob(bytes) = column { Ok(bytes.to_vec()) } else { Err(column.is_not("bytes")) }
    }
}

impl<const N: usize> FromColumn for [u8; N] {
    fn from_column(column: Column<'_>) -> Result<Self, String> {
        let Column::Blob(bytes) = column else { return Err(column.is_not("bytes")) };
        bytes.try_into().map_err(|_| format!("it is {} bytes instead of {N}", bytes.len()))
    }
}

impl FromColumn for Position {
    fn from_column(column: Column<'_>) -> Result<Self, String> {
        u64::from_column(column).map(Self)
    }
}

impl FromColumn for Epoch {
    fn from_column(column: Column<'_>) -> Result<Self, String> {
        u32::from_column(column).map(Self)
    }
}

fn text(column: Column<'_>) -> Result<&str, String> {
    if let Column::Text(text) = column { Ok(text) } else { Err(column.is_not("text")) }
}

fn parsed<T: FromStr<Err: ToString>>(column: Column<'_>) -> Result<T, String> {
    text(column)?.parse().map_err(|error: T::Err| error.to_string())
}

/// Types that are stored as text: written by `Display`, read by `FromStr`.
macro_rules! as_text {
    ($($type:ty),+) => { $(
        impl FromColumn for $type {
            fn from_column(column: Column<'_>) -> Result<Self, String> {
                parsed(column)
            }
        }
    )+ };
}

macro_rules! written_as_text {
    ($($type:ty),+) => { $(
        impl From<$type> for Value<'_> {
            fn from(value: $type) -> Self {
                Self::Text(Cow::Owned(value.to_string()))
            }
        }

        impl From<&$type> for Value<'_> {
            fn from(value: &$type) -> Self {
                (*value).into()
            }
        }
    )+ };
}

/// Words of a closed vocabulary: borrowed without an allocation.
macro_rules! words {
    ($($type:ty),+) => { $(
        impl From<$type> for Value<'_> {
            fn from(word: $type) -> Self {
                Self::Text(Cow::Borrowed(word.as_str()))
            }
        }
    )+ };
}

as_text!(SessionId, OperationId, HomeId, ProcessId, OutboxId, Timestamp, SessionStatus, InvocationKind, SourceKind);
as_text!(Charge, MessageId, BranchId, ProgressionId, ChatId, ChatRole, CronOutcome, CronRunId);
as_text!(crate::owned::repairs::RepairAction);
written_as_text!(HomeId, ProcessId, OutboxId, CronRunId, Timestamp);
words!(Charge, ChatRole, CronOutcome, SessionStatus, InvocationKind, SourceKind, crate::owned::repairs::RepairAction);
as_text!(RunId, ExecutionId, ApprovalId, RunStatus, TriggerType, ApprovalKind, ApprovalStatus);
words!(RunStatus, TriggerType, ApprovalKind, ApprovalStatus);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_is_not_what_it_should_be_is_an_error_not_a_default() {
        assert!(u64::from_column(Column::Int(-1)).is_err());
        assert!(u32::from_column(Column::Int(1 << 32)).is_err());
        assert!(bool::from_column(Column::Int(2)).is_err());
        assert!(String::from_column(Column::Null).is_err());
        assert!(<[u8; 32]>::from_column(Column::Blob(&[0; 31])).is_err());
        assert!(SessionId::from_column(Column::Text("../x")).is_err());
        let error = SessionStatus::from_column(Column::Text("done")).expect_err("unknown");
        assert!(error.contains("done"), "{error}");
        assert_eq!(Option::<SessionStatus>::from_column(Column::Null), Ok(None));
    }

    #[test]
    fn a_number_too_large_for_a_column_is_kept_for_the_error() {
        assert_eq!(Value::from(u64::MAX), Value::TooLarge(u64::MAX));
        assert_eq!(Value::from(5_u64), Value::Int(5));
        assert_eq!(Value::from(None::<u64>), Value::Null);
    }
}
