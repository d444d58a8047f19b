//! Commands as people type them, against a scheduler and an agent over mTLS in this process; what
//! runs is simulated.

#[cfg(test)]
mod apply;
#[cfg(test)]
mod audit;
#[cfg(test)]
mod brought;
#[cfg(test)]
mod compose;
#[cfg(test)]
mod corpus;
#[cfg(test)]
mod etcd;
#[cfg(test)]
mod habits;
#[cfg(test)]
mod import;
#[cfg(test)]
mod injection;
#[cfg(test)]
mod inside;
#[cfg(test)]
mod legacy;
#[cfg(test)]
mod lifecycle;
#[cfg(test)]
mod look;
#[cfg(test)]
mod project;
#[cfg(test)]
mod recovery;
#[cfg(test)]
mod rig;
#[cfg(test)]
mod run;
#[cfg(test)]
mod secrets;
#[cfg(test)]
mod shadow;
#[cfg(test)]
mod snapshot;
#[cfg(test)]
mod trouble;
#[cfg(test)]
mod upkeep;
