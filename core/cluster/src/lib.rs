//! The scheduler decisions as a pure step function.
