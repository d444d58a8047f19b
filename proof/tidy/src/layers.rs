//! Dependencies point one way: `persys → apps → adapters → core`; proofs may use anything.
//!
//! The layer of a crate is the folder it lives in, so the rule needs no list of crates.

use std::collections::BTreeMap;

use crate::Finding;
use crate::tree::SourceFile;

/// Outside crates that the pure layer may use: they compute, and do nothing else.
const PURE: &[&str] = &["base64", "granit-parser", "serde_json", "sha2", "thiserror"];

/// Adapters that other adapters may use: the bare way to an outside system, or one part of it, without a
/// seam of its own.
const WAYS: &[&str] = &["persys-codec", "persys-etcd", "persys-libvirt", "persys-process"];

/// Every breach of the layers.
pub fn check(files: &[SourceFile]) -> Vec<Finding> {
    let manifests: Vec<_> = files
        .iter()
        .filter(|file| file.path.ends_with("/Cargo.toml"))
        .map(|file| (file, layer_of(&file.path)))
        .collect();
    let layers: BTreeMap<&str, &str> =
        manifests.iter().filter_map(|(file, layer)| Some((name_of(&file.text)?, *layer))).collect();
    let mut findings = Vec::new();
    for (file, layer) in &manifests {
        for dependency in dependencies(&file.text) {
            let problem = match layers.get(dependency) {
                Some(target) if allowed(layer, target) => continue,
                Some(_) if *layer == "adapters" && WAYS.contains(&dependency) => continue,
                Some(target) => {
                    format!("{dependency} is in {target}, which {layer} must not depend on")
                }
                None if *layer == "core" && !PURE.contains(&dependency) => {
                    format!("core must stay pure: {dependency} is not on its list")
                }
                None => continue,
            };
            findings.push(Finding { path: file.path.clone(), problem });
        }
        if !file.text.contains("[lints]\nworkspace = true") {
            let problem = "must take its lints from the workspace".to_owned();
            findings.push(Finding { path: file.path.clone(), problem });
        }
    }
    findings
}

fn layer_of(path: &str) -> &str {
    path.split('/').next().unwrap_or_default()
}

fn name_of(manifest: &str) -> Option<&str> {
    manifest.lines().find_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"'))
}

/// Names under `[dependencies]` and `[build-dependencies]`; tests may use what they like.
fn dependencies(manifest: &str) -> Vec<&str> {
    let mut within = false;
    let mut names = Vec::new();
    for line in manifest.lines() {
        if line.starts_with('[') {
            within = line == "[dependencies]";
        } else if within && let Some((name, _)) = line.split_once(['.', ' ', '=']) {
            names.push(name.trim());
        }
    }
    names.retain(|name| !name.is_empty() && !name.starts_with('#'));
    names
}

fn allowed(from: &str, to: &str) -> bool {
    match from {
        "core" => to == "core",
        "adapters" => to == "core",
        "apps" => matches!(to, "adapters" | "core"),
        "persys" => matches!(to, "apps" | "adapters" | "core"),
        "proof" => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(path: &str, name: &str, dependencies: &str) -> SourceFile {
        let text = format!(
            "[package]\nname = \"{name}\"\n\n[lints]\nworkspace = true\n\n[dependencies]\n{dependencies}"
        );
        SourceFile { path: path.to_owned(), text }
    }

    #[test]
    fn a_breach_is_found() {
        let files = [
            manifest("core/model/Cargo.toml", "model", "tokio = \"1\"\n"),
            manifest(
                "core/cluster/Cargo.toml",
                "cluster",
                "model.workspace = true\nstore.workspace = true\n",
            ),
            manifest(
                "adapters/store/Cargo.toml",
                "store",
                "model.workspace = true\nproto.workspace = true\n",
            ),
            manifest("adapters/proto/Cargo.toml", "proto", "model.workspace = true\n"),
            manifest("apps/agent/Cargo.toml", "agent", "sim = { workspace = true }\n"),
            manifest("proof/sim/Cargo.toml", "sim", "agent.workspace = true\n"),
        ];
        let breaches: Vec<_> = check(&files).into_iter().map(|finding| finding.path).collect();
        assert_eq!(
            breaches,
            [
                "core/model/Cargo.toml",
                "core/cluster/Cargo.toml",
                "adapters/store/Cargo.toml",
                "apps/agent/Cargo.toml"
            ]
        );
    }
}
