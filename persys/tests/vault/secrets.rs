//! Secrets of workloads from the server's key/value engine, version 1, by way of AppRole.

use serde_json::json;

use crate::program::{Folder, Program, ready_node, types, until};
use crate::server::Server;

struct Site {
    folder: Folder,
    way: String,
    _scheduler: Program,
    _agent: Program,
}

impl Site {
    fn start(server: &Server) -> Self {
        let folder = Folder::new();
        let (role_id, secret_id) = server.application();
        let (address, state) = (server.url(), folder.at("scheduler"));
        let variables = [
            ("PERSYS_STATE_DIR", state.as_str()),
            ("GRPC_PORT", "0"),
            ("METRICS_PORT", "0"),
            ("PERSYS_DNS_ENABLED", "false"),
            ("PERSYS_VAULT_ENABLED", "false"),
            ("PERSYS_VAULT_SECRETS_ENABLED", "true"),
            ("PERSYS_VAULT_SECRETS_REFRESH", "500ms"),
            ("PERSYS_VAULT_ADDR", &address),
            ("PERSYS_VAULT_APPROLE_ROLE_ID", &role_id),
            ("PERSYS_VAULT_APPROLE_SECRET_ID", &secret_id),
        ];
        let mut scheduler = Program::start(folder.path(), &["scheduler", "-insecure"], &variables);
        let at = scheduler.at("grpc").to_string();
        let state = folder.at("agent");
        let variables = [
            ("PERSYS_STATE_PATH", state.as_str()),
            ("PERSYS_GRPC_PORT", "0"),
            ("PERSYS_METRICS_PORT", "0"),
            ("PERSYS_NODE_ID", "n1"),
            ("PERSYS_SCHEDULER_ADDR", &at),
        ];
        let words = ["agent", "--runtime", "sim", "--insecure"];
        let mut agent = Program::start(folder.path(), &words, &variables);
        agent.at("at");
        let way = format!("--endpoint {at} --insecure");
        ready_node(&folder, &way);
        Self { folder, way, _scheduler: scheduler, _agent: agent }
    }

    fn typed(&self, line: &str) -> (i32, String) {
        let (code, out, err) = types(&self.folder, &format!("{line} {}", self.way));
        (code, out + &err)
    }

    fn well(&self, line: &str) -> String {
        let (code, told) = self.typed(line);
        assert_eq!(code, 0, "{line}: {told}");
        told
    }

    fn shows(&self, what: &str, wanted: &str) {
        until(wanted, || self.well(what).contains(wanted).then_some(()));
    }
}

#[test]
fn a_workload_has_its_secret_from_version_1_and_outlives_the_server() {
    let mut server = Server::start();
    server.asks("POST", "sys/mounts/kv", &json!({"type": "kv"}));
    let site = Site::start(&server);
    let set = "secret set db --namespace web --vault kv/web/db#password --kv-version 1 --on-change restart";
    site.well("namespace create web");
    let (code, told) = site.typed(set);
    assert!(code != 0 && told.contains("--allow-vault-path"), "{told}");
    site.well("namespace set web --allow-vault-path kv/web");
    // It is not there yet: the workload says so, and starts when it is.
    site.well(set);
    site.well("run nginx --name web --namespace web --secret db --detach");
    until("the reason", || {
        let told = site.typed("why web").1;
        told.contains("the secret db has no value").then_some(())
    });
    server.asks("POST", "kv/web/db", &json!({"password": "first"}));
    site.shows("list", "Running");
    site.shows("secret show db --namespace web", "confirmed");

    // A new value restarts it.
    server.asks("POST", "kv/web/db", &json!({"password": "second"}));
    until("a restart", || site.well("events").contains("Stopped").then_some(()));
    site.shows("list", "Running");

    // Without the server the last value serves.
    server.kill();
    site.shows("secret show db --namespace web", "not reached");
    site.well("restart web");
    site.shows("list", "Running");
    server.run();
    site.shows("secret show db --namespace web", "trouble");
    server.unseal();
    until("well again", || {
        let told = site.well("secret show db --namespace web");
        (!told.contains("trouble")).then_some(())
    });
}
