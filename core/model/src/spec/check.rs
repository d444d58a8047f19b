//! From draft to spec: every fault named, with its path.
