//! What a user asked for, as part of a workload's record.
//!
//! The shapes here may hold secrets and are therefore never printed: none of them has a `Debug`.

mod compose;
mod container;
mod health;
mod placement;
mod secret;
mod vm;
pub(super) mod volume;

use std::collections::BTreeMap;
use std::sync::Arc;

use persys_model::spec::secret::Secret;
use persys_model::spec::{Kind, Spec};
use serde::{Deserialize, Serialize};

use self::compose::ComposeShape;
use self::container::ContainerShape;
use self::health::HealthShape;
use self::placement::PlacementShape;
use self::secret::SecretShape;
use self::vm::VmShape;
use super::resources::ResourcesShape;

/// Words of the user.
type Texts = BTreeMap<Arc<str>, Arc<str>>;

#[derive(Serialize, Deserialize)]
pub(crate) struct SpecShape {
    kind: KindShape,
    resources: ResourcesShape,
    placement: PlacementShape,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    metadata: Texts,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    secrets: Vec<SecretShape>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stop_grace_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "HealthShape::is_empty")]
    health: HealthShape,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum KindShape {
    Container(Box<ContainerShape>),
    Compose(Box<ComposeShape>),
    Vm(Box<VmShape>),
}

impl From<&Spec> for SpecShape {
    fn from(spec: &Spec) -> Self {
        let Spec { kind, resources, placement, metadata, secrets, stop_grace_ms, health } = spec;
        let kind = match kind {
            Kind::Container(container) => KindShape::Container(Box::new(container.into())),
            Kind::Compose(compose) => KindShape::Compose(Box::new(compose.into())),
            Kind::Vm(vm) => KindShape::Vm(Box::new(vm.into())),
        };
        Self {
            kind,
            resources: resources.into(),
            placement: placement.into(),
            metadata: metadata.clone(),
            secrets: secrets.iter().map(SecretShape::from).collect(),
            stop_grace_ms: *stop_grace_ms,
            health: health.into(),
        }
    }
}

impl SpecShape {
    pub(crate) fn read(self) -> Result<Spec, String> {
        let kind = match self.kind {
            KindShape::Container(container) => Kind::Container(container.read()?),
            KindShape::Compose(compose) => Kind::Compose(compose.read()?),
            KindShape::Vm(vm) => Kind::Vm(vm.read()?),
        };
        let secrets: Result<Vec<_>, _> = self.secrets.into_iter().map(SecretShape::read).collect();
        Ok(Spec {
            kind,
            resources: self.resources.read()?,
            placement: self.placement.into(),
            metadata: self.metadata,
            secrets: secrets?,
            stop_grace_ms: self.stop_grace_ms,
            health: self.health.into(),
        })
    }
}

/// A spec in its stored form, to be part of a record that somebody else keeps: an agent's ledger.
/// It follows the rules of this crate's own records; the version is that of the record around it.
#[derive(Serialize, Deserialize)]
#[serde(transparent)]
pub struct StoredSpec(SpecShape);

impl StoredSpec {
    /// What the stored form means, or what is wrong with it.
    pub fn read(self) -> Result<Spec, String> {
        self.0.read()
    }
}

impl From<&Spec> for StoredSpec {
    fn from(spec: &Spec) -> Self {
        Self(spec.into())
    }
}

impl std::fmt::Debug for StoredSpec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoredSpec").finish_non_exhaustive()
    }
}

fn reveal(secrets: &BTreeMap<Arc<str>, Secret>) -> Texts {
    secrets.iter().map(|(key, value)| (Arc::clone(key), Arc::from(value.reveal()))).collect()
}

fn hide(texts: Texts) -> BTreeMap<Arc<str>, Secret> {
    texts.into_iter().map(|(key, value)| (key, Secret::new(&value))).collect()
}
