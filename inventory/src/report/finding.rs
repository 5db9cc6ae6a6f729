//! Something that one part of the report has to say about one thing in it.

/// A line of the page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Finding {
    /// Whether something is not as it should be; else it may be intended.
    pub is_warning: bool,
    /// What it is said of.
    pub of: String,
    /// What is said.
    pub text: String,
}

impl Finding {
    pub(super) fn warning(of: &str, text: impl Into<String>) -> Self {
        Self { is_warning: true, of: of.to_owned(), text: text.into() }
    }

    pub(super) fn note(of: &str, text: impl Into<String>) -> Self {
        Self { is_warning: false, of: of.to_owned(), text: text.into() }
    }
}
