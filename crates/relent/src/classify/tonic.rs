//! tonic.
