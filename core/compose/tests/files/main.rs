//! Whole files: as people write them, as attackers do, and as nobody would.

#[cfg(test)]
mod arbitrary;
#[cfg(test)]
mod corpus;
#[cfg(test)]
mod injection;
#[cfg(test)]
mod project;
