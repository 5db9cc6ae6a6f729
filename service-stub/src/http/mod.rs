//! HTTP: requests in, answers out; nothing here knows what a host is.

pub mod answer;
pub mod body;
pub mod call;
pub mod file;
pub mod multipart;
pub mod range;

pub use answer::{Answer, Refusal};
pub use call::Call;
