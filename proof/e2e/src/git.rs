//! Repositories that tests make.

use std::path::Path;
use std::process::Command;

/// Has git do something in `folder` and gives what it says. Nobody's own configuration is used.
///
/// # Panics
/// If git does not do it.
#[allow(clippy::unwrap_used, clippy::panic, reason = "for tests, which may stop")]
pub fn git(folder: &Path, args: &[&str]) -> String {
    let who = ["-c", "user.name=t", "-c", "user.email=t@t"];
    let output = Command::new("/usr/bin/git")
        .args(who)
        .args(args)
        .current_dir(folder)
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .output()
        .unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}
