//! See the tree in ARCHITECTURE.md.
