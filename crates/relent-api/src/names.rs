//! Fixed sets of words, and the word that a mistyped one was meant to be. REQ-S1.

use std::fmt;

/// An enum whose values cross the wire as words: one table gives the words, their order, and how
/// they are read and written.
macro_rules! named {
    (
        $(#[$meta:meta])*
        $type:ident, $what:literal {
            $($variant:ident $name:literal $doc:literal)*
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $type {
            $(#[doc = $doc] $variant,)*
        }

        impl $type {
            /// Every one there is.
            pub const ALL: &[$type] = &[$($type::$variant),*];
            pub(crate) const NAMES: &[&str] = &[$($name),*];

            /// Its word on the wire.
            pub const fn name(self) -> &'static str {
                match self { $($type::$variant => $name),* }
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.name())
            }
        }

        impl std::str::FromStr for $type {
            type Err = $crate::names::UnknownName;

            fn from_str(text: &str) -> Result<$type, Self::Err> {
                match text {
                    $($name => Ok($type::$variant),)*
                    _ => Err($crate::names::UnknownName::new($what, text, $type::NAMES)),
                }
            }
        }

        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.name())
            }
        }

        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(reader: D) -> Result<$type, D::Error> {
                let text = <std::borrow::Cow<'de, str>>::deserialize(reader)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}
pub(crate) use named;

/// A word that is not in its set.
///
/// ```
/// use relent_api::Status;
///
/// let unknown = "PENDNG".parse::<Status>().unwrap_err();
/// assert_eq!(unknown.to_string(), "a status (did you mean PENDING?)");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownName {
    what: &'static str,
    meant: Option<&'static str>,
    names: &'static [&'static str],
}

impl UnknownName {
    pub(crate) fn new(
        what: &'static str,
        typed: &str,
        names: &'static [&'static str],
    ) -> UnknownName {
        UnknownName { what, meant: closest(typed, names), names }
    }
}

impl fmt::Display for UnknownName {
    /// What would have been right, as in "expected …".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.meant {
            Some(meant) => write!(f, "{} (did you mean {meant}?)", self.what),
            None => write!(f, "{}: {}", self.what, self.names.join(", ")),
        }
    }
}

impl std::error::Error for UnknownName {}

/// The name that a mistyped one was probably meant to be.
pub(crate) fn closest<'n>(typed: &str, names: &[&'n str]) -> Option<&'n str> {
    let near = names.iter().map(|name| (distance(typed, name), *name));
    near.filter(|(distance, name)| *distance <= 1 + name.len() / 5).min().map(|(_, name)| name)
}

/// How many letters must be added, dropped or changed, not counting their case.
fn distance(typed: &str, name: &str) -> usize {
    if typed.len() > 64 {
        return usize::MAX;
    }
    let mut row: Vec<usize> = (0..=name.len()).collect();
    for (i, a) in typed.bytes().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, b) in name.bytes().enumerate() {
            let changed = diagonal + usize::from(!a.eq_ignore_ascii_case(&b));
            diagonal = row[j + 1];
            row[j + 1] = changed.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[name.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_misses_are_recognised_and_strangers_are_not() {
        let names = ["targetUrl", "idempotencyKey", "delayMs"];
        assert_eq!(closest("target_url", &names), Some("targetUrl"));
        assert_eq!(closest("TARGETURL", &names), Some("targetUrl"));
        assert_eq!(closest("idempotency_key", &names), Some("idempotencyKey"));
        assert_eq!(closest("colour", &names), None);
        assert_eq!(closest(&"t".repeat(1_000), &names), None);
    }
}
