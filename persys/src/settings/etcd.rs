//! Where a scheduler keeps its records, as it is told.

use std::path::PathBuf;

use persys_etcd::{Said, Settings};
use persys_scheduler::place::Place;
use persys_store::{EtcdSettings, Keys, Settings as StoreSettings};

use super::read::Reader;
use super::{Origin, Values};

/// Whoever names endpoints of etcd means etcd, unless a store is named as well.
pub(super) fn settle(values: &mut Values) {
    let named = values.is_given("etcd-endpoints") && !values.text("etcd-endpoints").is_empty();
    if named && !values.is_given("store") {
        values.follows("store", "etcd", "etcd-endpoints");
    }
}

/// A file of its own, or etcd.
pub(super) fn place(read: &mut Reader<'_>, values: &Values) -> Place {
    match values.text("store") {
        "embedded" => Place::File,
        "etcd" => Place::Etcd(Box::new(etcd(read, values))),
        _ => {
            read.fault("store", "embedded or etcd");
            Place::File
        }
    }
}

fn etcd(read: &mut Reader<'_>, values: &Values) -> EtcdSettings {
    if values.origin("etcd-password") == Some(&Origin::Flag) {
        let why = "a flag is seen by everybody on this machine: use ETCD_PASSWORD or a file";
        read.fault("etcd-password", why);
    }
    let root = values.text("etcd-root").to_owned();
    if let Err(why) = Keys::new(&root) {
        read.fault("etcd-root", why);
    }
    let path = |key: &str| read.text(key).map(PathBuf::from);
    let said = Said {
        endpoints: read.list("etcd-endpoints"),
        ca: path("etcd-ca"),
        cert: path("etcd-cert"),
        key: path("etcd-key"),
        server_name: read.text("etcd-server-name"),
        user: read.text("etcd-user"),
        password: read.text("etcd-password").map(Into::into),
        password_file: path("etcd-password-file"),
    };
    let way = said.settings().unwrap_or_else(|faults| {
        for fault in faults {
            read.fault(fault.word, fault.why);
        }
        Settings::new(Vec::new())
    });
    // It does not tell, in the versions that are out there.
    let quota_bytes = read.perhaps::<u64>("etcd-quota-bytes", "a number of bytes");
    let quota_bytes = quota_bytes.filter(|bytes| *bytes > 0);
    EtcdSettings { way, store: StoreSettings { root, ..StoreSettings::default() }, quota_bytes }
}

#[cfg(test)]
mod tests {
    use super::super::scheduler::{ABOUT, TABLE, config};
    use super::super::{command, resolve, with_two_dashes};
    use super::*;

    fn placed(line: &str, variables: &[(&str, &str)]) -> Result<Place, Vec<String>> {
        let words = line.split_whitespace().map(std::ffi::OsString::from).map(with_two_dashes);
        let typed = command("scheduler", ABOUT, TABLE).try_get_matches_from(words).unwrap();
        let variable = |name: &str| {
            variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
        };
        let values = resolve(TABLE, &typed, variable, None).unwrap();
        assert!(!values.table().contains("geheim"), "a password is not shown");
        config(&values).map(|config| config.store)
    }

    fn etcd(line: &str, variables: &[(&str, &str)]) -> EtcdSettings {
        match placed(line, variables).unwrap() {
            Place::Etcd(settings) => *settings,
            Place::File => panic!("a file"),
        }
    }

    #[test]
    fn endpoints_mean_etcd_unless_somebody_says_otherwise() {
        assert!(matches!(placed("", &[]), Ok(Place::File)));
        let named = [("ETCD_ENDPOINTS", "a:2379, http://b:2379")];
        let ends: Vec<_> = etcd("", &named).way.endpoints.iter().map(ToString::to_string).collect();
        assert_eq!(ends, ["a:2379", "b:2379"]);
        assert!(matches!(placed("--store embedded", &named), Ok(Place::File)));
        let default = etcd("--store etcd", &[]);
        assert_eq!(default.way.endpoints[0].to_string(), "localhost:2379");
        assert!(matches!(placed("", &[("ETCD_ENDPOINTS", "")]), Ok(Place::File)));
    }

    #[test]
    fn every_setting_reaches_the_store() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("password");
        std::fs::write(&file, "from-file\n").unwrap();
        let line = format!(
            "--etcd-endpoints https://a:1 --etcd-root /blue --etcd-ca /ca --etcd-cert /c \
             --etcd-key /k --etcd-server-name etcd --etcd-user me --etcd-password-file {}",
            file.display()
        );
        let settings = etcd(&line, &[]);
        assert_eq!(settings.store.root, "/blue");
        assert_eq!(settings.quota_bytes, Some(2 << 30), "what etcd has by itself");
        let quota = |bytes| etcd(&format!("--store etcd --etcd-quota-bytes {bytes}"), &[]);
        assert_eq!(quota("8589934592").quota_bytes, Some(8 << 30));
        assert_eq!(quota("0").quota_bytes, None, "nobody knows");
        let tls = settings.way.tls.unwrap();
        assert_eq!((tls.roots, tls.own), ("/ca".into(), Some(("/c".into(), "/k".into()))));
        assert_eq!(tls.server_name.as_deref(), Some("etcd"));
        let login = settings.way.login.unwrap();
        assert_eq!((login.user.as_str(), login.password.as_str()), ("me", "from-file"));
        let login = etcd("--store etcd --etcd-user me", &[("ETCD_PASSWORD", "geheim")]).way.login;
        assert_eq!(login.unwrap().password.as_str(), "geheim");
    }

    #[test]
    fn all_faults_are_named_and_no_password_among_them() {
        let faults = placed(
            "--etcd-endpoints nowhere,https://a:1 --etcd-root x/ --etcd-cert /c --etcd-password geheim \
             --etcd-quota-bytes much",
            &[],
        )
        .unwrap_err();
        for key in [
            "etcd-endpoints",
            "etcd-root",
            "etcd-cert",
            "etcd-password",
            "etcd-user",
            "etcd-quota-bytes",
        ] {
            assert!(faults.iter().any(|fault| fault.starts_with(key)), "{key}: {faults:#?}");
        }
        assert!(faults.iter().all(|fault| !fault.contains("geheim")), "{faults:?}");
        assert!(placed("--store redis", &[]).is_err());
    }
}
