//! The description of the API, for people and for generators of clients. REQ-S2.
//!
//! Written by hand; the tests hold it to the documents, the problems and the words of this crate.

/// OpenAPI 3.1, as JSON.
pub const OPENAPI: &str = include_str!("../openapi.json");

#[cfg(test)]
mod tests;
