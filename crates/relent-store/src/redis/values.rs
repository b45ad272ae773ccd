//! What Redis answers, as what was expected. Anything else is damage.

use redis::Value;

use super::pack::damaged;
use crate::error::Error;

pub(super) fn bytes(value: Value) -> Result<Vec<u8>, Error> {
    match value {
        Value::BulkString(bytes) => Ok(bytes),
        Value::SimpleString(text) => Ok(text.into_bytes()),
        Value::VerbatimString { text, .. } => Ok(text.into_bytes()),
        _ => Err(damaged("is no string")),
    }
}

/// A string that need not be there.
pub(super) fn some_bytes(value: Value) -> Result<Option<Vec<u8>>, Error> {
    match value {
        Value::Nil => Ok(None),
        value => bytes(value).map(Some),
    }
}

pub(super) fn text(value: Value) -> Result<String, Error> {
    String::from_utf8(bytes(value)?).map_err(|_| damaged("is no text"))
}

pub(super) fn int(value: Value) -> Result<i64, Error> {
    match value {
        Value::Int(number) => Ok(number),
        value => text(value)?.parse().map_err(|_| damaged("is no number")),
    }
}

pub(super) fn array(value: Value) -> Result<Vec<Value>, Error> {
    match value {
        Value::Array(values) | Value::Set(values) => Ok(values),
        Value::Map(pairs) => Ok(pairs.into_iter().flat_map(|(key, value)| [key, value]).collect()),
        _ => Err(damaged("is no list")),
    }
}
