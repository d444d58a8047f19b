//! A scheduler process as its callers see it: real gRPC on loopback, with and without certificates.

#[cfg(test)]
mod access;
#[cfg(test)]
mod agent;
#[cfg(test)]
mod bench;
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
