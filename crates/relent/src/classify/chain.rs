//! Walking an error's causes.
