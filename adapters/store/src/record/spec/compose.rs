//! A Compose stack.

use std::collections::BTreeMap;
use std::sync::Arc;

use persys_model::spec::compose::{ComposeSource, ComposeSpec};
use persys_model::spec::secret::Secret;
use serde::{Deserialize, Serialize};

use super::super::is_false;
use super::super::resources::HostPortShape;
use super::{Texts, hide, reveal};

#[derive(Serialize, Deserialize)]
pub(super) struct ComposeShape {
    source: SourceShape,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    project: Option<Arc<str>>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    env: Texts,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    host_ports: Vec<HostPortShape>,
    #[serde(default, skip_serializing_if = "is_false")]
    has_named_volumes: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum SourceShape {
    Inline(Arc<str>),
    Git {
        repository: Arc<str>,
        reference: Arc<str>,
        path: Arc<str>,
        commit: Arc<str>,
        file: Arc<str>,
    },
}

impl From<&ComposeSpec> for ComposeShape {
    fn from(compose: &ComposeSpec) -> Self {
        let ComposeSpec { source, project, env, host_ports, has_named_volumes } = compose;
        let source = match source {
            ComposeSource::Inline(text) => SourceShape::Inline(Arc::from(text.reveal())),
            ComposeSource::Git { repository, reference, path, commit, file } => SourceShape::Git {
                repository: Arc::clone(repository),
                reference: Arc::clone(reference),
                path: Arc::clone(path),
                commit: Arc::clone(commit),
                file: Arc::from(file.reveal()),
            },
        };
        Self {
            source,
            project: project.clone(),
            env: reveal(env),
            host_ports: host_ports.iter().map(|port| HostPortShape::from(*port)).collect(),
            has_named_volumes: *has_named_volumes,
        }
    }
}

impl ComposeShape {
    pub(super) fn read(self) -> Result<ComposeSpec, String> {
        let source = match self.source {
            SourceShape::Inline(text) => ComposeSource::Inline(Secret::new(&text)),
            SourceShape::Git { repository, reference, path, commit, file } => {
                ComposeSource::Git { repository, reference, path, commit, file: Secret::new(&file) }
            }
        };
        let host_ports: Result<Vec<_>, _> =
            self.host_ports.into_iter().map(HostPortShape::read).collect();
        Ok(ComposeSpec {
            source,
            project: self.project,
            env: hide(self.env),
            host_ports: host_ports?,
            has_named_volumes: self.has_named_volumes,
        })
    }
}
