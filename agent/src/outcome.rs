//! What came of a step.

/// How a child ended, in the words of a reply.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Its exit code; -1 when it was killed or never ran.
    pub exit_code: i64,
    pub output: String,
    /// The end of its log, or why there is none.
    pub error: String,
}

impl Outcome {
    pub(crate) fn failed(error: impl Into<String>) -> Self {
        Self { exit_code: -1, output: String::new(), error: error.into() }
    }
}
