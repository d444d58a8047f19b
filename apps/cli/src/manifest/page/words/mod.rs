//! What there is to say about each field: what counts when it is not given, and what it may be.

mod around;
mod container;
mod health;
mod machine;

/// One field.
pub(super) struct Field {
    pub(super) name: &'static str,
    /// What counts when it is not given.
    pub(super) default: String,
    /// What it is and may be.
    pub(super) help: String,
}

fn field(name: &'static str, default: &str, help: impl Into<String>) -> Field {
    Field { name, default: default.to_owned(), help: help.into() }
}

/// The fields of a message.
pub(super) fn words(message: &str) -> Vec<Field> {
    match message {
        "ApplyWorkloadRequest" => around::request(),
        "WorkloadSpec" => around::spec(),
        "ResourceRequirements" => around::resources(),
        "PlacementRules" => around::placement(),
        "Constraint" => around::constraint(),
        "Toleration" => around::toleration(),
        "SecretUse" => around::secret(),
        "HealthChecks" => health::checks(),
        "HealthCheck" => health::check(),
        "HttpCheck" => health::http(),
        "TcpCheck" => health::tcp(),
        "ContainerSpec" => container::container(),
        "Port" => container::port(),
        "VolumeMount" => container::mount(),
        "ResourceLimits" => container::limits(),
        "ManagedVolumeSpec" => container::volume(),
        "ComposeSpec" => machine::compose(),
        "VMSpec" => machine::vm(),
        "DiskConfig" => machine::disk(),
        "NetworkConfig" => machine::network(),
        "CloudInitConfig" => machine::cloud_init(),
        other => panic!("nothing is said about {other}; add its fields in page/words"),
    }
}

fn kib(bytes: usize) -> String {
    format!("{} KiB", bytes / 1024)
}
