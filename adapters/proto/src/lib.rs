//! The wire contract: generated code and conversions.
