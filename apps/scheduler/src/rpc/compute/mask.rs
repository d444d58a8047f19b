//! What is kept back of a spec: values of the environment, and texts that may hold secrets.

use std::collections::BTreeMap;

use persys_proto::control::v1 as wire;
use persys_proto::control::v1::workload_spec::Workload;

/// What stands in the place of a secret.
const MASK: &str = "***";

/// Hides every secret of a spec. That there is one stays visible.
pub(in crate::rpc) fn mask(spec: &mut wire::WorkloadSpec) {
    match &mut spec.workload {
        Some(Workload::Container(container)) => values(&mut container.env),
        Some(Workload::Compose(compose)) => {
            values(&mut compose.env);
            text(&mut compose.inline_yaml);
            text(&mut compose.git_file);
        }
        Some(Workload::Vm(vm)) => {
            if let Some(config) = &mut vm.cloud_init {
                text(&mut config.user_data);
                text(&mut config.meta_data);
                text(&mut config.network_config);
                text(&mut config.vendor_data);
                text(&mut config.password);
            }
        }
        None => {}
    }
}

fn values(env: &mut BTreeMap<String, String>) {
    for value in env.values_mut() {
        text(value);
    }
}

fn text(secret: &mut String) {
    if !secret.is_empty() {
        MASK.clone_into(secret);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_secret_of_any_kind_is_shown() {
        let hidden = || "hunter2".to_owned();
        let env =
            || BTreeMap::from([("KEY".to_owned(), hidden()), ("NONE".to_owned(), String::new())]);
        let config = wire::CloudInitConfig {
            user_data: hidden(),
            meta_data: hidden(),
            network_config: hidden(),
            vendor_data: hidden(),
            password: hidden(),
            ..wire::CloudInitConfig::default()
        };
        let vm = wire::VmSpec { cloud_init: Some(config), ..wire::VmSpec::default() };
        let all = [
            Workload::Container(wire::ContainerSpec { env: env(), ..Default::default() }),
            Workload::Compose(wire::ComposeSpec {
                env: env(),
                inline_yaml: hidden(),
                git_file: hidden(),
                ..Default::default()
            }),
            Workload::Vm(vm),
        ];
        for workload in all {
            let mut spec =
                wire::WorkloadSpec { workload: Some(workload), ..wire::WorkloadSpec::default() };
            mask(&mut spec);
            let mut shown = Vec::new();
            prost::Message::encode(&spec, &mut shown).unwrap();
            let shown = String::from_utf8_lossy(&shown).into_owned();
            assert!(!shown.contains("hunter2") && shown.contains(MASK), "{shown}");
        }
    }
}
