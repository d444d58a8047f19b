//! One of the runtimes of this node.

use std::collections::BTreeSet;
use std::sync::Arc;

use persys_model::id::WorkloadId;
use persys_model::spec::WorkloadType;
use persys_runtime::inside::Console;
use persys_runtime::{Error, Evidence, Exec, Logs, Runtime, Usage, Wakeups};

use crate::memory::Memory;

/// One runtime and what it runs.
#[derive(Clone)]
pub(super) struct Part {
    pub(super) types: BTreeSet<WorkloadType>,
    /// Of what it may have something, offered or not.
    pub(super) kinds: BTreeSet<WorkloadType>,
    pub(super) memory: Arc<Memory>,
    pub(super) runtime: Arc<dyn Runtime>,
    pub(super) wakeups: Arc<dyn Wakeups>,
    pub(super) evidence: Arc<dyn Evidence>,
    pub(super) logs: Arc<dyn Logs>,
    pub(super) exec: Arc<dyn Exec>,
    pub(super) usage: Arc<dyn Usage>,
    /// What has consoles; most runtimes have none.
    pub(super) console: Option<Arc<dyn Console>>,
}

impl Part {
    /// The answer of a runtime about one workload. For one that is away and never had it, it is so; also for
    /// one that is switched off and never answered: without it, nothing else on the node could be started.
    /// What it may still have is found as a leftover when it comes.
    pub(super) fn about<T: Default>(
        &self,
        workload: &WorkloadId,
        answer: Result<T, Error>,
    ) -> Result<T, Error> {
        match answer {
            Err(error) if error.is_unknown() && self.passed_over(workload) => Ok(T::default()),
            answer => answer,
        }
    }

    pub(super) fn passed_over(&self, workload: &WorkloadId) -> bool {
        self.memory.lacks(workload) || (self.types.is_empty() && self.memory.is_untold())
    }

    pub(super) fn new<R>(types: BTreeSet<WorkloadType>, runtime: R) -> Self
    where
        R: Runtime + Wakeups + Evidence + Logs + Exec + Usage + Clone + 'static,
    {
        let runtime = Arc::new(runtime);
        Self {
            kinds: types.clone(),
            types,
            memory: Arc::default(),
            wakeups: Arc::<R>::clone(&runtime),
            evidence: Arc::<R>::clone(&runtime),
            logs: Arc::<R>::clone(&runtime),
            exec: Arc::<R>::clone(&runtime),
            usage: Arc::<R>::clone(&runtime),
            console: None,
            runtime,
        }
    }

    pub(super) fn with_console(mut self, console: impl Console + 'static) -> Self {
        self.console = Some(Arc::new(console));
        self
    }
}
