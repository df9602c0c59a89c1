//! The messages of the kubelet's `v1.PodResourcesLister`, as far as they are used: fields left out here are skipped when
//! an answer is read, and take no memory. The numbers are those of the published `podresources/v1/api.proto`.

use prost::Message;

/// The request of `List`.
#[derive(Clone, PartialEq, Message)]
pub struct ListRequest {}

/// The answer of `List`.
#[derive(Clone, PartialEq, Message)]
pub struct ListResponse {
    /// Every pod of the node.
    #[prost(message, repeated, tag = "1")]
    pub pods: Vec<Pod>,
}

/// What was allocated to a pod.
#[derive(Clone, PartialEq, Message)]
pub struct Pod {
    /// Name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Namespace.
    #[prost(string, tag = "2")]
    pub namespace: String,
    /// Its containers.
    #[prost(message, repeated, tag = "3")]
    pub containers: Vec<Container>,
}

/// What was allocated to a container.
#[derive(Clone, PartialEq, Message)]
pub struct Container {
    /// Name within the pod.
    #[prost(string, tag = "1")]
    pub name: String,
    /// By device plugins.
    #[prost(message, repeated, tag = "2")]
    pub devices: Vec<Devices>,
    /// By dynamic resource allocation.
    #[prost(message, repeated, tag = "5")]
    pub dynamic_resources: Vec<DynamicResource>,
}

/// Devices of one resource; a resource may come in several of these, one per NUMA node.
#[derive(Clone, PartialEq, Message)]
pub struct Devices {
    /// For example `nvidia.com/gpu`.
    #[prost(string, tag = "1")]
    pub resource_name: String,
    /// The plugin's ids.
    #[prost(string, repeated, tag = "2")]
    pub device_ids: Vec<String>,
}

/// A resource claim.
#[derive(Clone, PartialEq, Message)]
pub struct DynamicResource {
    /// What was allocated to it.
    #[prost(message, repeated, tag = "4")]
    pub claim_resources: Vec<ClaimResource>,
}

/// A device of a resource claim.
#[derive(Clone, PartialEq, Message)]
pub struct ClaimResource {
    /// How the container gets it.
    #[prost(message, repeated, tag = "1")]
    pub cdi_devices: Vec<CdiDevice>,
    /// Whose device it is; kubelets before 1.31 do not say.
    #[prost(string, tag = "2")]
    pub driver_name: String,
    /// Its name within the pool; kubelets before 1.31 do not say.
    #[prost(string, tag = "4")]
    pub device_name: String,
}

/// A device of the Container Device Interface.
#[derive(Clone, PartialEq, Message)]
pub struct CdiDevice {
    /// `VENDOR/CLASS=NAME`
    #[prost(string, tag = "1")]
    pub name: String,
}
