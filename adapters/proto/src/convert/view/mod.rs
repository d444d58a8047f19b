//! The cluster as clients see it. Words and numbers are those existing clients and dashboards know;
//! what they have no place for stands in fields of our own beside them.

pub mod disk;
pub mod event;
pub mod event_types;
pub mod node;
pub mod summary;
pub mod workload;
