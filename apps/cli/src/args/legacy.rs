//! Commands as older versions spell them. They print JSON and keep their options.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Groups of old commands.
#[derive(Debug, Subcommand)]
pub(crate) enum LegacyGroup {
    /// Workloads, as older versions spell it.
    #[command(subcommand, hide = true)]
    Workload(WorkloadCommand),
    /// The scheduler, as older versions spell it.
    #[command(subcommand, hide = true)]
    Scheduler(SchedulerCommand),
    /// An agent, directly.
    #[command(hide = true)]
    Agent(AgentGroup),
    /// The cluster's numbers, as older versions show them.
    #[command(hide = true)]
    Metrics,
}

/// `workload …`.
#[derive(Debug, Subcommand)]
pub(crate) enum WorkloadCommand {
    /// Apply a spec.
    Schedule(Box<WorkloadSchedule>),
    /// List workloads.
    List {
        /// Only those in this state.
        #[arg(long, default_value = "")]
        status: String,
        /// Only those on this node.
        #[arg(long, default_value = "")]
        node_id: String,
    },
    /// Show one.
    Get(OldId),
    /// Delete one.
    Delete(OldId),
    /// Try one again.
    Retry(OldId),
    /// Start one.
    Start(OldId),
    /// Stop one.
    Stop(OldId),
    /// Stop one and start it.
    Restart(OldId),
}

/// Which one.
#[derive(Debug, Args)]
pub(crate) struct OldId {
    /// Its id.
    #[arg(long, alias = "workload-id")]
    pub(crate) id: String,
}

/// `workload schedule`.
#[derive(Debug, Args)]
pub(crate) struct WorkloadSchedule {
    /// A spec file.
    pub(crate) file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) spec: ApplySpec,
    /// The container's image.
    #[arg(long)]
    pub(crate) image: Option<String>,
    /// The container's command.
    #[arg(long)]
    pub(crate) command: Option<String>,
    /// A Compose file's text.
    #[arg(long)]
    pub(crate) compose: Option<String>,
    /// A repository with a Compose file.
    #[arg(long)]
    pub(crate) git_repo: Option<String>,
    /// Its branch.
    #[arg(long, default_value = "main")]
    pub(crate) git_branch: String,
    /// Not supported.
    #[arg(long)]
    pub(crate) git_token: Option<String>,
    /// Not supported.
    #[arg(long)]
    pub(crate) local_path: Option<String>,
    /// k=v,k=v.
    #[arg(long, value_delimiter = ',')]
    pub(crate) env: Vec<String>,
    /// host:container/protocol.
    #[arg(long, value_delimiter = ',')]
    pub(crate) ports: Vec<String>,
    /// host:container[:ro].
    #[arg(long, value_delimiter = ',')]
    pub(crate) volumes: Vec<String>,
    /// Not supported.
    #[arg(long)]
    pub(crate) network: Option<String>,
    /// no, always, on-failure, unless-stopped.
    #[arg(long, default_value = "no")]
    pub(crate) restart_policy: String,
}

/// What old apply commands share.
#[derive(Debug, Args)]
pub(crate) struct ApplySpec {
    /// Its id.
    #[arg(long, alias = "workload-id")]
    pub(crate) id: Option<String>,
    /// Another word for the id.
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// container, compose or vm.
    #[arg(long = "type")]
    pub(crate) kind: Option<String>,
    /// A spec file.
    #[arg(long)]
    pub(crate) spec_file: Option<PathBuf>,
    /// Name of this version.
    #[arg(long, alias = "revision-id", default_value = "rev-1")]
    pub(crate) revision: String,
    /// running or stopped.
    #[arg(long, default_value = "running")]
    pub(crate) desired_state: String,
}

/// `scheduler …`.
#[derive(Debug, Subcommand)]
pub(crate) enum SchedulerCommand {
    /// Count nodes and workloads.
    Summary,
    /// Apply a spec.
    Apply(ApplySpec),
    /// Apply a container.
    ApplyContainer(ApplySpec),
    /// Apply a VM.
    ApplyVm(ApplySpec),
    /// Delete a workload.
    DeleteWorkload {
        /// Which.
        #[arg(long)]
        workload_id: String,
    },
    /// Try a workload again.
    RetryWorkload {
        /// Which.
        #[arg(long)]
        workload_id: String,
    },
    /// Show a workload.
    GetWorkload {
        /// Which.
        #[arg(long)]
        workload_id: String,
    },
    /// List nodes.
    ListNodes {
        /// Only those in this state.
        #[arg(long, default_value = "")]
        status: String,
    },
    /// Show a node.
    GetNode {
        /// Which.
        #[arg(long)]
        node_id: String,
    },
    /// List workloads.
    ListWorkloads {
        /// Only those in this state.
        #[arg(long, default_value = "")]
        status: String,
        /// Only those on this node.
        #[arg(long, default_value = "")]
        filter_node_id: String,
    },
}

/// `agent …`.
#[derive(Debug, Args)]
pub(crate) struct AgentGroup {
    /// Whose agent; asked of the scheduler when not given.
    #[arg(long = "of", alias = "agent-node", global = true, value_name = "NODE")]
    pub(crate) of: Option<String>,
    #[command(subcommand)]
    pub(crate) command: AgentCommand,
}

/// What an agent is asked.
#[derive(Debug, Subcommand)]
pub(crate) enum AgentCommand {
    /// How it is.
    Health,
    /// Have it run something.
    Apply(ApplySpec),
    /// How a workload is.
    Status(OldId),
    /// What it has.
    List {
        /// Only this type.
        #[arg(long = "type")]
        kind: Option<String>,
    },
    /// Have it remove something.
    Delete(OldId),
    /// What it did.
    ListActions(ListActions),
}

/// Which actions.
#[derive(Debug, Args)]
pub(crate) struct ListActions {
    /// Of this workload.
    #[arg(long, default_value = "")]
    pub(crate) workload_id: String,
    /// Of this type.
    #[arg(long, default_value = "")]
    pub(crate) action_type: String,
    /// In this state.
    #[arg(long, default_value = "")]
    pub(crate) action_status: String,
    /// At most so many.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(i32).range(0..))]
    pub(crate) action_limit: i32,
    /// The newest first.
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true")]
    pub(crate) newest_first: bool,
}
