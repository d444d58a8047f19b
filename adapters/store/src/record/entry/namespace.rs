//! `/namespaces/<name>`

use std::sync::Arc;

use persys_model::entry::{Allowance, Namespace};
use persys_model::id::NamespaceName;
use serde::{Deserialize, Serialize};

use crate::record::{Record, VERSION, is_false, name};

#[derive(Debug, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "fields of a record, each on its own")]
pub(crate) struct NamespaceShape {
    v: u32,
    name: Arc<str>,
    #[serde(default, skip_serializing_if = "is_false")]
    privileged: bool,
    #[serde(default, skip_serializing_if = "is_false")]
    host_network: bool,
    #[serde(default, skip_serializing_if = "is_false")]
    devices: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    host_paths: Vec<Arc<str>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    vault_paths: Vec<Arc<str>>,
    #[serde(default, skip_serializing_if = "is_false")]
    shadow: bool,
}

impl Record for Namespace {
    type Shape = NamespaceShape;

    fn shape(&self) -> NamespaceShape {
        let Self { name, allowance, shadow } = self;
        let Allowance { privileged, host_network, devices, host_paths, vault_paths } = allowance;
        NamespaceShape {
            v: VERSION,
            name: Arc::from(name.as_str()),
            privileged: *privileged,
            host_network: *host_network,
            devices: *devices,
            host_paths: host_paths.iter().cloned().collect(),
            vault_paths: vault_paths.iter().cloned().collect(),
            shadow: *shadow,
        }
    }

    fn version(shape: &NamespaceShape) -> u32 {
        shape.v
    }

    fn read(shape: NamespaceShape) -> Result<Self, String> {
        let NamespaceShape { privileged, host_network, devices, host_paths, vault_paths, .. } =
            shape;
        let host_paths = host_paths.into_iter().collect();
        let vault_paths = vault_paths.into_iter().collect();
        Ok(Self {
            name: name("name", &shape.name, NamespaceName::new)?,
            allowance: Allowance { privileged, host_network, devices, host_paths, vault_paths },
            shadow: shape.shadow,
        })
    }
}
