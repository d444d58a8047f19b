//! Containers that the agent of an earlier installation made.
//!
//! Its container has the id of the workload for a name, and the labels `persys.managed` and
//! `persys.workload_id`, but names no cluster. It is touched only for a workload that was imported
//! from this node ([`Spec::adopt_on`](persys_model::spec::Spec::adopt_on)):
//!
//! ```text
//!   as the spec says ── Docker no longer restarts it ── recorded as ours ── it runs on
//!   otherwise ───────── stopped, removed; a new one is made, as by an update
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bollard::models::{
    ContainerCreateBody, ContainerInspectResponse, ContainerUpdateBody, HostConfig, ImageConfig,
    PortMap, RestartPolicy, RestartPolicyNameEnum,
};
use persys_model::id::WorkloadId;
use persys_model::spec::ContainerSpec;

use crate::error::Error;
use crate::runtime::Start;

use super::adopted::Adopted;
use super::call::{self, Reply};
use super::identity::{CLUSTER, DockerLabels, MANAGED, Mark, WORKLOAD};
use super::{Docker, shape};

/// The time the earlier agent gave a container to stop.
const GRACE: Duration = Duration::from_secs(30);

impl Docker {
    /// Takes over the container that an earlier installation runs for this workload, or removes it
    /// if it is not as the spec says. True if something changed.
    pub(super) async fn adopt(
        &self,
        start: &Start,
        container: &ContainerSpec,
    ) -> Result<bool, Error> {
        if start.spec.adopt_on().as_ref() != Some(&self.owner.node) || !self.adopted.is_kept() {
            return Ok(false);
        }
        let Some(raw) = self.inspect_raw(start.workload.as_str()).await? else { return Ok(false) };
        let (Some(id), true) = (raw.id.clone(), is_earlier(&start.workload, &raw)) else {
            return Ok(false);
        };
        let image = match &raw.image {
            Some(image) => self.image_config(image).await?,
            None => ImageConfig::default(),
        };
        let body = shape::body(&self.owner, &self.settings, start, container)?;
        let differences = differences(&body, &raw, &image);
        let workload = &start.workload;
        if differences.is_empty() {
            self.leave_restarts_to_us(&id).await?;
            let (revision, epoch) = (start.revision.clone(), start.epoch);
            let mark = Mark { workload: workload.clone(), revision, epoch };
            self.adopted.put(Adopted { container: id.clone(), mark }).map_err(|error| {
                Error::Storage {
                    detail: format!("the container {id} cannot be taken over: {error}"),
                }
            })?;
            tracing::info!(%workload, container = %id, "took over the container of the earlier installation");
        } else {
            let differs = differences.join("; ");
            tracing::info!(%workload, container = %id, %differs, "replaces the container of the earlier installation");
            self.end_by_id(&id, GRACE).await?;
            self.remove_by_id(&id).await?;
        }
        Ok(true)
    }

    async fn image_config(&self, image: &str) -> Result<ImageConfig, Error> {
        let client = self.client()?;
        let call = client.inspect_image(image);
        let found = call::find("inspect", self.settings.deadlines.ask, call).await?;
        Ok(found.and_then(|image| image.config).unwrap_or_default())
    }

    /// The agent decides about restarts, not Docker.
    async fn leave_restarts_to_us(&self, id: &str) -> Result<(), Error> {
        let never =
            RestartPolicy { name: Some(RestartPolicyNameEnum::NO), maximum_retry_count: None };
        let body =
            ContainerUpdateBody { restart_policy: Some(never), ..ContainerUpdateBody::default() };
        let client = self.client()?;
        let call = client.update_container(id, body);
        match call::ask("update", self.settings.deadlines.act, call).await? {
            Reply::Yes(()) => Ok(()),
            Reply::No(no) => Err(Error::Refused { verb: "update", detail: no.message }),
        }
    }
}

/// True if the earlier agent made this container for this workload.
fn is_earlier(workload: &WorkloadId, raw: &ContainerInspectResponse) -> bool {
    let labels: DockerLabels =
        raw.config.as_ref().and_then(|config| config.labels.clone()).unwrap_or_default();
    let name = raw.name.as_deref().map(|name| name.trim_start_matches('/'));
    name == Some(workload.as_str())
        && labels.get(MANAGED).map(String::as_str) == Some("true")
        && labels.get(WORKLOAD).map(String::as_str) == Some(workload.as_str())
        && !labels.contains_key(CLUSTER)
}

/// Everything in which a container is not what would be made. Limits of CPU, memory and processes
/// are not compared: they come with the next revision.
fn differences(
    body: &ContainerCreateBody,
    raw: &ContainerInspectResponse,
    image: &ImageConfig,
) -> Vec<String> {
    let config = raw.config.clone().unwrap_or_default();
    let host = raw.host_config.clone().unwrap_or_default();
    let none = HostConfig::default();
    let wanted = body.host_config.as_ref().unwrap_or(&none);
    let mut found = Vec::new();
    let mut compare = |what: &str, same: bool| {
        if !same {
            found.push(format!("{what} is another"));
        }
    };
    compare("image", body.image == config.image);
    // Without an entrypoint of its own a container has that of its image, and then its command too.
    let entrypoint = body.entrypoint.as_ref().or(image.entrypoint.as_ref());
    compare("entrypoint", words(entrypoint) == words(config.entrypoint.as_ref()));
    let of_image = image.cmd.as_ref().filter(|_| body.entrypoint.is_none());
    let command = body.cmd.as_ref().or(of_image);
    compare("command", words(command) == words(config.cmd.as_ref()));
    let mut env = variables(image.env.as_ref());
    env.extend(variables(body.env.as_ref()));
    compare("environment", env == variables(config.env.as_ref()));
    compare("ports", ports(wanted.port_bindings.as_ref()) == ports(host.port_bindings.as_ref()));
    compare("mounts", wanted_mounts(wanted) == mounts(raw));
    compare(
        "privileged",
        wanted.privileged.unwrap_or_default() == host.privileged.unwrap_or_default(),
    );
    let network = host.network_mode.as_deref().unwrap_or_default();
    compare("network", ["", "default", "bridge"].contains(&network));
    found
}

fn words(list: Option<&Vec<String>>) -> &[String] {
    list.map_or(&[], Vec::as_slice)
}

fn variables(list: Option<&Vec<String>>) -> BTreeMap<String, String> {
    let pairs = list.into_iter().flatten().filter_map(|pair| pair.split_once('='));
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// What is published: port of the container, address and port of the node.
fn ports(map: Option<&PortMap>) -> BTreeSet<(String, String, String)> {
    let all = map.into_iter().flatten();
    all.flat_map(|(key, bindings)| {
        bindings.iter().flatten().map(|binding| {
            let address = binding.host_ip.as_deref().unwrap_or_default();
            // All three mean every address.
            let address = if ["", "0.0.0.0", "::"].contains(&address) { "" } else { address };
            let port = binding.host_port.clone().unwrap_or_default();
            (key.clone(), address.to_owned(), port)
        })
    })
    .collect()
}

type Mounts = BTreeSet<(String, String, bool)>;

fn wanted_mounts(host: &HostConfig) -> Mounts {
    let all = host.mounts.iter().flatten();
    all.map(|mount| {
        let source = mount.source.clone().unwrap_or_default();
        let target = mount.target.clone().unwrap_or_default();
        (source, target, mount.read_only.unwrap_or_default())
    })
    .collect()
}

/// Mounts of a container, without the nameless volumes that its image asks for.
fn mounts(raw: &ContainerInspectResponse) -> Mounts {
    let nameless = |name: &str| name.len() == 64 && name.bytes().all(|b| b.is_ascii_hexdigit());
    let all = raw.mounts.iter().flatten();
    all.filter(|mount| !mount.name.as_deref().is_some_and(nameless))
        .map(|mount| {
            let source = mount.source.clone().unwrap_or_default();
            let target = mount.destination.clone().unwrap_or_default();
            (source, target, !mount.rw.unwrap_or(true))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use bollard::models::{ContainerConfig, Mount, MountPoint, PortBinding};

    use super::*;

    fn list(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    fn published(ip: &str) -> PortMap {
        let binding =
            PortBinding { host_ip: Some(ip.to_owned()), host_port: Some("8080".to_owned()) };
        PortMap::from([("80/tcp".to_owned(), Some(vec![binding]))])
    }

    fn wanted() -> ContainerCreateBody {
        let mount = Mount {
            source: Some("/srv".to_owned()),
            target: Some("/data".to_owned()),
            read_only: Some(true),
            ..Mount::default()
        };
        ContainerCreateBody {
            image: Some("nginx:1".to_owned()),
            cmd: Some(list(&["serve"])),
            env: Some(list(&["A=1"])),
            host_config: Some(HostConfig {
                port_bindings: Some(published("")),
                mounts: Some(vec![mount]),
                privileged: Some(false),
                ..HostConfig::default()
            }),
            ..ContainerCreateBody::default()
        }
    }

    fn made() -> ContainerInspectResponse {
        let bind = MountPoint {
            source: Some("/srv".to_owned()),
            destination: Some("/data".to_owned()),
            rw: Some(false),
            ..MountPoint::default()
        };
        let nameless = MountPoint { name: Some("a".repeat(64)), ..MountPoint::default() };
        ContainerInspectResponse {
            name: Some("/web".to_owned()),
            config: Some(ContainerConfig {
                image: Some("nginx:1".to_owned()),
                entrypoint: Some(list(&["/entry"])),
                cmd: Some(list(&["serve"])),
                env: Some(list(&["PATH=/bin", "A=1"])),
                labels: Some(DockerLabels::from([
                    (MANAGED.to_owned(), "true".to_owned()),
                    (WORKLOAD.to_owned(), "web".to_owned()),
                ])),
                ..ContainerConfig::default()
            }),
            host_config: Some(HostConfig {
                port_bindings: Some(published("0.0.0.0")),
                network_mode: Some("default".to_owned()),
                ..HostConfig::default()
            }),
            mounts: Some(vec![bind, nameless]),
            ..ContainerInspectResponse::default()
        }
    }

    fn image() -> ImageConfig {
        ImageConfig {
            entrypoint: Some(list(&["/entry"])),
            cmd: Some(list(&["default"])),
            env: Some(list(&["PATH=/bin"])),
            ..ImageConfig::default()
        }
    }

    #[test]
    fn a_container_as_the_spec_says_has_no_difference() {
        assert_eq!(differences(&wanted(), &made(), &image()), [""; 0]);
    }

    #[test]
    fn every_difference_is_named() {
        let differs = |change: &dyn Fn(&mut ContainerCreateBody)| {
            let mut body = wanted();
            change(&mut body);
            differences(&body, &made(), &image()).join(", ")
        };
        assert_eq!(differs(&|body| body.image = None), "image is another");
        assert_eq!(differs(&|body| body.cmd = None), "command is another");
        assert_eq!(differs(&|body| body.env = Some(list(&["A=2"]))), "environment is another");
        assert_eq!(differs(&|body| body.env = None), "environment is another");
        let both = "entrypoint is another";
        assert_eq!(differs(&|body| body.entrypoint = Some(list(&["/other"]))), both);
        let bare = differs(&|body| body.host_config = None);
        assert_eq!(bare, "ports is another, mounts is another");
    }

    #[test]
    fn only_what_the_earlier_agent_made_for_this_workload_is_taken() {
        let web = WorkloadId::fixed("web");
        assert!(is_earlier(&web, &made()));
        assert!(!is_earlier(&WorkloadId::fixed("db"), &made()));
        let with = |key: &str, value: Option<&str>| {
            let mut raw = made();
            if let Some(labels) = raw.config.as_mut().and_then(|config| config.labels.as_mut()) {
                labels.remove(key);
                labels.extend(value.map(|value| (key.to_owned(), value.to_owned())));
            }
            is_earlier(&web, &raw)
        };
        assert!(!with(CLUSTER, Some("c1")), "of a cluster of this system");
        assert!(!with(MANAGED, None) && !with(WORKLOAD, None) && !with(WORKLOAD, Some("db")));
    }
}
