//! A container from options of the command line.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};

use persys_model::fault::Faults;
use persys_proto::control::v1::workload_spec::Workload;
use persys_proto::control::v1::{
    ApplyWorkloadRequest, Constraint, ContainerSpec, HealthCheck, HealthChecks, HttpCheck,
    ManagedVolumeSpec, PlacementRules, Port, ResourceLimits, ResourceRequirements, SecretUse,
    TcpCheck, VolumeMount, WorkloadSpec,
};
use persys_proto::convert::draft;

use crate::args::{Restarts, Run};
use crate::problem::{Problem, USAGE};
use crate::sizes;
use crate::world::World;

/// Size of a volume that is named without one.
const NAMED_GIB: i64 = 10;

/// The request, or every option that is wrong.
#[expect(clippy::too_many_lines, reason = "one entry for each option")]
pub(crate) fn request(world: &World, run: &Run) -> Result<ApplyWorkloadRequest, Problem> {
    let mut faults = Faults::none();
    let env = environment(world, &run.env, &run.env_file, &mut faults)?;
    let mut amount =
        |option: &str, text: &Option<String>, read: fn(&str) -> Result<i64, String>| {
            let Some(text) = text else { return 0 };
            read(text).unwrap_or_else(|why| {
                faults.push(option, why);
                0
            })
        };
    let resources = ResourceRequirements {
        cpu_millicores: amount("--cpu", &run.cpu, sizes::cpu),
        memory_mb: amount("--memory", &run.memory, sizes::memory),
        disk_gb: amount("--disk", &run.disk, sizes::disk),
    };
    let limits = (resources.memory_mb > 0).then(|| ResourceLimits {
        memory_bytes: resources.memory_mb.saturating_mul(1024 * 1024),
        ..ResourceLimits::default()
    });
    let (mut volumes, mut managed_volumes) = (Vec::new(), Vec::new());
    for mount in all(&run.volumes, "--volume", &mut faults, mount) {
        match mount {
            Mount::Path(path) => volumes.push(path),
            Mount::Named(volume) => managed_volumes.push(volume),
        }
    }
    let restart = if run.rm { Restarts::No } else { run.restart };
    let container = ContainerSpec {
        image: run.image.clone(),
        entrypoint: run.entrypoint.iter().cloned().collect(),
        command: run.command.clone(),
        env,
        ports: all(&run.ports, "--publish", &mut faults, port),
        volumes,
        managed_volumes,
        restart_policy: restart.word().to_owned(),
        privileged: run.privileged,
        labels: all(&run.labels, "--label", &mut faults, |text| pair(text, "a label"))
            .into_iter()
            .collect(),
        limits,
        ..ContainerSpec::default()
    };
    let mut secrets = all(&run.secrets, "--secret", &mut faults, secret_file);
    secrets.extend(all(&run.secret_env, "--secret-env", &mut faults, secret_env));
    let constraints = all(&run.constraints, "--constraint", &mut faults, constraint);
    let request = ApplyWorkloadRequest {
        workload_id: run.name.clone().unwrap_or_else(|| name_of(&run.image)),
        spec: Some(WorkloadSpec {
            r#type: "container".to_owned(),
            resources: Some(resources),
            workload: Some(Workload::Container(container)),
            placement: (!constraints.is_empty())
                .then(|| PlacementRules { constraints, ..PlacementRules::default() }),
            secrets,
            health: health(run, &mut faults),
            ..WorkloadSpec::default()
        }),
        ..ApplyWorkloadRequest::default()
    };
    if let Err(found) = draft::apply(request.clone()) {
        for fault in found.listed() {
            faults.push(option_of(&fault.path), fault.problem.clone());
        }
    }
    if faults.is_empty() {
        return Ok(request);
    }
    Err(Problem::faults("nothing was sent: the options have faults", &faults)
        .code(USAGE)
        .next("persys run --help"))
}

/// The health check that the options ask for, if any of them is given.
fn health(run: &Run, faults: &mut Faults) -> Option<HealthChecks> {
    let text = |option: &Option<String>| option.clone().unwrap_or_default();
    let http = run.health_http.as_ref().and_then(|text| {
        let (port, path) = text
            .split_once('/')
            .map_or((text.as_str(), None), |(port, path)| (port, Some(format!("/{path}"))));
        let number = port.parse().ok();
        if number.is_none() {
            faults.push("--health-http", format!("\"{port}\" is not a port"));
        }
        number.map(|port| HttpCheck { port, path: path.unwrap_or_default() })
    });
    let shell = |command: &String| vec!["sh".to_owned(), "-c".to_owned(), command.clone()];
    let check = HealthCheck {
        http,
        tcp: run.health_tcp.map(|port| TcpCheck { port: port.into() }),
        exec: run.health_cmd.as_ref().map(shell).unwrap_or_default(),
        interval: text(&run.health_interval),
        timeout: text(&run.health_timeout),
        start_period: text(&run.health_start_period),
        retries: run.health_retries.unwrap_or_default(),
        disable: run.no_healthcheck,
    };
    (check != HealthCheck::default()).then_some(HealthChecks { ready: Some(check) })
}

/// The option behind a field of a spec, for the person who typed it.
fn option_of(path: &str) -> String {
    const OPTIONS: &[(&str, &str)] = &[
        ("workload_id", "--name"),
        ("spec.container.image", "IMAGE"),
        ("spec.container.ports", "--publish"),
        ("spec.container.volumes", "--volume"),
        ("spec.container.managed_volumes", "--volume"),
        ("spec.container.env", "--env"),
        ("spec.container.labels", "--label"),
        ("spec.container.limits", "--memory"),
        ("spec.container.resources", "--memory"),
        ("spec.container.command", "COMMAND"),
        ("spec.container.entrypoint", "--entrypoint"),
        ("spec.resources.cpu_millicores", "--cpu"),
        ("spec.resources.memory_mb", "--memory"),
        ("spec.resources.disk_gb", "--disk"),
        ("spec.placement.constraints", "--constraint"),
        ("spec.secrets", "--secret"),
        ("spec.health.ready.http", "--health-http"),
        ("spec.health.ready.tcp", "--health-tcp"),
        ("spec.health.ready.exec", "--health-cmd"),
        ("spec.health.ready.interval", "--health-interval"),
        ("spec.health.ready.timeout", "--health-timeout"),
        ("spec.health.ready.start_period", "--health-start-period"),
        ("spec.health.ready.retries", "--health-retries"),
        ("spec.health.ready.disable", "--no-healthcheck"),
    ];
    let found = OPTIONS.iter().find(|(field, _)| path.starts_with(field));
    match found {
        Some((field, option)) => format!("{option}{}", path.get(field.len()..).unwrap_or_default()),
        None => path.to_owned(),
    }
}

fn all<T>(
    texts: &[String],
    option: &str,
    faults: &mut Faults,
    read: impl Fn(&str) -> Result<T, String>,
) -> Vec<T> {
    let mut found = Vec::new();
    for text in texts {
        match read(text) {
            Ok(value) => found.push(value),
            Err(why) => faults.push(option, why),
        }
    }
    found
}

/// A name from an image: `docker.io/library/nginx:1.27` is `nginx`.
pub(crate) fn name_of(image: &str) -> String {
    let last = image.rsplit('/').next().unwrap_or(image);
    let bare = last.split(['@', ':']).next().unwrap_or(last);
    let kept: String =
        bare.to_ascii_lowercase()
            .chars()
            .map(|letter| {
                if letter.is_ascii_alphanumeric() || "-_.".contains(letter) { letter } else { '-' }
            })
            .collect();
    kept.trim_matches(|letter: char| !letter.is_ascii_alphanumeric()).to_owned()
}

/// `db-password`, `db-password:/etc/app/password`.
fn secret_file(text: &str) -> Result<SecretUse, String> {
    let (name, path) = text.split_once(':').unwrap_or((text, ""));
    if name.is_empty() {
        return Err(format!("{text:?} names no secret; write NAME or NAME:/path"));
    }
    let (name, path) = (name.to_owned(), path.to_owned());
    Ok(SecretUse { name, path, ..SecretUse::default() })
}

/// `PASSWORD=db-password`.
fn secret_env(text: &str) -> Result<SecretUse, String> {
    let (env, name) = pair(text, "a variable and a secret")?;
    Ok(SecretUse { name, env, ..SecretUse::default() })
}

/// `8080:80`, `80`, `53:53/udp`, `127.0.0.1:8080:80`, `[::1]:8080:80`, `127.0.0.1::80`.
pub(crate) fn port(text: &str) -> Result<Port, String> {
    let wrong =
        || format!("{text:?} is no port; write 8080:80, 80, 53:53/udp or 127.0.0.1:8080:80");
    let (ports, protocol) = text.split_once('/').unwrap_or((text, "tcp"));
    if !["tcp", "udp"].contains(&protocol) {
        return Err(wrong());
    }
    let number = |text: &str| {
        text.parse::<u16>().ok().filter(|port| *port > 0).map(i32::from).ok_or_else(wrong)
    };
    let Some((outside, inner)) = ports.rsplit_once(':') else {
        let container_port = number(ports)?;
        return Ok(Port { container_port, protocol: protocol.to_owned(), ..Port::default() });
    };
    let (host_ip, host_port) = match outside.rsplit_once(':') {
        None => (String::new(), number(outside)?),
        Some((address, "")) => (address_of(address, text)?, 0),
        Some((address, host)) => (address_of(address, text)?, number(host)?),
    };
    let container_port = number(inner)?;
    Ok(Port { host_port, container_port, protocol: protocol.to_owned(), host_ip })
}

/// An address of the node as it stands in front of a port: an IPv6 address has brackets there.
fn address_of(text: &str, port: &str) -> Result<String, String> {
    let inner = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let parsed = match inner {
        Some(inner) => inner.parse::<Ipv6Addr>().map(IpAddr::from).ok(),
        None => text.parse::<Ipv4Addr>().map(IpAddr::from).ok(),
    };
    let parsed = parsed.ok_or_else(|| {
        format!("{port:?}: {text:?} is not an IP address; write 127.0.0.1:8080:80 or [::1]:8080:80")
    })?;
    Ok(parsed.to_string())
}

/// Something a container sees beside its image.
#[derive(Debug)]
enum Mount {
    Path(VolumeMount),
    Named(ManagedVolumeSpec),
}

/// A path of the node, or a volume by its name: `data:/var/lib/x`, `data:/x:ro`, `data:/x:size=20g`.
fn mount(text: &str) -> Result<Mount, String> {
    let (name, rest) = text.split_once(':').unwrap_or((text, ""));
    if rest.is_empty() || name.starts_with(['/', '.', '~']) {
        return volume(text).map(Mount::Path);
    }
    let mut named = ManagedVolumeSpec {
        name: name.to_owned(),
        driver: "local".to_owned(),
        size_gb: NAMED_GIB,
        retain_policy: "Retain".to_owned(),
        ..ManagedVolumeSpec::default()
    };
    for (nth, part) in rest.split([':', ',']).enumerate() {
        match part.strip_prefix("size=") {
            _ if nth == 0 => part.clone_into(&mut named.mount_path),
            Some(size) => named.size_gb = sizes::disk(size)?,
            None if part == "ro" => named.read_only = true,
            None if part == "rw" => {}
            None => {
                return Err(format!(
                    "{text:?}: {part:?} is not known; there are ro, rw and size=20g"
                ));
            }
        }
    }
    Ok(Mount::Named(named))
}

/// `/data:/var/lib/x`, `/data:/x:ro`.
pub(crate) fn volume(text: &str) -> Result<VolumeMount, String> {
    let wrong = || format!("{text:?} is no volume; write /on/node:/inside or /on/node:/inside:ro");
    let mut parts = text.split(':');
    let (Some(host), Some(inside)) = (parts.next(), parts.next()) else { return Err(wrong()) };
    let read_only = match (parts.next(), parts.next()) {
        (None, _) | (Some("rw"), None) => false,
        (Some("ro"), None) => true,
        _ => return Err(wrong()),
    };
    if !host.starts_with('/') || !inside.starts_with('/') {
        return Err(format!(
            "{text:?}: a path is that of the node and begins with /; a volume of its own has a name, data:/inside"
        ));
    }
    Ok(VolumeMount { host_path: host.to_owned(), container_path: inside.to_owned(), read_only })
}

/// `key=value`.
pub(crate) fn pair(text: &str, what: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        Some(_) | None => {
            Err(format!("{text:?} is no {}; write key=value", what.trim_start_matches("a ")))
        }
    }
}

/// `zone=a`, `zone=a,b`, `zone!=a`, `gpu`, `!gpu`.
fn constraint(text: &str) -> Result<Constraint, String> {
    let values = |text: &str| text.split(',').map(str::to_owned).collect();
    let (key, operator, values) = if let Some((key, found)) = text.split_once("!=") {
        (key, "not-in", values(found))
    } else if let Some((key, found)) = text.split_once('=') {
        (key.trim_end_matches('='), "in", values(found.trim_start_matches('=')))
    } else if let Some(key) = text.strip_prefix('!') {
        (key, "absent", Vec::new())
    } else {
        (text, "exists", Vec::new())
    };
    if key.is_empty() {
        return Err(format!("{text:?} is no rule; write zone=a, zone!=a, gpu or !gpu"));
    }
    Ok(Constraint { key: key.to_owned(), operator: operator.to_owned(), values })
}

/// Variables from options; later ones win, and those typed out over those of files.
pub(super) fn environment(
    world: &World,
    given: &[String],
    files: &[PathBuf],
    faults: &mut Faults,
) -> Result<BTreeMap<String, String>, Problem> {
    let mut env = BTreeMap::new();
    for file in files {
        read_env_file(world, file, &mut env, faults)?;
    }
    for text in given {
        match text.split_once('=') {
            Some((key, value)) if !key.is_empty() => {
                env.insert(key.to_owned(), value.to_owned());
            }
            Some(_) => faults.push("--env", format!("{text:?} has no name; write KEY=VALUE")),
            None => match world.env.get(text) {
                Some(value) => drop(env.insert(text.clone(), value.clone())),
                None => faults.push("--env", format!("{text} is not set here; write {text}=VALUE")),
            },
        }
    }
    Ok(env)
}

fn read_env_file(
    world: &World,
    file: &Path,
    env: &mut BTreeMap<String, String>,
    faults: &mut Faults,
) -> Result<(), Problem> {
    let text = super::text(world, file)?;
    for (nth, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        match line.split_once('=') {
            Some((key, value)) if !key.trim().is_empty() => {
                env.insert(key.trim().to_owned(), value.to_owned());
            }
            Some(_) | None => {
                let at = format!("--env-file {}", file.display());
                faults.push(at, format!("line {} is not KEY=VALUE", nth + 1));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_volumes_and_rules_are_read_as_people_write_them() {
        let port_of = |host_port, container_port, protocol: &str| Port {
            host_port,
            container_port,
            protocol: protocol.to_owned(),
            host_ip: String::new(),
        };
        assert_eq!(port("8080:80"), Ok(port_of(8080, 80, "tcp")));
        assert_eq!(port("80"), Ok(port_of(0, 80, "tcp")));
        assert_eq!(port("53:53/udp"), Ok(port_of(53, 53, "udp")));
        let on = |host_ip: &str, port| Port { host_ip: host_ip.to_owned(), ..port };
        let local = on("127.0.0.1", port_of(8080, 80, "tcp"));
        assert_eq!(port("127.0.0.1:8080:80"), Ok(local));
        assert_eq!(port("[::1]:8080:80/udp"), Ok(on("::1", port_of(8080, 80, "udp"))));
        assert_eq!(port("127.0.0.1::80"), Ok(on("127.0.0.1", port_of(0, 80, "tcp"))));
        for text in ["", "x", "0:80", "80:0", "1:2:3", "80/sctp", "99999", "-1:80", "::1:80:80"] {
            assert!(port(text).is_err(), "{text}");
        }
        let why = port("localhost:8080:80").unwrap_err();
        assert!(why.contains("\"localhost\" is not an IP address"), "{why}");
        let named = |text: &str| match mount(text) {
            Ok(Mount::Named(named)) => (named.mount_path, named.size_gb, named.read_only),
            other => panic!("{text}: {other:?}"),
        };
        assert_eq!(named("data:/var/lib"), ("/var/lib".to_owned(), NAMED_GIB, false));
        assert_eq!(named("data:/x:ro,size=20g"), ("/x".to_owned(), 20, true));
        for text in ["data", "data:", "./data:/x", "~/data:/x", "data:/x:z", "data:/x:size=much"] {
            assert!(mount(text).is_err(), "{text}");
        }
        assert!(volume("/a:/b:ro").unwrap().read_only);
        assert!(!volume("/a:/b").unwrap().read_only);
        for text in ["", "/a", "a:/b", "/a:b", "/a:/b:xx", "/a:/b:ro:z"] {
            assert!(volume(text).is_err(), "{text}");
        }
        for (text, operator) in
            [("a=b", "in"), ("a!=b", "not-in"), ("a", "exists"), ("!a", "absent")]
        {
            assert_eq!(constraint(text).unwrap().operator, operator, "{text}");
        }
        assert!(constraint("=b").is_err());
    }

    #[test]
    fn names_come_from_images() {
        for (image, name) in [
            ("nginx", "nginx"),
            ("docker.io/library/nginx:1.27", "nginx"),
            ("localhost:5000/My_App@sha256:00", "my_app"),
        ] {
            assert_eq!(name_of(image), name);
        }
    }
}
