//! What people type: commands, waiting, tables, exit codes.

pub mod context {
    //! temp
    #[derive(Default)]
    pub struct Context {
        pub endpoint: Option<String>,
        pub identity: Option<std::path::PathBuf>,
        pub note: Option<String>,
        pub insecure: bool,
    }
    pub fn home() -> std::path::PathBuf {
        "/tmp".into()
    }
    pub fn write(_: &std::path::Path, _: &str, _: &Context) -> std::io::Result<()> {
        Ok(())
    }
    pub fn remove(_: &std::path::Path, _: &str) -> std::io::Result<()> {
        Ok(())
    }
}
pub async fn run(_: &str, _: Vec<std::ffi::OsString>) -> std::process::ExitCode {
    std::process::ExitCode::FAILURE
}
