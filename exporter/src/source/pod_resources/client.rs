//! One call of `List`, over a connection of its own.

use std::io;
use std::path::Path;
use std::task::{Context, Poll};
use std::time::Duration;

use http::uri::PathAndQuery;
use http::{Request, Uri};
use hyper::body::Incoming;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::UnixStream;
use tokio::time::timeout;
use tonic::body::Body;
use tonic::client::Grpc;
use tonic::{Code, Status};
use tonic_prost::ProstCodec;

use super::proto::{ListRequest, ListResponse, Pod};

/// Longest answer that is read. A pod with a GPU takes 100 to 300 bytes, so this is thousands of them; the kubelet's own
/// limit is 16 MiB, which would cost this program several times its memory.
pub(super) const MAX_ANSWER_BYTES: usize = 4 << 20;

/// How long connecting, asking and reading the answer may take. The kubelet answers from memory, in milliseconds.
const DEADLINE: Duration = Duration::from_secs(5);

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Failure {
    #[error("the socket is not there")]
    Absent,
    #[error("permission denied")]
    Denied,
    #[error("no answer within {} s", DEADLINE.as_secs())]
    TimedOut,
    #[error("its answer is longer than {} MiB, the longest that is read", MAX_ANSWER_BYTES >> 20)]
    TooLarge,
    #[error("{0}")]
    Other(String),
}

/// The allocations of every pod. Nothing of the call outlives it, not even when the other side hangs.
pub(super) fn list(socket: &Path) -> Result<Vec<Pod>, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
    runtime.block_on(async { timeout(DEADLINE, ask(socket)).await.unwrap_or(Err(Failure::TimedOut)) })
}

async fn ask(socket: &Path) -> Result<Vec<Pod>, Failure> {
    let stream = TokioIo::new(UnixStream::connect(socket).await?);
    let broken = |error: hyper::Error| Failure::Other(format!("it speaks no HTTP/2: {error}"));
    let (sender, connection) = http2::handshake(TokioExecutor::new(), stream).await.map_err(broken)?;
    // Its errors are those of the call that runs over it.
    tokio::spawn(connection);
    // A unix socket has no host; servers want an authority all the same.
    let client = Grpc::with_origin(Connection(sender), Uri::from_static("http://localhost"));
    let mut client = client.max_decoding_message_size(MAX_ANSWER_BYTES);
    client.ready().await.map_err(broken)?;
    let path = PathAndQuery::from_static("/v1.PodResourcesLister/List");
    let codec: ProstCodec<ListRequest, ListResponse> = ProstCodec::default();
    Ok(client.unary(tonic::Request::new(ListRequest {}), path, codec).await?.into_inner().pods)
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound => Self::Absent,
            io::ErrorKind::PermissionDenied => Self::Denied,
            _ => Self::Other(error.to_string()),
        }
    }
}

impl From<Status> for Failure {
    fn from(status: Status) -> Self {
        match status.code() {
            // What tonic says of a message beyond the limit.
            Code::OutOfRange => Self::TooLarge,
            code => Self::Other(format!("{code:?}: {}", status.message())),
        }
    }
}

/// hyper's connection as tonic's client wants it.
struct Connection(SendRequest<Body>);

impl tower_service::Service<Request<Body>> for Connection {
    type Response = http::Response<Incoming>;
    type Error = hyper::Error;
    type Future = std::pin::Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(self.0.send_request(request))
    }
}
