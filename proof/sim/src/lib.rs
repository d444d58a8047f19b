//! The whole cluster as a value: a deterministic simulator.
