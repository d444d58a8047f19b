//! Compose files other people wrote, as they are, on real Docker: typed as a person would, through a
//! scheduler and an agent, with stand-ins for images that nobody can pull or build here.
//!
//! Each lane has a Docker of its own, in a network of its own: most of the files want port 80.

#[cfg(test)]
mod lane;
#[cfg(test)]
mod projects;
