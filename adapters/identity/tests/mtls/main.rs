//! Real gRPC over real connections: who gets through, who does not, and what changes meanwhile.

#[cfg(test)]
mod bench;
#[cfg(test)]
mod foreign;
#[cfg(test)]
mod listener;
#[cfg(test)]
mod openssl;
#[cfg(test)]
mod refusal;
#[cfg(test)]
mod resumption;
#[cfg(test)]
mod revocation;
#[cfg(test)]
mod rotation;
