//! What a Compose project needs before it is sent: images built by Docker, here, and secrets in the
//! cluster.

use std::process::Stdio;

use persys_compose::project::{Build, Project};
use persys_model::spec::NAMESPACE_KEY;
use persys_proto::compute::v1 as api;
use persys_proto::control::v1::workload_spec::Workload;
use tokio::io::AsyncReadExt as _;
use tokio::process::Command;

use crate::args::Apply;
use crate::connect::Client;
use crate::manifest::Wanted;
use crate::problem::Problem;
use crate::shell::Shell;
use crate::world::World;

/// Where Docker is looked for by those who have no path.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";
/// What is kept of what Docker says.
const LAST_BYTES: usize = 4096;

/// Builds what is to be built, puts secrets where they belong, and writes both into what is sent.
pub(super) async fn project(
    shell: &Shell,
    client: &Client,
    wanted: &mut Wanted,
    apply: &Apply,
) -> Result<(), Problem> {
    let Some(mut project) = wanted.project.take() else { return Ok(()) };
    for build in project.builds.clone() {
        if !apply.project.no_build {
            built(shell, &mut project, &build, apply).await?;
        }
    }
    let spec = wanted.request.spec.as_ref();
    let namespace = spec.and_then(|spec| spec.metadata.get(NAMESPACE_KEY)).cloned();
    for secret in project.secrets.clone() {
        let what =
            format!("{} was not applied: its secret {} was not set", wanted.from, secret.key);
        let request = api::SetSecretRequest {
            namespace: namespace.clone().unwrap_or_default(),
            name: secret.name.clone(),
            value: secret.value.clone(),
            unless_same: true,
            ..api::SetSecretRequest::default()
        };
        let answer = client.ask(&what, client.secrets().set_secret(request)).await?;
        project.has_version(&secret, answer.secret.unwrap_or_default().version);
    }
    let workload = wanted.request.spec.as_mut().and_then(|spec| spec.workload.as_mut());
    if let Some(Workload::Compose(compose)) = workload {
        compose.inline_yaml.clone_from(&project.text);
    }
    wanted.project = Some(project);
    Ok(())
}

/// Sees to it that the image of a service is there, as the compose program does: one that is there is
/// used, unless it is to be built again.
async fn built(
    shell: &Shell,
    project: &mut Project,
    build: &Build,
    apply: &Apply,
) -> Result<(), Problem> {
    let world = &shell.world;
    let no_docker = |why: String| {
        Problem::new(format!("{} was not applied: services.{}.build", project.name, build.service))
            .why(format!("there is no Docker here to build it with: {why}"))
            .next(build.typed())
            .next(format!("docker push {}", build.image))
            .next("persys apply FILE --no-build       (once the nodes can get the image)")
    };
    let mut found = None;
    for name in [Some(&build.image), build.older.as_ref()].into_iter().flatten() {
        if let Some(id) = image_id(world, name).await.map_err(no_docker)? {
            found = found.or(Some((name.clone(), id)));
        }
    }
    if let Some((name, id)) = found.filter(|_| !apply.project.build) {
        if !shell.output().is_data() {
            world.note(&format!("{name} is used as it was built; --build builds it again"));
        }
        project.has_image(&build.service, &name, &id);
        return Ok(());
    }
    let mut docker = command(world);
    if let Some(folder) = apply
        .named
        .first()
        .or(apply.files.first())
        .and_then(|file| if file.is_dir() { Some(file.as_path()) } else { file.parent() })
        && !folder.as_os_str().is_empty()
    {
        docker.current_dir(folder);
    }
    world.note(&format!("building {}: {}", build.image, build.typed()));
    let ended = run(world, docker.args(build.words(&build.context))).await;
    let (ended_well, last) = ended.map_err(|why| no_docker(why.to_string()))?;
    if !ended_well {
        let last = last.trim().lines().last().unwrap_or("it ended without a word").to_owned();
        let what = format!("{} was not applied: services.{}.build", project.name, build.service);
        return Err(Problem::new(what).why(last).next(build.typed()));
    }
    let id = image_id(world, &build.image).await.map_err(no_docker)?.unwrap_or_default();
    project.has_image(&build.service, &build.image, &id);
    Ok(())
}

fn command(world: &World) -> Command {
    let mut docker = Command::new("docker");
    docker.env_clear().env("PATH", PATH).envs(&world.env).stdin(Stdio::null()).kill_on_drop(true);
    docker
}

/// The id of an image that Docker has; an error if there is no Docker.
async fn image_id(world: &World, image: &str) -> Result<Option<String>, String> {
    let words = ["image", "inspect", "--format", "{{.Id}}", image];
    let output = command(world).args(words).output().await;
    let output = output.map_err(|why| format!("docker cannot be run: {why}"))?;
    if output.status.success() {
        return Ok(Some(String::from_utf8_lossy(&output.stdout).trim().to_owned()));
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    if said.to_lowercase().contains("no such image") { Ok(None) } else { Err(said) }
}

/// Runs Docker and shows what it says; whether it ended well, and its last words.
async fn run(world: &World, docker: &mut Command) -> std::io::Result<(bool, String)> {
    let mut child = docker.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let (out, err) = (child.stdout.take(), child.stderr.take());
    let (mut last, mut quiet) = (Vec::new(), Vec::new());
    let ((), (), status) = tokio::join!(
        passed_on(world, err, &mut last),
        passed_on(world, out, &mut quiet),
        child.wait()
    );
    if last.is_empty() {
        last = quiet;
    }
    Ok((status?.success(), String::from_utf8_lossy(&last).into_owned()))
}

/// Shows what a program says as it says it, and keeps the end of it.
async fn passed_on(
    world: &World,
    from: Option<impl tokio::io::AsyncRead + Unpin>,
    last: &mut Vec<u8>,
) {
    let Some(mut from) = from else { return };
    let mut piece = vec![0; LAST_BYTES];
    while let Ok(length) = from.read(&mut piece).await {
        let Some(said) = piece.get(..length).filter(|said| !said.is_empty()) else { return };
        world.remark(said);
        last.extend_from_slice(said);
        let too_many = last.len().saturating_sub(LAST_BYTES);
        drop(last.drain(..too_many));
    }
}
