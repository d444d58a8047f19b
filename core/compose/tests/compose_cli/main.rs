//! The compose program itself, asked about what is emitted.

#[cfg(test)]
mod program;
