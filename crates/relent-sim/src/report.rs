//! What a study came to, for people and for machines: a page, a table, JSON, CSV. REQ-X1.
//!
//! Nothing in a report depends on the clock, the machine or the number of threads: the same scenario,
//! policies and seeds give the same bytes.

mod charts;
mod compare;
mod csv;
mod json;
mod page;
mod table;
mod words;

pub use table::{Row, spark};
pub use words::{duration, thousands};

use crate::study::Study;

impl Study {
    /// A page of its own, with all pictures in it; it needs no script to be read.
    pub fn html(&self) -> String {
        page::page(self)
    }

    /// All figures as a JSON document.
    pub fn json(&self) -> String {
        json::document(self)
    }

    /// What happened when: one line for each policy and bucket of time.
    pub fn csv(&self) -> String {
        csv::lines(self)
    }

    /// The figures of each policy, as a table shows them.
    pub fn rows(&self) -> Vec<Row> {
        self.results.iter().map(Row::of).collect()
    }

    /// What was simulated, in one line.
    pub fn headline(&self) -> String {
        words::headline(self)
    }
}
