//! HashPipe's tests.

mod oracle;
