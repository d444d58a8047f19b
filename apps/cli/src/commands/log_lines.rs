//! Output of a workload as data: one object a line, so that programs can read it as it comes.

use persys_proto::compute::v1::LogChunk;
use serde_json::json;

use crate::args::Output;

const STANDARD_ERROR: u32 = 2;
/// Bytes after which a line is shown although it has not ended.
const LONGEST: usize = 64 * 1024;

/// Lines that are not whole yet, by the stream they come from.
pub(super) struct Lines<'a> {
    workload: &'a str,
    out: Vec<u8>,
    err: Vec<u8>,
}

impl<'a> Lines<'a> {
    pub(super) fn new(workload: &'a str) -> Self {
        Self { workload, out: Vec::new(), err: Vec::new() }
    }

    /// Takes in a chunk: the lines that are whole now.
    pub(super) fn take(&mut self, chunk: &LogChunk, output: Output) -> String {
        let error = chunk.stream == STANDARD_ERROR;
        let held = if error { &mut self.err } else { &mut self.out };
        held.extend_from_slice(&chunk.data);
        let mut shown = String::new();
        while let Some(length) = whole(held) {
            let line: Vec<u8> = held.drain(..length).collect();
            shown += &show(self.workload, error, &line, output);
        }
        shown
    }

    /// The rest, whole or not.
    pub(super) fn end(self, output: Output) -> String {
        [(false, self.out), (true, self.err)]
            .into_iter()
            .filter(|(_, rest)| !rest.is_empty())
            .map(|(error, rest)| show(self.workload, error, &rest, output))
            .collect()
    }
}

/// Length of the first line, with its end.
fn whole(held: &[u8]) -> Option<usize> {
    let end = held.iter().position(|byte| *byte == b'\n').map(|at| at + 1);
    end.or_else(|| (held.len() >= LONGEST).then_some(held.len()))
}

fn show(workload: &str, error: bool, line: &[u8], output: Output) -> String {
    let text = String::from_utf8_lossy(line);
    let text = text.trim_end_matches(['\n', '\r']);
    let stream = if error { "stderr" } else { "stdout" };
    let value = json!({ "workload_id": workload, "stream": stream, "line": text });
    match output {
        // A list that never ends: each entry is one of it.
        Output::Yaml => format!("- {value}\n"),
        Output::Json | Output::Table | Output::Wide => format!("{value}\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_is_an_object_of_its_own_whatever_the_chunks_are() {
        let mut lines = Lines::new("web");
        let chunk = |stream, data: &str| LogChunk { stream, data: data.into() };
        assert_eq!(lines.take(&chunk(1, "one\ntw"), Output::Json).lines().count(), 1);
        let shown = lines.take(&chunk(1, "o\n"), Output::Json);
        assert_eq!(shown, "{\"line\":\"two\",\"stream\":\"stdout\",\"workload_id\":\"web\"}\n");
        assert_eq!(lines.take(&chunk(2, "bad \""), Output::Json), "");
        let rest = lines.end(Output::Yaml);
        assert!(rest.starts_with("- {") && rest.contains("stderr"), "{rest}");
    }
}
