//! Claims, sends, records, tells.

pub mod egress;
