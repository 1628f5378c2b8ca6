//! HashPipe's tests.

mod naive;
mod oracle;
