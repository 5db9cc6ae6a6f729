//! What goes between the programs: recorded, taken apart, compared.

pub mod allowed;
pub mod compare;
pub mod exchange;
pub mod message;
pub mod relay;

pub use compare::Comparison;
pub use exchange::Exchange;
pub use relay::Relay;
