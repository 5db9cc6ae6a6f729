//! Errors in a line.

use std::error::Error;

/// An error with all its causes, a colon before each.
pub fn in_full(error: &dyn Error) -> String {
    let causes = std::iter::successors(error.source(), |&cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{0}")]
    struct Failure(&'static str, #[source] Option<Box<Failure>>);

    #[test]
    fn causes_follow_in_their_order() {
        let cause = |text, cause| Some(Box::new(Failure(text, cause)));
        assert_eq!(in_full(&Failure("a", cause("b", cause("c", None)))), "a: b: c");
        assert_eq!(in_full(&Failure("alone", None)), "alone");
    }
}
