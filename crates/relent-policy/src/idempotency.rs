//! May this call be repeated at all? The gate in front of every retry. REQ-I1, REQ-I2.

use alloc::borrow::ToOwned;
use alloc::string::String;
use core::fmt;

/// Why an operation may, or may not, be sent more than once.
///
/// ```
/// use relent_policy::{IdempotencyKey, Repeatable};
///
/// assert_eq!(Repeatable::by_method("PUT", None), Repeatable::ByMethod);
/// assert_eq!(Repeatable::by_method("POST", None), Repeatable::No);
/// let key = IdempotencyKey::try_new("7c4a8d09-ca95-4c6d-8f3b-91a7e6e0b9d2")?;
/// assert_eq!(Repeatable::by_method("POST", Some(&key)), Repeatable::ByKey);
/// # Ok::<(), relent_policy::BadIdempotencyKey>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Repeatable {
    /// Nothing protects against a duplicate: one attempt.
    #[default]
    No,
    /// The method is idempotent by definition.
    ByMethod,
    /// An idempotency key travels with every attempt.
    ByKey,
    /// The caller vouches that repeating is harmless.
    Declared,
}

impl Repeatable {
    /// What an HTTP method and the presence of a key allow. Methods are case-sensitive, and one
    /// that is not known needs a key like POST.
    pub fn by_method(method: &str, key: Option<&IdempotencyKey>) -> Repeatable {
        match (method, key) {
            ("GET" | "HEAD" | "OPTIONS" | "PUT" | "DELETE", _) => Repeatable::ByMethod,
            (_, Some(_)) => Repeatable::ByKey,
            (_, None) => Repeatable::No,
        }
    }
}

/// A key that lets the receiver recognise a repeated request: 1 to 64 characters from
/// `A-Z a-z 0-9 _ - . :`, set once and the same on every attempt.
///
/// ```
/// use relent_policy::IdempotencyKey;
///
/// // The quoted form of the IETF draft and the bare form mean the same key.
/// assert_eq!(IdempotencyKey::try_new("\"order-17\"")?.as_str(), "order-17");
/// assert!(IdempotencyKey::try_new("order 17").is_err());
/// # Ok::<(), relent_policy::BadIdempotencyKey>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IdempotencyKey(String);

/// Why a text is not an idempotency key.
///
/// ```
/// use relent_policy::{BadIdempotencyKey, IdempotencyKey};
///
/// let long = "k".repeat(65);
/// assert_eq!(IdempotencyKey::try_new(&long), Err(BadIdempotencyKey::TooLong { length: 65 }));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadIdempotencyKey {
    /// There is nothing in it.
    Empty,
    /// It has more than 64 characters.
    TooLong {
        /// How many it has.
        length: usize,
    },
    /// It has a character that headers, logs and stores would not carry unchanged.
    BadCharacter {
        /// The first such character.
        character: char,
    },
}

impl IdempotencyKey {
    /// The most characters a key may have.
    pub const LENGTH_MAX: usize = 64;

    /// Takes a key, quoted or bare.
    ///
    /// # Errors
    ///
    /// When the text is empty, too long, or has a character outside the set.
    pub fn try_new(text: &str) -> Result<IdempotencyKey, BadIdempotencyKey> {
        let unquoted = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
        let key = unquoted.unwrap_or(text);
        if key.is_empty() {
            return Err(BadIdempotencyKey::Empty);
        }
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | ':');
        if let Some(character) = key.chars().find(|c| !allowed(*c)) {
            return Err(BadIdempotencyKey::BadCharacter { character });
        }
        if key.len() > Self::LENGTH_MAX {
            return Err(BadIdempotencyKey::TooLong { length: key.len() });
        }
        Ok(IdempotencyKey(key.to_owned()))
    }

    /// The bare key.
    ///
    /// ```
    /// # use relent_policy::IdempotencyKey;
    /// assert_eq!(IdempotencyKey::try_new("a")?.as_str(), "a");
    /// # Ok::<(), relent_policy::BadIdempotencyKey>(())
    /// ```
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for IdempotencyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for BadIdempotencyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "an idempotency key must have 1 to 64 characters from A-Z a-z 0-9 _ - . :, got ",
        )?;
        match self {
            BadIdempotencyKey::Empty => f.write_str("none"),
            BadIdempotencyKey::TooLong { length } => write!(f, "{length}"),
            BadIdempotencyKey::BadCharacter { character } => write!(f, "{character:?}"),
        }
    }
}

impl core::error::Error for BadIdempotencyKey {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_idempotent_methods_pass_without_a_key() {
        for method in ["GET", "HEAD", "OPTIONS", "PUT", "DELETE"] {
            assert_eq!(Repeatable::by_method(method, None), Repeatable::ByMethod);
        }
        for method in ["POST", "PATCH", "get", "LINK", ""] {
            assert_eq!(Repeatable::by_method(method, None), Repeatable::No, "{method}");
        }
    }

    #[test]
    fn sixty_four_characters_are_the_limit() {
        assert!(IdempotencyKey::try_new(&"k".repeat(64)).is_ok());
        assert!(IdempotencyKey::try_new(&"k".repeat(65)).is_err());
    }

    #[test]
    fn what_a_header_would_not_carry_is_refused() {
        for text in ["", "\"\"", "a b", "a\r\nb", "schlüssel", "\"half"] {
            assert!(IdempotencyKey::try_new(text).is_err(), "{text:?}");
        }
    }
}
