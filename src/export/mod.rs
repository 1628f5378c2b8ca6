//! What leaves for other tools by itself. Each epoch is exported once, when its answers are final, by a thread
//! that neither workers nor the collector wait for.

pub mod ipfix;
