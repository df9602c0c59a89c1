//! Clients for HTTP, and what is asked of one server. A machine that has no certificates of authorities can do without them
//! as long as it asks nothing by https.

use std::time::Duration;

use reqwest::header::{ACCEPT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderValue, TRANSFER_ENCODING};
use reqwest::{Client, ClientBuilder, RequestBuilder, Response, StatusCode, Version};

pub use crate::causes::causes;
use crate::read_error::Refusal;
use crate::{DecodeError, ReadError};

/// Prometheus gives a query up after 2 minutes by default (`--query.timeout`).
const TIMEOUT: Duration = Duration::from_secs(150);

/// Bytes that an answer may have which is read as a whole: a larger one is asked for in two halves. About 3 million samples
/// in JSON.
pub(crate) const ANSWER_BYTES: usize = 64 << 20;

/// Samples that are taken at once from an answer that is read as it comes: 64 MiB once decoded.
pub(crate) const SAMPLES: usize = 4 << 20;

/// A client for addresses of this scheme. Where the system has no certificates of authorities, https is an error.
///
/// # Errors
///
/// What is wrong with the builder's certificates, in words.
pub fn client(scheme: &str, builder: impl Fn() -> ClientBuilder) -> Result<Client, String> {
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

/// A server, by what stands before `/api/v1/`.
#[derive(Debug)]
pub(crate) struct Http {
    client: Client,
    base: String,
    headers: HeaderMap,
}

impl Http {
    pub(crate) fn new(client: Client, base: &str, headers: HeaderMap) -> Self {
        Self { client, base: base.trim_end_matches('/').to_owned(), headers }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}/api/v1/{path}", self.base)
    }

    /// The answer to a GET with these headers, whatever its status.
    pub(crate) async fn get(&self, url: &str, headers: HeaderMap) -> Result<Response, ReadError> {
        self.send(self.client.get(url).headers(headers), url).await
    }

    /// The answer to a POST of a body with these headers, whatever its status.
    pub(crate) async fn post(&self, url: &str, headers: HeaderMap, body: Vec<u8>) -> Result<Response, ReadError> {
        self.send(self.client.post(url).headers(headers).body(body), url).await
    }

    async fn send(&self, request: RequestBuilder, url: &str) -> Result<Response, ReadError> {
        let sent = request.headers(self.headers.clone()).timeout(TIMEOUT).send().await;
        sent.map_err(|error| ReadError::unanswered(url.to_owned(), error))
    }
}

/// What is asked, for errors: the address, and the query with its time range.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'a> {
    pub(crate) url: &'a str,
    pub(crate) what: &'a str,
}

impl Asked<'_> {
    /// The next bytes of the body; none at its end. What does not come in time is too much at once.
    pub(crate) async fn more(&self, response: &mut Response) -> Result<Option<impl AsRef<[u8]>>, ReadError> {
        response.chunk().await.map_err(|error| match error.is_timeout() {
            true => self.too_much(format!("the answer was not whole after {} s", TIMEOUT.as_secs())),
            false => ReadError::cut(self.url.to_owned(), error),
        })
    }

    /// The whole body.
    pub(crate) async fn body(&self, response: &mut Response) -> Result<Vec<u8>, ReadError> {
        let mut body = Vec::new();
        while let Some(bytes) = self.more(response).await? {
            let bytes = bytes.as_ref();
            if body.len() + bytes.len() > ANSWER_BYTES {
                return Err(self.too_much(format!("an answer of more than {ANSWER_BYTES} bytes")));
            }
            body.extend_from_slice(bytes);
        }
        Ok(body)
    }

    /// An answer with data, or what the server says instead. An answer that is read as it comes has to say where it ends:
    /// behind a proxy that speaks HTTP/1.0, the end of the connection would be the end of the answer.
    pub(crate) async fn accepted(&self, mut response: Response) -> Result<Response, ReadError> {
        let status = response.status();
        if status == StatusCode::OK {
            let says_its_end =
                [CONTENT_LENGTH, TRANSFER_ENCODING].iter().any(|name| response.headers().contains_key(name));
            if says_its_end || response.version() > Version::HTTP_11 {
                return Ok(response);
            }
            return Err(
                self.content("the answer does not say where it ends (is there a proxy with HTTP/1.0?)".to_owned())
            );
        }
        let body = self.body(&mut response).await?;
        Err(self.refusal(status, &body))
    }

    /// The error that an answer without data is.
    pub(crate) fn refusal(&self, status: StatusCode, body: &[u8]) -> ReadError {
        if status.is_success() {
            return self.content(format!("status {status}, expected 200 OK"));
        }
        let refusal: Refusal = serde_json::from_slice(body).unwrap_or_default();
        refusal.of(self.url.to_owned(), self.what, status, body)
    }

    /// The error of bytes that cannot be decoded.
    pub(crate) fn undecodable(&self, error: &DecodeError) -> ReadError {
        match error {
            DecodeError::BrokenOff(reason) => ReadError::BrokenOff { url: self.url.to_owned(), reason: reason.clone() },
            DecodeError::TooLarge { .. } => self.too_much(error.to_string()),
            DecodeError::Malformed(_) | DecodeError::UnknownEncoding(_) => self.content(error.to_string()),
        }
    }

    pub(crate) fn too_much(&self, reason: String) -> ReadError {
        ReadError::TooMuch { url: self.url.to_owned(), asked: self.what.to_owned(), reason }
    }

    pub(crate) fn content(&self, reason: String) -> ReadError {
        ReadError::Content { url: self.url.to_owned(), reason }
    }
}

/// Asks for an answer as it is, whose end can be told from its headers. What is packed already gains nothing by gzip.
pub(crate) fn unzipped() -> HeaderMap {
    HeaderMap::from_iter([(ACCEPT_ENCODING, HeaderValue::from_static("identity"))])
}

/// The type that an answer says its body has.
pub(crate) fn content_type(response: &Response) -> &str {
    response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default()
}
