//! A spec as it came in, before anything is believed of it.
