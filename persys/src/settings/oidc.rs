//! Whose logins a scheduler believes.

use std::path::PathBuf;

use persys_scheduler::app::LoginSettings;

use super::read::Reader;

/// What is known of the provider, if there is one.
pub(super) fn settings(read: &Reader<'_>) -> Option<LoginSettings> {
    let issuer = read.text("oidc-issuer")?;
    let text = |key: &str| read.text(key).unwrap_or_default();
    Some(LoginSettings {
        user_claim: text("oidc-user-claim"),
        groups_claim: text("oidc-groups-claim"),
        roots: read.text("oidc-ca").map(PathBuf::from),
        ..LoginSettings::new(&issuer, &text("oidc-audience"))
    })
}
