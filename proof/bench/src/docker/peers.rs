//! The same containers by Docker itself, and by Swarm.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use bollard::Docker;
use bollard::errors::Error;
use bollard::models::{
    ContainerCreateBody, HostConfig, HostConfigLogConfig, Limit, ServiceSpec, SwarmInitRequest,
    TaskSpec, TaskSpecContainerSpec, TaskSpecResources, TaskState,
};
use bollard::query_parameters::{
    CreateContainerOptions, ListContainersOptionsBuilder, ListTasksOptionsBuilder,
    RemoveContainerOptionsBuilder, StartContainerOptions,
};
use futures::StreamExt as _;
use persys_e2e::engine::{IMAGE, LABEL};

/// What runs in every container.
pub(super) const COMMAND: [&str; 2] = ["/bin/sleep", "100000"];
/// Between two looks.
pub(super) const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// What each container reserves. With much less, its own limit is what slows its start.
pub(super) const MILLICORES: i64 = 30;
const MEMORY: i64 = 16 << 20;
/// How many containers are removed at a time.
const AT_A_TIME: usize = 8;

/// Docker and Swarm on one daemon.
pub(super) struct Peers(Docker);

impl Peers {
    pub(super) fn new(host: &str) -> Result<Self, Error> {
        Ok(Self(Docker::connect_with_host(host)?.with_timeout(Duration::from_mins(10))))
    }

    /// Makes and starts so many containers, so many at a time. They are gone afterwards.
    pub(super) async fn raw(&self, count: usize, parallel: usize) -> Result<Duration, Error> {
        let begun = Instant::now();
        let starts = (0..count).map(|_| async {
            let made = self.0.create_container(None::<CreateContainerOptions>, body()).await?;
            self.0.start_container(&made.id, None::<StartContainerOptions>).await?;
            Ok::<_, Error>(made.id)
        });
        let ids: Vec<_> = futures::stream::iter(starts).buffer_unordered(parallel).collect().await;
        let took = begun.elapsed();
        let removals = ids.into_iter().map(|id| async {
            let options = RemoveContainerOptionsBuilder::default().force(true).build();
            self.0.remove_container(&id?, Some(options)).await
        });
        let removed: Vec<_> =
            futures::stream::iter(removals).buffer_unordered(AT_A_TIME).collect().await;
        removed.into_iter().collect::<Result<Vec<_>, _>>()?;
        Ok(took)
    }

    /// Makes the daemon a swarm of one.
    pub(super) async fn begin_swarm(&self) -> Result<(), Error> {
        let request = SwarmInitRequest {
            listen_addr: Some("127.0.0.1:2377".to_owned()),
            advertise_addr: Some("127.0.0.1".to_owned()),
            ..SwarmInitRequest::default()
        };
        self.0.init_swarm(request).await?;
        Ok(())
    }

    /// Makes so many services and waits until all of them run. They are gone afterwards.
    ///
    /// It is what `docker service create -d --no-resolve-image` asks for.
    pub(super) async fn swarm(&self, count: usize, parallel: usize) -> Result<Duration, Error> {
        let begun = Instant::now();
        let creations = (0..count).map(|number| self.0.create_service(service(number), None));
        let made: Vec<_> =
            futures::stream::iter(creations).buffer_unordered(parallel).collect().await;
        let made = made.into_iter().collect::<Result<Vec<_>, _>>()?;
        while self.running_tasks().await? < count {
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        let took = begun.elapsed();
        for service in made {
            self.0.delete_service(&service.id.unwrap_or_default()).await?;
        }
        let label = HashMap::from([("label", vec!["com.docker.swarm.task".to_owned()])]);
        loop {
            let options = ListContainersOptionsBuilder::default().all(true).filters(&label).build();
            if self.0.list_containers(Some(options)).await?.is_empty() {
                return Ok(took);
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    async fn running_tasks(&self) -> Result<usize, Error> {
        let wanted = HashMap::from([("desired-state", vec!["running".to_owned()])]);
        let options = ListTasksOptionsBuilder::default().filters(&wanted).build();
        let tasks = self.0.list_tasks(Some(options)).await?;
        let runs = |task: &&bollard::models::Task| {
            task.status.as_ref().and_then(|status| status.state) == Some(TaskState::RUNNING)
        };
        Ok(tasks.iter().filter(runs).count())
    }
}

/// The container that persys would make.
fn body() -> ContainerCreateBody {
    let (key, value) = LABEL;
    let log_options = [("max-size", "10m"), ("max-file", "3")];
    let log_options = log_options.map(|(key, value)| (key.to_owned(), value.to_owned()));
    ContainerCreateBody {
        image: Some(IMAGE.to_owned()),
        entrypoint: Some(COMMAND.map(ToOwned::to_owned).to_vec()),
        labels: Some([(key.to_owned(), value.to_owned())].into()),
        host_config: Some(HostConfig {
            cpu_period: Some(100_000),
            cpu_quota: Some(MILLICORES * 100),
            cpu_shares: Some(MILLICORES * 1024 / 1000),
            memory: Some(MEMORY),
            pids_limit: Some(4096),
            cap_drop: Some(vec!["NET_RAW".to_owned()]),
            security_opt: Some(vec!["no-new-privileges".to_owned()]),
            log_config: Some(HostConfigLogConfig {
                typ: Some("json-file".to_owned()),
                config: Some(log_options.into()),
            }),
            ..HostConfig::default()
        }),
        ..ContainerCreateBody::default()
    }
}

fn service(number: usize) -> ServiceSpec {
    ServiceSpec {
        name: Some(format!("bench-{number}")),
        task_template: Some(TaskSpec {
            container_spec: Some(TaskSpecContainerSpec {
                image: Some(IMAGE.to_owned()),
                command: Some(COMMAND.map(ToOwned::to_owned).to_vec()),
                ..TaskSpecContainerSpec::default()
            }),
            resources: Some(TaskSpecResources {
                limits: Some(Limit {
                    nano_cpus: Some(MILLICORES * 1_000_000),
                    memory_bytes: Some(MEMORY),
                    ..Limit::default()
                }),
                ..TaskSpecResources::default()
            }),
            ..TaskSpec::default()
        }),
        ..ServiceSpec::default()
    }
}
