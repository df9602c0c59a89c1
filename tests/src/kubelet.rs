//! The kubelet's pod-resources API: a gRPC server on a unix socket.

pub mod wire;

use std::convert::Infallible;
use std::future::Ready;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use anyhow::{Context as _, Result};
use tokio::net::UnixListener as TokioListener;
use tokio::runtime::Runtime;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::body::Body;
use tonic::server::Grpc;
use tonic::transport::Server;
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;
use tower_service::Service;
use wire::{
    CdiDevice, ClaimResource, ContainerDevices, ContainerResources, DynamicResource, ListPodResourcesRequest,
    ListPodResourcesResponse, NumaNode, PodResources, TopologyInfo,
};

/// A running kubelet, as far as its pod-resources API goes. Dropping it closes its connections and leaves its socket
/// behind, as one that is killed does.
pub struct Kubelet {
    pods: Pods,
    _runtime: Runtime,
}

type Pods = Arc<Mutex<Vec<PodResources>>>;

impl Kubelet {
    /// Serves on this socket; one that is left over from another is replaced, as the kubelet does.
    pub fn start(socket: &Path, pods: Vec<PodResources>) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let listener = listen(socket)?;
        listener.set_nonblocking(true)?;
        let pods: Pods = Arc::new(Mutex::new(pods));
        let service = Lister(Arc::clone(&pods));
        let incoming = {
            let _entered = runtime.enter();
            UnixListenerStream::new(TokioListener::from_std(listener)?)
        };
        runtime.spawn(Server::builder().serve_with_incoming(service, incoming));
        Ok(Self { pods, _runtime: runtime })
    }

    /// Answers with these pods from now on.
    pub fn set(&self, pods: Vec<PodResources>) {
        *self.pods.lock().unwrap_or_else(PoisonError::into_inner) = pods;
    }
}

/// A socket that takes connections and never answers.
pub fn listen(socket: &Path) -> Result<UnixListener> {
    if let Err(error) = std::fs::remove_file(socket)
        && error.kind() != std::io::ErrorKind::NotFound
    {
        return Err(error).context("the old socket cannot be removed");
    }
    UnixListener::bind(socket).with_context(|| format!("cannot listen on {}", socket.display()))
}

/// Where the kubelet's socket is below a root; its folder is made.
pub fn socket(root: &Path) -> Result<PathBuf> {
    let folder = root.join("var/lib/kubelet/pod-resources");
    std::fs::create_dir_all(&folder)?;
    Ok(folder.join("kubelet.sock"))
}

/// A pod of the namespace `ml` with these containers.
pub fn pod(name: &str, containers: Vec<ContainerResources>) -> PodResources {
    PodResources { name: name.into(), namespace: "ml".into(), containers, ..PodResources::default() }
}

/// A container that a device plugin gave these devices. Each is on a NUMA node, and the container has CPUs of its own:
/// what the exporter does not read.
pub fn container(name: &str, resource: &str, ids: &[&str]) -> ContainerResources {
    let topology = Some(TopologyInfo { nodes: vec![NumaNode { id: 1 }] });
    let device = |id: &&str| ContainerDevices {
        resource_name: resource.into(),
        device_ids: vec![(*id).to_owned()],
        topology: topology.clone(),
    };
    let devices = ids.iter().map(device).collect();
    ContainerResources { name: name.into(), devices, cpu_ids: (0..32).collect(), ..ContainerResources::default() }
}

/// A container that was allocated a device of NVIDIA's DRA driver.
pub fn dra_container(name: &str, device: &str) -> ContainerResources {
    let claim = ClaimResource {
        cdi_devices: vec![CdiDevice { name: format!("k8s.gpu.nvidia.com/device={device}") }],
        driver_name: "gpu.nvidia.com".into(),
        pool_name: "gpu-node-1".into(),
        device_name: device.into(),
    };
    let resource =
        DynamicResource { claim_name: "gpu".into(), claim_namespace: "ml".into(), claim_resources: vec![claim] };
    ContainerResources { name: name.into(), dynamic_resources: vec![resource], ..ContainerResources::default() }
}

/// The service; any path but that of `List` is unimplemented.
#[derive(Clone)]
struct Lister(Pods);

impl Service<http::Request<Body>> for Lister {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let list = List(Arc::clone(&self.0));
        Box::pin(async move {
            if request.uri().path() != "/v1.PodResourcesLister/List" {
                return Ok(Status::unimplemented("no such method").into_http());
            }
            let codec: ProstCodec<ListPodResourcesResponse, ListPodResourcesRequest> = ProstCodec::default();
            Ok(Grpc::new(codec).unary(list, request).await)
        })
    }
}

struct List(Pods);

impl Service<Request<ListPodResourcesRequest>> for List {
    type Response = Response<ListPodResourcesResponse>;
    type Error = Status;
    type Future = Ready<Result<Self::Response, Status>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Status>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<ListPodResourcesRequest>) -> Self::Future {
        let pod_resources = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        std::future::ready(Ok(Response::new(ListPodResourcesResponse { pod_resources })))
    }
}
