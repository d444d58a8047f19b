//! Types of workloads that the operator switched off on this node.
//!
//! Docker is asked all the same: what it ran before is ours to see and to remove. Without that, a container
//! that was left behind would count as gone, and be started a second time elsewhere.

use std::sync::{Arc, Mutex};

use persys_model::spec::WorkloadType;
use persys_runtime::compose::Compose;
use persys_runtime::docker::Docker;

use super::{Part, Runtimes, unsupported};

impl Runtimes {
    /// Neither containers nor stacks.
    #[must_use]
    pub fn without_containers(docker: Docker, compose: Compose) -> Self {
        let why = "containers and stacks are switched off on this node; see PERSYS_DOCKER_ENABLED";
        let why: Arc<str> = Arc::from(why);
        let mut missing = unsupported();
        for kind in [WorkloadType::Container, WorkloadType::Compose] {
            missing.insert(kind, Arc::clone(&why));
        }
        let mut parts = vec![
            Part::new([WorkloadType::Container].into(), docker),
            Part::new([WorkloadType::Compose].into(), compose),
        ];
        for part in &mut parts {
            part.types.clear();
        }
        Self { parts, missing: Arc::new(Mutex::new(missing)), usages: Arc::default() }
    }

    /// No virtual machines.
    #[must_use]
    pub fn without_machines(self) -> Self {
        let why = "virtual machines are switched off on this node; see PERSYS_VM_ENABLED";
        self.lacks().insert(WorkloadType::Vm, Arc::from(why));
        self
    }
}
