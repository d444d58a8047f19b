//! A scheduler process as its callers see it: real gRPC on loopback, with and without certificates.

#[cfg(test)]
mod access;
#[cfg(test)]
mod agent;
#[cfg(test)]
mod bench;
#[cfg(test)]
#[path = "../../../../adapters/identity/tests/kv/double.rs"]
#[allow(dead_code, reason = "the tests of the client need all of it")]
mod double;
#[cfg(test)]
mod etcd;
#[cfg(test)]
mod legacy;
#[cfg(test)]
mod links;
#[cfg(test)]
mod refusal;
#[cfg(test)]
mod smoke;
#[cfg(test)]
mod stop;
#[cfg(test)]
mod stream;
#[cfg(test)]
mod vault;
