//! What leaves for other tools by itself: epochs, each once its answers are final, metrics and log records. Threads
//! send it that neither workers nor the collector wait for.

pub mod ipfix;
pub mod otlp;
