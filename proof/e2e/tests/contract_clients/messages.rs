//! The messages as the contract has them, written down here once more: no field of ours can slip in.

use std::collections::HashMap;

/// `persys.control.v1`, as far as its clients in the field use it.
pub(crate) mod control {
    use super::HashMap;

    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct NodeCapabilities {
        #[prost(int64, tag = "1")]
        pub cpu_total_millicores: i64,
        #[prost(int64, tag = "2")]
        pub memory_total_mb: i64,
        #[prost(string, repeated, tag = "4")]
        pub supported_workload_types: Vec<String>,
        #[prost(string, repeated, tag = "5")]
        pub supported_storage_drivers: Vec<String>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct RegisterNodeRequest {
        #[prost(string, tag = "1")]
        pub node_id: String,
        #[prost(message, optional, tag = "2")]
        pub capabilities: Option<NodeCapabilities>,
        #[prost(map = "string, string", tag = "3")]
        pub labels: HashMap<String, String>,
        #[prost(string, tag = "4")]
        pub agent_version: String,
        #[prost(string, tag = "5")]
        pub grpc_endpoint: String,
        #[prost(string, tag = "6")]
        pub cluster_id: String,
        #[prost(message, optional, tag = "7")]
        pub timestamp: Option<prost_types::Timestamp>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct RegisterNodeResponse {
        #[prost(bool, tag = "1")]
        pub accepted: bool,
        #[prost(string, tag = "2")]
        pub reason: String,
        #[prost(int32, tag = "3")]
        pub heartbeat_interval_seconds: i32,
        #[prost(message, optional, tag = "4")]
        pub lease_expires_at: Option<prost_types::Timestamp>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct NodeUsage {
        #[prost(int64, tag = "1")]
        pub cpu_allocated_millicores: i64,
        #[prost(int64, tag = "2")]
        pub cpu_used_millicores: i64,
        #[prost(int64, tag = "3")]
        pub memory_allocated_mb: i64,
        #[prost(int64, tag = "4")]
        pub memory_used_mb: i64,
        #[prost(int64, tag = "5")]
        pub disk_allocated_gb: i64,
        #[prost(int64, tag = "6")]
        pub disk_used_gb: i64,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct HeartbeatRequest {
        #[prost(string, tag = "1")]
        pub node_id: String,
        #[prost(message, optional, tag = "2")]
        pub usage: Option<NodeUsage>,
        #[prost(message, repeated, tag = "3")]
        pub workload_statuses: Vec<HeartbeatStatus>,
        #[prost(message, optional, tag = "4")]
        pub timestamp: Option<prost_types::Timestamp>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct HeartbeatStatus {
        #[prost(string, tag = "1")]
        pub workload_id: String,
        #[prost(string, tag = "2")]
        pub state: String,
        #[prost(int32, tag = "3")]
        pub failure_reason: i32,
        #[prost(string, tag = "4")]
        pub message: String,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct HeartbeatResponse {
        #[prost(bool, tag = "1")]
        pub acknowledged: bool,
        #[prost(bool, tag = "2")]
        pub drain_node: bool,
        #[prost(message, optional, tag = "3")]
        pub lease_expires_at: Option<prost_types::Timestamp>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct ResourceRequirements {
        #[prost(int64, tag = "1")]
        pub cpu_millicores: i64,
        #[prost(int64, tag = "2")]
        pub memory_mb: i64,
        #[prost(int64, tag = "3")]
        pub disk_gb: i64,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct ContainerSpec {
        #[prost(string, tag = "1")]
        pub image: String,
        #[prost(string, repeated, tag = "2")]
        pub command: Vec<String>,
        #[prost(string, tag = "6")]
        pub restart_policy: String,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct ComposeSpec {
        #[prost(string, tag = "1")]
        pub source_type: String,
        #[prost(string, tag = "2")]
        pub git_repo: String,
        #[prost(string, tag = "3")]
        pub git_ref: String,
        #[prost(string, tag = "4")]
        pub inline_yaml: String,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct DiskConfig {
        #[prost(string, tag = "1")]
        pub pool_name: String,
        #[prost(int64, tag = "2")]
        pub size_gb: i64,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct NetworkConfig {
        #[prost(string, tag = "1")]
        pub bridge: String,
        #[prost(bool, tag = "2")]
        pub dhcp: bool,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct VmSpec {
        #[prost(int32, tag = "1")]
        pub vcpus: i32,
        #[prost(int64, tag = "2")]
        pub memory_mb: i64,
        #[prost(message, repeated, tag = "3")]
        pub disks: Vec<DiskConfig>,
        #[prost(message, repeated, tag = "4")]
        pub networks: Vec<NetworkConfig>,
        #[prost(string, tag = "6")]
        pub os_image: String,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct WorkloadSpec {
        #[prost(string, tag = "1")]
        pub kind: String,
        #[prost(message, optional, tag = "2")]
        pub resources: Option<ResourceRequirements>,
        #[prost(message, optional, tag = "10")]
        pub container: Option<ContainerSpec>,
        #[prost(message, optional, tag = "11")]
        pub compose: Option<ComposeSpec>,
        #[prost(message, optional, tag = "12")]
        pub vm: Option<VmSpec>,
        #[prost(map = "string, string", tag = "20")]
        pub metadata: HashMap<String, String>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct ApplyWorkloadRequest {
        #[prost(string, tag = "1")]
        pub workload_id: String,
        #[prost(message, optional, tag = "2")]
        pub spec: Option<WorkloadSpec>,
        #[prost(string, tag = "10")]
        pub revision_id: String,
        #[prost(string, tag = "11")]
        pub desired_state: String,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct ApplyWorkloadResponse {
        #[prost(bool, tag = "1")]
        pub success: bool,
        #[prost(int32, tag = "2")]
        pub failure_reason: i32,
        #[prost(string, tag = "3")]
        pub error_message: String,
    }

    /// Requests that name one thing: `1 workload_id`, `1 node_id`, `1 status`.
    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct Named {
        #[prost(string, tag = "1")]
        pub name: String,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct DeleteWorkloadResponse {
        #[prost(bool, tag = "1")]
        pub success: bool,
        #[prost(string, tag = "2")]
        pub error_message: String,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct RetryWorkloadResponse {
        #[prost(bool, tag = "1")]
        pub accepted: bool,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct NodeView {
        #[prost(string, tag = "1")]
        pub node_id: String,
        #[prost(string, tag = "2")]
        pub status: String,
        #[prost(message, optional, tag = "6")]
        pub last_heartbeat: Option<prost_types::Timestamp>,
        #[prost(string, tag = "7")]
        pub grpc_endpoint: String,
        #[prost(double, tag = "8")]
        pub total_cpu_cores: f64,
        #[prost(double, tag = "9")]
        pub available_cpu_cores: f64,
        #[prost(int64, tag = "10")]
        pub total_memory_mb: i64,
        #[prost(int64, tag = "11")]
        pub available_memory_mb: i64,
        #[prost(string, repeated, tag = "12")]
        pub supported_workload_types: Vec<String>,
        #[prost(map = "string, string", tag = "13")]
        pub labels: HashMap<String, String>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct ListNodesResponse {
        #[prost(message, repeated, tag = "1")]
        pub nodes: Vec<NodeView>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct GetNodeResponse {
        #[prost(message, optional, tag = "1")]
        pub node: Option<NodeView>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct ListWorkloadsRequest {
        #[prost(string, tag = "1")]
        pub node_id: String,
        #[prost(string, tag = "2")]
        pub status: String,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct ReasonDetail {
        #[prost(string, tag = "1")]
        pub code: String,
        #[prost(string, tag = "2")]
        pub message: String,
        #[prost(message, optional, tag = "3")]
        pub last_transition: Option<prost_types::Timestamp>,
        #[prost(bool, tag = "5")]
        pub retryable: bool,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct WorkloadView {
        #[prost(string, tag = "1")]
        pub workload_id: String,
        #[prost(string, tag = "2")]
        pub kind: String,
        #[prost(string, tag = "3")]
        pub desired_state: String,
        #[prost(string, tag = "4")]
        pub status: String,
        #[prost(string, tag = "5")]
        pub assigned_node_id: String,
        #[prost(string, tag = "6")]
        pub revision_id: String,
        #[prost(string, tag = "10")]
        pub failure_reason: String,
        #[prost(message, optional, tag = "11")]
        pub last_updated: Option<prost_types::Timestamp>,
        #[prost(message, optional, tag = "12")]
        pub reason: Option<ReasonDetail>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct ListWorkloadsResponse {
        #[prost(message, repeated, tag = "1")]
        pub workloads: Vec<WorkloadView>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct GetWorkloadResponse {
        #[prost(message, optional, tag = "1")]
        pub workload: Option<WorkloadView>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct GetClusterSummaryResponse {
        #[prost(int32, tag = "1")]
        pub total_nodes: i32,
        #[prost(int32, tag = "2")]
        pub ready_nodes: i32,
        #[prost(int32, tag = "4")]
        pub total_workloads: i32,
        #[prost(int32, tag = "5")]
        pub running_workloads: i32,
        #[prost(int32, tag = "6")]
        pub pending_workloads: i32,
        #[prost(message, optional, tag = "9")]
        pub generated_at: Option<prost_types::Timestamp>,
    }
}

/// `persys.agent.v1`, as far as its clients in the field use it.
pub(crate) mod agent {
    use super::HashMap;

    pub(crate) const RUNNING: i32 = 1;
    pub(crate) const STOPPED: i32 = 2;
    pub(crate) const ACTUALLY_PENDING: i32 = 1;
    pub(crate) const ACTUALLY_RUNNING: i32 = 2;
    pub(crate) const ACTUALLY_STOPPED: i32 = 3;
    pub(crate) const ACTUALLY_FAILED: i32 = 4;

    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct ContainerSpec {
        #[prost(string, tag = "1")]
        pub image: String,
        #[prost(string, repeated, tag = "2")]
        pub command: Vec<String>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct ComposeSpec {
        #[prost(string, tag = "1")]
        pub project_name: String,
        #[prost(string, tag = "2")]
        pub compose_yaml: String,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct DiskConfig {
        #[prost(string, tag = "1")]
        pub path: String,
        #[prost(string, tag = "2")]
        pub device: String,
        #[prost(string, tag = "3")]
        pub format: String,
        #[prost(int64, tag = "4")]
        pub size_gb: i64,
        #[prost(string, tag = "5")]
        pub kind: String,
        #[prost(bool, tag = "6")]
        pub boot: bool,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct VmSpec {
        #[prost(string, tag = "1")]
        pub name: String,
        #[prost(int32, tag = "2")]
        pub vcpus: i32,
        #[prost(int64, tag = "3")]
        pub memory_mb: i64,
        #[prost(message, repeated, tag = "4")]
        pub disks: Vec<DiskConfig>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct WorkloadSpec {
        #[prost(message, optional, tag = "1")]
        pub container: Option<ContainerSpec>,
        #[prost(message, optional, tag = "2")]
        pub compose: Option<ComposeSpec>,
        #[prost(message, optional, tag = "3")]
        pub vm: Option<VmSpec>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct ApplyWorkloadRequest {
        #[prost(string, tag = "1")]
        pub id: String,
        #[prost(int32, tag = "2")]
        pub kind: i32,
        #[prost(string, tag = "3")]
        pub revision_id: String,
        #[prost(int32, tag = "4")]
        pub desired_state: i32,
        #[prost(message, optional, tag = "5")]
        pub spec: Option<WorkloadSpec>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct WorkloadStatus {
        #[prost(string, tag = "1")]
        pub id: String,
        #[prost(int32, tag = "2")]
        pub kind: i32,
        #[prost(string, tag = "3")]
        pub revision_id: String,
        #[prost(int32, tag = "4")]
        pub desired_state: i32,
        #[prost(int32, tag = "5")]
        pub actual_state: i32,
        #[prost(string, tag = "6")]
        pub message: String,
        #[prost(int64, tag = "7")]
        pub created_at: i64,
        #[prost(map = "string, string", tag = "9")]
        pub metadata: HashMap<String, String>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct ApplyWorkloadResponse {
        #[prost(bool, tag = "1")]
        pub applied: bool,
        #[prost(bool, tag = "2")]
        pub skipped: bool,
        #[prost(string, tag = "3")]
        pub message: String,
        #[prost(message, optional, tag = "4")]
        pub status: Option<WorkloadStatus>,
    }

    /// Requests that name one workload: `1 id`.
    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct Named {
        #[prost(string, tag = "1")]
        pub id: String,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct DeleteWorkloadResponse {
        #[prost(bool, tag = "1")]
        pub success: bool,
        #[prost(string, tag = "2")]
        pub message: String,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct GetWorkloadStatusResponse {
        #[prost(message, optional, tag = "1")]
        pub status: Option<WorkloadStatus>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct ListWorkloadsRequest {
        #[prost(int32, tag = "1")]
        pub kind: i32,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct ListWorkloadsResponse {
        #[prost(message, repeated, tag = "1")]
        pub workloads: Vec<WorkloadStatus>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct HealthCheckResponse {
        #[prost(bool, tag = "1")]
        pub healthy: bool,
        #[prost(string, tag = "2")]
        pub version: String,
        #[prost(map = "string, string", tag = "3")]
        pub runtime_status: HashMap<String, String>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct ListActionsRequest {
        #[prost(string, tag = "1")]
        pub workload_id: String,
        #[prost(string, tag = "2")]
        pub action_type: String,
        #[prost(string, tag = "3")]
        pub status: String,
        #[prost(int32, tag = "4")]
        pub limit: i32,
        #[prost(bool, tag = "5")]
        pub newest_first: bool,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct AgentAction {
        #[prost(string, tag = "1")]
        pub task_id: String,
        #[prost(string, tag = "2")]
        pub workload_id: String,
        #[prost(string, tag = "3")]
        pub action_type: String,
        #[prost(string, tag = "4")]
        pub status: String,
        #[prost(string, tag = "5")]
        pub error: String,
        #[prost(int64, tag = "6")]
        pub created_at: i64,
        #[prost(int64, tag = "7")]
        pub started_at: i64,
        #[prost(int64, tag = "8")]
        pub ended_at: i64,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct ListActionsResponse {
        #[prost(message, repeated, tag = "1")]
        pub actions: Vec<AgentAction>,
    }
}
