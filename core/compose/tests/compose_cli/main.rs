//! The compose program itself, asked about what is emitted.

#[cfg(test)]
mod program;
#[cfg(test)]
mod projects;
