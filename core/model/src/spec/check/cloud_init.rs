//! First-boot configuration of VMs. Nothing here is ever quoted: it holds keys and passwords.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::at::At;
use super::decode::plain_or_base64;
use super::limits::{CLOUD_INIT_BYTES, PASSWORD_HASH_BYTES, SSH_KEY_BYTES, USERNAME_BYTES};
use super::text::{is_clean_text, length};
use crate::spec::draft::{CloudInitDraft, VmDraft};
use crate::spec::secret::Secret;
use crate::spec::vm::{CloudInit, Login};

pub(super) fn cloud_init(at: &At<'_>, draft: &VmDraft) -> Option<CloudInit> {
    let parts = at.field("cloud_init_config");
    let config = &draft.cloud_init_config;
    let single = plain_or_base64(&at.field("cloud_init"), &draft.cloud_init, CLOUD_INIT_BYTES);
    let user_data = part(&parts.field("user_data"), &config.user_data);
    let meta_data = part(&parts.field("meta_data"), &config.meta_data);
    let network_config = part(&parts.field("network_config"), &config.network_config);
    let vendor_data = part(&parts.field("vendor_data"), &config.vendor_data);
    let login = login(&parts, config);

    let two_sources = !draft.cloud_init.is_empty() && !config.user_data.is_empty();
    if two_sources {
        at.field("cloud_init").fault("and cloud_init_config.user_data are the same; give one");
    }
    let user_data =
        if draft.cloud_init.is_empty() { user_data } else { single.map(|t| Secret::new(&t)) };
    let (user_data, meta_data, network_config, vendor_data) =
        (user_data?, meta_data?, network_config?, vendor_data?);
    let all = [&user_data, &meta_data, &network_config, &vendor_data];
    let total = all.iter().map(|text| text.reveal().len()).sum();
    length(&parts, total, CLOUD_INIT_BYTES)?;
    let login = login?;
    if login.is_some() && !user_data.is_empty() {
        return parts.field("user_data").refuse(
            "cannot be combined with username, ssh_public_key or password; name the user in it",
        );
    }
    Some(CloudInit { user_data, meta_data, network_config, vendor_data, login })
}

fn part(at: &At<'_>, text: &str) -> Option<Secret> {
    length(at, text.len(), CLOUD_INIT_BYTES)?;
    if !is_clean_text(text) {
        return at.refuse("has a control character in it");
    }
    Some(Secret::new(text))
}

#[expect(clippy::option_option, reason = "outer: well formed; inner: given")]
fn login(at: &At<'_>, draft: &CloudInitDraft) -> Option<Option<Login>> {
    let username = given(&draft.username, |text| username(&at.field("username"), text));
    let key = given(&draft.ssh_public_key, |text| ssh_key(&at.field("ssh_public_key"), text));
    let password = given(&draft.password, |text| password_hash(&at.field("password"), text));
    if !draft.username.is_empty() && draft.ssh_public_key.is_empty() && draft.password.is_empty() {
        return at.field("username").refuse("could not log in: give ssh_public_key or password");
    }
    let login = Login { username: username?, ssh_public_key: key?, password_hash: password? };
    let any = login.ssh_public_key.is_some() || login.password_hash.is_some();
    Some(any.then_some(login))
}

#[expect(clippy::option_option, reason = "outer: well formed; inner: given")]
fn given<T>(text: &str, check: impl FnOnce(&str) -> Option<T>) -> Option<Option<T>> {
    if text.is_empty() { Some(None) } else { check(text).map(Some) }
}

/// The rule of `useradd`.
fn username(at: &At<'_>, text: &str) -> Option<Arc<str>> {
    length(at, text.len(), USERNAME_BYTES)?;
    let start = text.bytes().next().is_some_and(|b| b.is_ascii_lowercase() || b == b'_');
    let inside = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'_' | b'-');
    if !start || !text.bytes().all(inside) {
        return at.refuse("is not a user's name: small letters, digits, '_', '-', a letter first");
    }
    Some(Arc::from(text))
}

const KEY_KINDS: &[&str] = &[
    "ssh-ed25519",
    "ssh-rsa",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "sk-ssh-ed25519@openssh.com",
    "sk-ecdsa-sha2-nistp256@openssh.com",
];

/// One line `kind base64 [comment]`: no options, no second line, not a private key.
fn ssh_key(at: &At<'_>, text: &str) -> Option<Arc<str>> {
    length(at, text.len(), SSH_KEY_BYTES)?;
    let text = text.trim_end_matches(['\n', '\r']);
    if text.chars().any(char::is_control) {
        return at.refuse("must be one line, the content of a .pub file");
    }
    let mut parts = text.splitn(3, ' ');
    let kind = parts.next().unwrap_or_default();
    let body = parts.next().unwrap_or_default();
    if !KEY_KINDS.contains(&kind) {
        return at.refuse(format!("must start with one of {}", KEY_KINDS.join(", ")));
    }
    // The body repeats its kind: a length of four bytes, then the text.
    let sound = STANDARD
        .decode(body)
        .is_ok_and(|bytes| bytes.get(4..).is_some_and(|rest| rest.starts_with(kind.as_bytes())));
    if !sound {
        return at.refuse("its second word is not the base64 of a key of that kind");
    }
    Some(Arc::from(text))
}

/// Kinds of crypt hashes no one should be able to turn back: sha256, sha512, yescrypt, scrypt,
/// gost-yescrypt and bcrypt. MD5 (`$1$`) is not among them.
const HASH_KINDS: &[&str] = &["5", "6", "y", "7", "gy", "2a", "2b", "2y"];

fn password_hash(at: &At<'_>, text: &str) -> Option<Secret> {
    length(at, text.len(), PASSWORD_HASH_BYTES)?;
    let mut parts = text.split('$');
    let plain = parts.next() != Some("");
    let kind = parts.next().unwrap_or_default();
    let rest: Vec<_> = parts.collect();
    let alphabet =
        |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'/' | b'$' | b'=' | b',');
    if plain || !HASH_KINDS.contains(&kind) || rest.last().is_none_or(|hash| hash.len() < 20) {
        return at.refuse(
            "must be a hash such as `openssl passwd -6` prints, never the password itself",
        );
    }
    if !text.bytes().all(alphabet) {
        return at.refuse("has a character no password hash has");
    }
    Some(Secret::new(text))
}
