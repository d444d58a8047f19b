//! What a test asks a cluster for: one container.

use persys_proto::control::v1 as api;

/// A container to ask for.
#[derive(Debug, Clone)]
pub struct Wish {
    /// The workload.
    pub id: String,
    /// The version.
    pub revision: String,
    /// What runs.
    pub container: api::ContainerSpec,
    /// Thousandths of a core.
    pub cpu_millicores: i64,
    /// On nodes with this runtime only.
    pub runtime: Option<&'static str>,
}

impl Wish {
    /// A shell that runs `script` in the image of the tests.
    #[must_use]
    pub fn shell(id: &str, script: &str) -> Self {
        let (key, value) = crate::engine::LABEL;
        let container = api::ContainerSpec {
            image: crate::engine::IMAGE.to_owned(),
            command: ["/bin/sh", "-c", script].map(ToOwned::to_owned).to_vec(),
            labels: [(key.to_owned(), value.to_owned())].into(),
            restart_policy: "always".to_owned(),
            ..api::ContainerSpec::default()
        };
        let (id, revision) = (id.to_owned(), "r1".to_owned());
        Self { id, revision, container, cpu_millicores: 10, runtime: None }
    }

    /// One that runs until it is asked to end, and then ends at once.
    #[must_use]
    pub fn runs(id: &str) -> Self {
        Self::shell(id, "trap 'exit 0' TERM; sleep 100000 & wait")
    }

    /// The same in another version.
    #[must_use]
    pub fn revised(mut self, revision: &str) -> Self {
        revision.clone_into(&mut self.revision);
        self.container.env.insert("REVISION".to_owned(), revision.to_owned());
        self
    }

    /// What the scheduler is asked.
    #[must_use]
    pub fn request(&self) -> api::ApplyWorkloadRequest {
        let constraint = |runtime: &str| api::Constraint {
            key: "runtime".to_owned(),
            operator: "in".to_owned(),
            values: vec![runtime.to_owned()],
        };
        let placement = self.runtime.map(|runtime| api::PlacementRules {
            constraints: vec![constraint(runtime)],
            ..api::PlacementRules::default()
        });
        api::ApplyWorkloadRequest {
            workload_id: self.id.clone(),
            revision_id: self.revision.clone(),
            desired_state: "Running".to_owned(),
            plan: String::new(),
            spec: Some(api::WorkloadSpec {
                r#type: "container".to_owned(),
                resources: Some(api::ResourceRequirements {
                    cpu_millicores: self.cpu_millicores,
                    memory_mb: 16,
                    disk_gb: 0,
                }),
                workload: Some(api::workload_spec::Workload::Container(self.container.clone())),
                placement,
                ..api::WorkloadSpec::default()
            }),
        }
    }
}
