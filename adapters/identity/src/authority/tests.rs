use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::time::UNIX_EPOCH;
use std::{fs, thread};

use proptest::prelude::*;
use rcgen::{CertificateSigningRequestParams, ExtendedKeyUsagePurpose};
use x509_parser::extensions::GeneralName;

use super::*;
use crate::Bundle;
use crate::disk::FileError;
use crate::names::{Name, Role};

const DAY: Duration = Duration::from_hours(24);

fn now() -> SystemTime {
    UNIX_EPOCH + Duration::from_hours(500_000)
}

fn day() -> Validity {
    Validity { now: now(), lifetime: DAY }
}

fn grant(role: Role) -> Grant {
    Grant::new(role, Name::fixed("n1"))
}

fn open(folder: &Path) -> Result<Authority, AuthorityError> {
    let (domain, cluster) = (TrustDomain::new("example.org"), ClusterName::new("east"));
    Authority::open_or_create(folder, &domain.unwrap(), &cluster.unwrap(), now())
}

/// Everything the certificate lets its holder be called, in order.
fn names(pem: &str) -> Vec<String> {
    let der = CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
    let parsed = certificate::parse(&der).unwrap();
    let names = parsed.subject_alternative_name().unwrap().unwrap();
    let shown = |name: &GeneralName<'_>| {
        if let GeneralName::URI(text) | GeneralName::DNSName(text) = name {
            return (*text).to_owned();
        }
        let GeneralName::IPAddress(bytes) = name else { panic!("{name:?} in one of ours") };
        format!("{bytes:?}")
    };
    names.value.general_names.iter().map(shown).collect()
}

/// Whether the certificate may be used to (serve, call, sign).
fn uses(pem: &str) -> (bool, bool, bool) {
    let der = CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
    let parsed = certificate::parse(&der).unwrap();
    let uses = parsed.extended_key_usage().unwrap().unwrap().value;
    assert!(!uses.any);
    (uses.server_auth, uses.client_auth, parsed.is_ca())
}

#[test]
fn an_authority_stays_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("a/ca");
    let first = open(&state).unwrap();
    let again = open(&state).unwrap();
    assert_eq!(first.root_pem(), again.root_pem());
    assert_eq!(fs::read_to_string(state.join("root.pem")).unwrap(), first.root_pem());
    let mode = |name: &str| fs::metadata(state.join(name)).unwrap().mode() & 0o777;
    assert_eq!(mode("authority.pem"), 0o600);
    assert_eq!(fs::metadata(&state).unwrap().mode() & 0o777, 0o700);
    assert_eq!(fs::read_dir(&state).unwrap().count(), 2, "nothing else is left behind");
}

#[test]
fn of_many_that_create_one_wins() {
    let folder = tempfile::tempdir().unwrap();
    let roots: Vec<_> = thread::scope(|scope| {
        let spawn = |_| scope.spawn(|| open(folder.path()).unwrap().root_pem().to_owned());
        let all: Vec<_> = (0..8).map(spawn).collect();
        all.into_iter().map(|one| one.join().unwrap()).collect()
    });
    assert!(roots.iter().all(|root| *root == roots[0]));
}

#[test]
fn each_role_gets_its_names_and_no_others() {
    let folder = tempfile::tempdir().unwrap();
    let authority = open(folder.path()).unwrap();
    for (role, host, serves) in [
        (Role::Scheduler, Some("scheduler.east"), true),
        (Role::Gateway, Some("gateway.east"), true),
        (Role::Agent, Some("n1.agents.east"), true),
        (Role::Operator, None, false),
        (Role::User, None, false),
        (Role::Metrics, None, false),
    ] {
        let issued = authority.issue(&grant(role), day()).unwrap();
        let mut wanted = vec![format!("spiffe://example.org/east/{role}/n1")];
        wanted.extend(host.map(str::to_owned));
        assert_eq!(names(&issued.certificate_pem), wanted);
        assert_eq!(uses(&issued.certificate_pem), (serves, true, false), "{role}");
        assert_eq!(issued.certificate.not_before, now() - Duration::from_mins(5));
        assert_eq!(issued.certificate.not_after, now() + DAY);
        Bundle::from_issued(&issued, now()).unwrap();
    }
    let loopback = authority.issue(&grant(Role::Scheduler).on_loopback(), day()).unwrap();
    let names = names(&loopback.certificate_pem);
    assert_eq!(names[2..4], ["localhost", "[127, 0, 0, 1]"]);
}

#[test]
fn serial_numbers_differ_for_the_same_key() {
    let folder = tempfile::tempdir().unwrap();
    let authority = open(folder.path()).unwrap();
    let key = KeyPair::generate().unwrap();
    let one = authority.certify(&key, &grant(Role::Agent), day()).unwrap();
    let two = authority.certify(&key, &grant(Role::Agent), day()).unwrap();
    assert_ne!(one.certificate.serial, two.certificate.serial);
}

#[test]
fn hosts_that_would_confuse_roles_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let authority = open(folder.path()).unwrap();
    let refused = |role, host: &str| {
        let mut grant = grant(role);
        grant.hosts.names.push(host.to_owned());
        authority.issue(&grant, day()).unwrap_err()
    };
    for host in ["n2.agents.east", "scheduler.EAST", "east", "gateway.east."] {
        let error = refused(Role::Scheduler, host);
        assert!(matches!(error, AuthorityError::HostReserved { .. }), "{host}: {error}");
    }
    for host in ["", "a b", "-a", "127.0.0.1", "*.example.org", "a.example.org."] {
        let error = refused(Role::Gateway, host);
        assert!(matches!(error, AuthorityError::HostName { .. }), "{host}: {error}");
    }
    for role in [Role::Agent, Role::Operator, Role::User, Role::Metrics] {
        let error = refused(role, "localhost");
        assert!(matches!(error, AuthorityError::HostRefused { .. }), "{role}: {error}");
    }
    let long = Grant::new(Role::Agent, Name::new(&"n".repeat(64)).unwrap());
    let error = authority.issue(&long, day()).unwrap_err();
    assert!(matches!(error, AuthorityError::HostName { .. }), "{error}");
}

/// A request that asks for everything it should not get.
fn greedy(key: &KeyPair) -> String {
    let mut params = CertificateParams::new(vec!["scheduler.east".to_owned()]).unwrap();
    let uri = "spiffe://example.org/east/scheduler/s1".try_into().unwrap();
    params.subject_alt_names.push(SanType::URI(uri));
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::Any];
    params.serialize_request(key).unwrap().pem().unwrap()
}

#[test]
fn of_a_request_only_the_key_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let authority = open(folder.path()).unwrap();
    for kind in [&rcgen::PKCS_ECDSA_P256_SHA256, &rcgen::PKCS_ED25519] {
        let key = KeyPair::generate_for(kind).unwrap();
        let request = greedy(&key);
        let signed = authority.sign(request.as_bytes(), &grant(Role::Agent), day()).unwrap();
        let wanted = ["spiffe://example.org/east/agent/n1", "n1.agents.east"];
        assert_eq!(names(&signed.certificate_pem), wanted);
        assert_eq!(uses(&signed.certificate_pem), (true, true, false));
        let key_pem = key.serialize_pem();
        let (certificate, roots) = (signed.certificate_pem.as_bytes(), signed.roots_pem.as_bytes());
        Bundle::from_pems(certificate, key_pem.as_bytes(), roots, now()).unwrap();
    }
}

#[test]
fn a_request_must_prove_its_key() {
    let folder = tempfile::tempdir().unwrap();
    let authority = open(folder.path()).unwrap();
    let sign = |request: &[u8]| authority.sign(request, &grant(Role::Agent), day());
    let request = greedy(&KeyPair::generate().unwrap());
    let mut der =
        CertificateSigningRequestDer::from_pem_slice(request.as_bytes()).unwrap().to_vec();
    CertificateSigningRequestParams::from_der(&der.clone().into()).unwrap();
    let last = der.last_mut().unwrap();
    *last ^= 1;
    let forged = pem::encode(&pem::Pem::new("CERTIFICATE REQUEST", der));
    let large = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P384_SHA384).unwrap();
    for request in [forged, greedy(&large), "garbage".to_owned(), "x".repeat(20_000)] {
        let error = sign(request.as_bytes()).unwrap_err();
        assert!(matches!(error, AuthorityError::Request(_)), "{error}");
    }
}

#[test]
fn nothing_outlives_the_root() {
    let folder = tempfile::tempdir().unwrap();
    let authority = open(folder.path()).unwrap();
    let at = |now, lifetime| authority.issue(&grant(Role::Agent), Validity { now, lifetime });
    let late = at(authority.expires() - DAY, 2 * DAY).unwrap();
    assert_eq!(late.certificate.not_after, authority.expires());
    let error = at(authority.expires(), DAY).unwrap_err();
    assert!(matches!(error, AuthorityError::RootExpired { .. }), "{error}");
    for lifetime in [Duration::ZERO, 367 * DAY] {
        let error = at(now(), lifetime).unwrap_err();
        assert!(matches!(error, AuthorityError::Lifetime { .. }), "{error}");
    }
}

#[test]
fn unsafe_places_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("ca");
    open(&state).unwrap();
    let file = state.join("authority.pem");
    let chmod = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode));

    for mode in [0o640, 0o604, 0o620, 0o666] {
        chmod(&file, mode).unwrap();
        let error = open(&state).unwrap_err();
        let wide = matches!(error, AuthorityError::File(FileError::Mode { .. }));
        assert!(wide && error.to_string().contains("chmod 600"), "{error}");
    }
    chmod(&file, 0o600).unwrap();

    chmod(&state, 0o770).unwrap();
    let error = open(&state).unwrap_err();
    assert!(matches!(error, AuthorityError::File(FileError::Mode { .. })), "{error}");
    chmod(&state, 0o700).unwrap();

    let link = folder.path().join("link");
    symlink(&state, &link).unwrap();
    let error = open(&link).unwrap_err();
    assert!(matches!(error, AuthorityError::File(FileError::Link { .. })), "{error}");

    fs::rename(&file, folder.path().join("elsewhere.pem")).unwrap();
    symlink(folder.path().join("elsewhere.pem"), &file).unwrap();
    let error = open(&state).unwrap_err();
    assert!(matches!(error, AuthorityError::File(FileError::Link { .. })), "{error}");
}

#[test]
fn damage_is_told_and_never_papered_over() {
    let folder = tempfile::tempdir().unwrap();
    open(folder.path()).unwrap();
    let path = folder.path().join("authority.pem");
    let whole = fs::read_to_string(&path).unwrap();
    let other_folder = tempfile::tempdir().unwrap();
    open(other_folder.path()).unwrap();
    let other = fs::read_to_string(other_folder.path().join("authority.pem")).unwrap();
    let begin = "-----BEGIN CERTIFICATE-----";
    let (key, certificate) = whole.split_once(begin).unwrap();
    let (other_key, _) = other.split_once(begin).unwrap();
    let certificate = format!("{begin}{certificate}");
    let swapped = format!("{other_key}{certificate}");
    for damaged in ["", &whole[..whole.len() / 2], &whole[..100], key, &certificate, &swapped] {
        fs::write(&path, damaged).unwrap();
        let error = open(folder.path()).unwrap_err();
        assert!(matches!(error, AuthorityError::Broken { .. }), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), damaged, "nothing is made anew");
    }
    fs::write(&path, &whole).unwrap();
    open(folder.path()).unwrap();
}

#[test]
fn a_folder_is_one_clusters() {
    let folder = tempfile::tempdir().unwrap();
    open(folder.path()).unwrap();
    let (domain, west) = (TrustDomain::new("example.org"), ClusterName::new("west"));
    let error = Authority::open_or_create(folder.path(), &domain.unwrap(), &west.unwrap(), now())
        .unwrap_err();
    assert!(matches!(error, AuthorityError::OtherCluster { .. }), "{error}");
}

#[test]
fn keys_are_not_shown() {
    let folder = tempfile::tempdir().unwrap();
    let authority = open(folder.path()).unwrap();
    let issued = authority.issue(&grant(Role::Agent), day()).unwrap();
    let bundle = Bundle::from_issued(&issued, now()).unwrap();
    let shown = format!("{authority:?} {issued:?} {bundle:?}");
    assert!(!shown.contains("PRIVATE"));
    for line in issued.key_pem.lines() {
        assert!(!shown.contains(line), "{line}");
    }
}

proptest! {
    /// No bytes make the signer fail otherwise than by an error.
    #[test]
    fn any_request_is_answered(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let pem = pem::encode(&pem::Pem::new("CERTIFICATE REQUEST", bytes));
        prop_assert!(requested_key(pem.as_bytes()).is_err());
    }
}
