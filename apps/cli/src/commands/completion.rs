//! `completion`: the script of a shell, with the names of workloads and nodes where a name is typed.
//!
//! The scripts clap writes know words, not names. Names are asked of the cluster while somebody types, by
//! the hidden command `names`, which is quick and says nothing if it fails.

use std::time::Duration;

use clap_complete::Shell as Kind;
use persys_proto::control::v1 as wire;

use crate::args::Names;
use crate::problem::Problem;
use crate::shell::Shell;

/// Commands whose words are workloads.
const OF_WORKLOADS: &[&str] = &[
    "get", "why", "logs", "exec", "console", "events", "stop", "start", "pause", "resume",
    "restart", "retry", "delete", "history", "diff", "rollback", "describe", "rm",
];
/// Commands below `node` whose words are nodes.
const OF_NODES: &[&str] =
    &["get", "drain", "undrain", "label", "taint", "untaint", "remove", "confirm-gone"];
/// Longest wait for names: somebody holds a key down.
const PATIENCE: Duration = Duration::from_secs(2);

/// The script of a shell.
pub(super) fn script(kind: Kind, command: &mut clap::Command, program: &str) -> Vec<u8> {
    let mut script = Vec::new();
    clap_complete::generate(kind, command, program, &mut script);
    if kind == Kind::Zsh {
        // A script that zsh loads by its name is called at once: names are asked then, too.
        let text = String::from_utf8_lossy(&script).into_owned();
        let own = format!("if [ \"$funcstack[1]\" = \"_{program}\" ]; then");
        let until = text.rfind(&own).unwrap_or(text.len());
        script.truncate(until);
    }
    let workloads = OF_WORKLOADS.join(" ");
    let nodes = OF_NODES.join(" ");
    // The others complete commands and options.
    let more = if kind == Kind::Bash {
        bash(program, &workloads, &nodes)
    } else if kind == Kind::Zsh {
        zsh(program, &workloads, &nodes)
    } else if kind == Kind::Fish {
        fish(program, &workloads, &nodes)
    } else {
        String::new()
    };
    script.extend_from_slice(more.as_bytes());
    script
}

fn bash(program: &str, workloads: &str, nodes: &str) -> String {
    let (workloads, nodes) = (workloads.replace(' ', "|"), nodes.replace(' ', "|"));
    format!(
        r#"
_{program}_names() {{
    _{program} "$@"
    local typed="${{COMP_WORDS[COMP_CWORD]}}" what=""
    case "$typed" in -*) return ;; esac
    case "${{COMP_WORDS[1]}}" in
        node)
            case "${{COMP_WORDS[2]}}" in {nodes}) [ "$COMP_CWORD" -gt 2 ] && what=nodes ;; esac ;;
        {workloads}) [ "$COMP_CWORD" -gt 1 ] && what=workloads ;;
    esac
    [ -n "$what" ] && COMPREPLY=($(compgen -W "$({program} names "$what" 2>/dev/null)" -- "$typed"))
}}
complete -F _{program}_names -o bashdefault -o default {program}
"#
    )
}

fn zsh(program: &str, workloads: &str, nodes: &str) -> String {
    let (workloads, nodes) = (workloads.replace(' ', "|"), nodes.replace(' ', "|"));
    format!(
        r#"
_{program}_names() {{
    local what=""
    case "$words[CURRENT]" in -*) _{program} "$@"; return ;; esac
    case "$words[2] $words[3]" in
        "node "({nodes})) (( CURRENT > 3 )) && what=nodes ;;
        ({workloads})" "*) (( CURRENT > 2 )) && what=workloads ;;
    esac
    if [ -n "$what" ]; then
        compadd -- ${{(f)"$({program} names "$what" 2>/dev/null)"}}
    else
        _{program} "$@"
    fi
}}
if [ "$funcstack[1]" = "_{program}" ]; then
    _{program}_names "$@"
fi
compdef _{program}_names {program}
"#
    )
}

fn fish(program: &str, workloads: &str, nodes: &str) -> String {
    format!(
        r#"
complete -c {program} -n "__fish_seen_subcommand_from {workloads}; and not __fish_seen_subcommand_from node" -f -a "({program} names workloads 2>/dev/null)"
complete -c {program} -n "__fish_seen_subcommand_from node; and __fish_seen_subcommand_from {nodes}" -f -a "({program} names nodes 2>/dev/null)"
"#
    )
}

/// `names`: one a line; nothing if they cannot be had at once.
pub(super) async fn names(shell: &Shell, of: Names) -> Result<u8, Problem> {
    let Ok(client) = shell.client() else { return Ok(1) };
    let asked = async {
        match of {
            Names::Workloads => {
                let request = wire::ListWorkloadsRequest::default();
                let found = client.answer(client.control().list_workloads(request)).await?;
                Ok(found.workloads.into_iter().map(|view| view.workload_id).collect::<Vec<_>>())
            }
            Names::Nodes => {
                let request = wire::ListNodesRequest::default();
                let found = client.answer(client.control().list_nodes(request)).await?;
                Ok(found.nodes.into_iter().map(|view| view.node_id).collect())
            }
        }
    };
    let found: Result<_, tonic::Status> = match tokio::time::timeout(PATIENCE, asked).await {
        Ok(found) => found,
        Err(_) => return Ok(1),
    };
    let Ok(names) = found else { return Ok(1) };
    for name in names {
        shell.line(&name)?;
    }
    Ok(0)
}
