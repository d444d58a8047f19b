//! Checks of the repository itself: layers, sizes, names, documents.
