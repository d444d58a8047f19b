//! The agent decisions as a pure step function.
