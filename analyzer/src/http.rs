//! Clients for HTTP. A machine that has no certificates of authorities can do without them as long as it asks nothing
//! by https.

use reqwest::{Client, ClientBuilder};

/// A client for addresses of this scheme. Where the system has no certificates of authorities, https is an error.
pub(crate) fn client(scheme: &str, builder: impl Fn() -> ClientBuilder) -> Result<Client, String> {
    // An error says that the process has chosen a provider already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    match builder().build() {
        // Without authorities no certificate is accepted: a redirect to https fails.
        Err(_) if scheme == "http" => builder().tls_certs_only([]).build(),
        built => built,
    }
    .map_err(|error| match scheme {
        "https" => format!("{}; https needs certificates of authorities: install ca-certificates", causes(&error)),
        _ => causes(&error),
    })
}

/// An error with its causes: reqwest's own text names only the step that failed.
pub(crate) fn causes(error: &reqwest::Error) -> String {
    let causes = std::iter::successors(std::error::Error::source(error), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}
