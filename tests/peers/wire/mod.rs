//! What goes between the programs: recorded, taken apart, compared.

pub(crate) mod allowed;
pub(crate) mod compare;
pub(crate) mod exchange;
pub(crate) mod message;
pub(crate) mod relay;

pub(crate) use compare::Comparison;
pub(crate) use exchange::Exchange;
pub(crate) use relay::Relay;
