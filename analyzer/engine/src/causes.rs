//! What stands behind an error.

/// An error with its causes: reqwest's own text names only the step that failed.
#[must_use]
pub fn causes(error: &reqwest::Error) -> String {
    let causes = std::iter::successors(std::error::Error::source(error), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}
