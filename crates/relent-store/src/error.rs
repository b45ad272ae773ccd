//! What can go wrong with a store, by what the caller can do about it.

/// A store could not do what it was asked. Nothing was changed, unless the answer was lost on its way.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Too much is waiting to be written. Ask again shortly.
    #[error("the store has too much to write already")]
    Overloaded,
    /// It has no room for new tasks, and took none of these; those that it has go on. The text is for
    /// the operator.
    #[error("the store has no room for new tasks: {0}")]
    Full(String),
    /// It cannot be reached, or stopped itself after an error. If the connection was lost in the
    /// middle, what was asked may have been done all the same. The text is for the operator.
    #[error("the store is not available: {0}")]
    Unavailable(String),
    /// What was found in it makes no sense. The text is for the operator.
    #[error("the store holds something unexpected: {0}")]
    Damaged(String),
    /// It does not take more lanes.
    #[error("there are {max} lanes already")]
    TooManyLanes {
        /// How many it takes.
        max: u32,
    },
}
