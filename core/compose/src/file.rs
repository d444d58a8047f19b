//! A document as a file again: for those who read it in place of the user's own.
//!
//! Unlike what is handed to the compose program, it still names the secrets and what is set aside of
//! the node: read again, it is the same document.

use serde_json::{Map, Value, json};

use crate::document::Document;
use crate::service::{Mount, MountSource, Port};
use crate::signal::SIGNAL_KEY;

impl Document {
    /// The same stack, with nothing published on its node.
    #[must_use]
    pub fn without_ports(mut self) -> Self {
        for service in self.services.values_mut() {
            service.ports.clear();
        }
        self
    }

    /// Ports it publishes on its node, as people read them: `80/tcp`, or `8080/tcp of the container`
    /// where the runtime chooses the port of the node.
    #[must_use]
    pub fn ports(&self) -> Vec<String> {
        let ports = self.services.values().flat_map(|service| &service.ports);
        let shown = |port: &Port| match port.host {
            Some(host) => format!("{host}/{}", port.protocol.word()),
            None => format!("{}/{} of the container", port.container, port.protocol.word()),
        };
        ports.map(shown).collect()
    }

    /// A Compose file of this document; reading it needs no variables.
    #[must_use]
    pub fn to_file(&self) -> String {
        let mut plain = self.clone();
        for service in plain.services.values_mut() {
            service.mounts.retain(|mount| secret_of(mount).is_none());
        }
        let mut file = plain.to_value();
        let mut secrets = Map::new();
        for (name, service) in &self.services {
            let Some(Value::Object(out)) =
                file.pointer_mut("/services").and_then(|all| all.get_mut(name))
            else {
                continue;
            };
            let seen: Vec<_> = service.mounts.iter().filter_map(secret_of).collect();
            if !seen.is_empty() {
                out.insert("secrets".to_owned(), seen.into());
            }
            if let Some(cpu) = service.limits.reserved_cpu_millicores {
                let cpus = format!("{}.{:03}", cpu / 1000, cpu % 1000);
                let deploy = json!({ "resources": { "reservations": { "cpus": cpus } } });
                out.insert("deploy".to_owned(), deploy);
            }
        }
        for (_, secret) in self.secrets() {
            let named = match secret.signal {
                Some(signal) => json!({ "external": true, SIGNAL_KEY: signal.word() }),
                None => json!({ "external": true }),
            };
            secrets.insert(secret.name.clone(), named);
        }
        if let Value::Object(top) = &mut file
            && !secrets.is_empty()
        {
            top.insert("secrets".to_owned(), secrets.into());
        }
        file.to_string()
    }
}

/// The entry of a secret that is seen there, if one is.
fn secret_of(mount: &Mount) -> Option<Value> {
    let MountSource::Secret(secret) = &mount.source else { return None };
    let (mode, target) = (format!("{:04o}", secret.mode), mount.target.replace('$', "$$"));
    Some(json!({
        "source": secret.name, "target": target, "uid": secret.uid, "gid": secret.gid, "mode": mode,
    }))
}
