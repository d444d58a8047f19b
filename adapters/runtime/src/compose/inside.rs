//! Looking into a stack: what its services print, use, and left behind.

use std::collections::BTreeMap;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use futures::future::join_all;
use futures::stream::{self, BoxStream};
use futures::{StreamExt as _, TryStreamExt as _};
use persys_model::id::WorkloadId;
use persys_node::input::Existing;

use crate::docker::identity;
use crate::docker::wakeups::Whose;
use crate::error::Error;
use crate::exclusive::Exclusive;
use crate::inside::{
    Chunk, End, Evidence, Exec, ExecCommand, LogRange, Logs, Output, Reading, Session, Usage,
    Wakeup, Wakeups,
};

use super::Compose;
use super::observe::{Piece, judge};

/// Longest line that is held back until it is whole.
const LINE_BYTES: usize = 16 * 1024;

impl Compose {
    async fn present(&self, workload: &WorkloadId) -> Result<Vec<Piece>, Error> {
        let pieces = self.pieces(Some(workload)).await?;
        if pieces.is_empty() {
            return Err(Error::Absent { workload: workload.clone() });
        }
        Ok(pieces)
    }
}

/// The containers of one service, one container given as `service-number`, or all. A service that is
/// not there is named with those that are.
fn of_service(pieces: Vec<Piece>, service: Option<&str>) -> Result<Vec<Piece>, Error> {
    let Some(wanted) = service else { return Ok(pieces) };
    let mut names: Vec<_> = pieces.iter().map(|piece| piece.mark.service.clone()).collect();
    names.dedup();
    // A service may itself be named like a container of another one: the service is meant then.
    let is_service = names.iter().any(|name| name == wanted);
    let is_wanted = |piece: &Piece| {
        let Piece { mark, .. } = piece;
        let numbered = || wanted == format!("{}-{}", mark.service, mark.number);
        mark.service == wanted || (!is_service && numbered())
    };
    let chosen: Vec<_> = pieces.into_iter().filter(is_wanted).collect();
    if chosen.is_empty() {
        let detail = format!("it has no service {wanted:?}; it has {}", names.join(", "));
        return Err(Error::Refused { verb: "look", detail });
    }
    Ok(chosen)
}

#[async_trait]
impl Logs for Compose {
    async fn logs(&self, workload: &WorkloadId, range: LogRange) -> Result<Output, Error> {
        let pieces = of_service(self.present(workload).await?, range.service.as_deref())?;
        if range.service.is_some()
            && let [only] = pieces.as_slice()
        {
            return self.docker.output_of(&only.id, &range);
        }
        let names = line_names(&pieces);
        let widest = names.iter().map(String::len).max().unwrap_or(0);
        let mut outputs = Vec::new();
        for (piece, name) in pieces.iter().zip(names) {
            let name = format!("{name:widest$} | ");
            outputs.push(named_lines(self.docker.output_of(&piece.id, &range)?, name));
        }
        if range.follow {
            return Ok(stream::select_all(outputs).boxed());
        }
        Ok(stream::iter(outputs).flatten().boxed())
    }
}

/// The name before each line: the service, with a number where it has several containers.
fn line_names(pieces: &[Piece]) -> Vec<String> {
    let several = |service: &str| pieces.iter().filter(|p| p.mark.service == service).count() > 1;
    let name = |Piece { mark, .. }: &Piece| {
        if several(&mark.service) {
            format!("{}-{}", mark.service, mark.number)
        } else {
            mark.service.clone()
        }
    };
    pieces.iter().map(name).collect()
}

/// The same output in whole lines, each with `name` before it.
fn named_lines(output: Output, name: String) -> Output {
    let state = (output, BytesMut::new(), crate::inside::Source::Stdout, false);
    let lines = stream::try_unfold(state, move |(mut output, mut held, mut source, mut over)| {
        let name = name.clone();
        async move {
            loop {
                let end =
                    held.iter().position(|byte| *byte == b'\n').map(|at| at.saturating_add(1));
                let full =
                    (held.len() >= LINE_BYTES || (over && !held.is_empty())).then_some(held.len());
                if let Some(length) = end.or(full) {
                    let line = held.split_to(length);
                    let mut bytes = BytesMut::from(name.as_bytes());
                    bytes.extend_from_slice(&line);
                    if end.is_none() {
                        bytes.extend_from_slice(b"\n");
                    }
                    let chunk = Chunk { source, bytes: Bytes::from(bytes) };
                    return Ok(Some((chunk, (output, held, source, over))));
                }
                if over {
                    return Ok(None);
                }
                match output.try_next().await? {
                    Some(chunk) => {
                        source = chunk.source;
                        held.extend_from_slice(&chunk.bytes);
                    }
                    None => over = true,
                }
            }
        }
    });
    lines.boxed()
}

#[async_trait]
impl Exec for Compose {
    async fn exec(&self, workload: &WorkloadId, command: &ExecCommand) -> Result<Session, Error> {
        let pieces = of_service(self.present(workload).await?, command.service.as_deref())?;
        let running: Vec<_> =
            pieces.iter().filter(|piece| piece.state == Existing::Running).collect();
        let first = running.first();
        let one = running
            .iter()
            .all(|piece| first.is_some_and(|first| first.mark.service == piece.mark.service));
        match first {
            Some(piece) if one => self.docker.run_in(&piece.id, command).await,
            Some(_) => {
                let names: Vec<_> = running.iter().map(|p| p.mark.service.as_str()).collect();
                let detail = format!("name one of its services: {}", names.join(", "));
                Err(Error::Refused { verb: "exec", detail })
            }
            None => {
                let detail = "none of it runs".to_owned();
                Err(Error::Refused { verb: "exec", detail })
            }
        }
    }
}

#[async_trait]
impl Usage for Compose {
    async fn usage(&self, workload: &WorkloadId) -> Result<Option<Reading>, Error> {
        let pieces = self.pieces(Some(workload)).await?;
        Ok(self.readings(&pieces).await.remove(workload))
    }

    async fn layer_bytes(&self, workload: &WorkloadId) -> Result<Option<u64>, Error> {
        let mut sum = None;
        for piece in self.pieces(Some(workload)).await? {
            if let Some(bytes) = self.docker.layer_of(&piece.id).await? {
                sum = Some(sum.unwrap_or(0_u64).saturating_add(bytes));
            }
        }
        Ok(sum)
    }

    async fn usage_of_all(&self) -> Result<BTreeMap<WorkloadId, Reading>, Error> {
        let pieces = self.pieces(None).await?;
        Ok(self.readings(&pieces).await)
    }
}

impl Compose {
    /// What each workload uses that one of these belongs to. One that ended meanwhile uses nothing.
    async fn readings(&self, pieces: &[Piece]) -> BTreeMap<WorkloadId, Reading> {
        let running: Vec<_> = pieces.iter().filter(|piece| piece.state.is_alive()).collect();
        let readings = running.iter().map(|piece| self.docker.reading_of(&piece.id));
        let mut all: BTreeMap<WorkloadId, Reading> = BTreeMap::new();
        for (piece, reading) in running.iter().zip(join_all(readings).await) {
            if let Ok(Some(reading)) = reading {
                let sum = all.entry(piece.mark.workload.clone()).or_default();
                *sum = sum.and(reading);
            }
        }
        all
    }
}

#[async_trait]
impl Evidence for Compose {
    async fn evidence(&self, workload: &WorkloadId) -> Result<Option<End>, Error> {
        let pieces = self.pieces(Some(workload)).await?;
        let record = self.book.record(workload);
        let (Existing::Exited { .. }, Some(piece)) = judge(&record, &pieces) else {
            return Ok(None);
        };
        let Some(raw) = self.docker.inspect_raw(&piece.id).await? else { return Ok(None) };
        let end = self.docker.end_of(&piece.id, raw).await;
        Ok(Some(End { service: Some(piece.mark.service.clone()), ..end }))
    }
}

impl Wakeups for Compose {
    fn wakeups(&self) -> BoxStream<'static, Wakeup> {
        self.docker.hints(Whose::Stacks)
    }
}

#[async_trait]
impl Exclusive for Compose {
    async fn exclusive(&self) -> Result<Vec<WorkloadId>, Error> {
        let running =
            self.docker.summaries(identity::exclusive_filter(&self.docker.owner), false).await?;
        let mut stacks: Vec<_> = running
            .iter()
            .filter_map(|summary| self.mark_of(summary).map(|mark| mark.workload))
            .collect();
        stacks.sort();
        stacks.dedup();
        Ok(stacks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compose::names::Mark;
    use crate::inside::Source;

    fn piece(service: &str, number: &str) -> Piece {
        let mark = Mark {
            workload: WorkloadId::fixed("shop"),
            project: "persys-shop".to_owned(),
            service: service.to_owned(),
            number: number.to_owned(),
        };
        let (id, state) = (format!("{service}/{number}"), Existing::Running);
        Piece { id, mark, state, health: None }
    }

    #[test]
    fn one_container_of_a_service_is_named_by_its_number() {
        let pieces =
            || vec![piece("web", "1"), piece("web", "2"), piece("api", "1"), piece("api-1", "1")];
        let chosen = |wanted| {
            let found = of_service(pieces(), wanted).unwrap();
            found.into_iter().map(|piece| piece.id).collect::<Vec<_>>()
        };
        assert_eq!(chosen(None).len(), 4);
        assert_eq!(chosen(Some("web")), ["web/1", "web/2"]);
        assert_eq!(chosen(Some("web-2")), ["web/2"]);
        assert_eq!(chosen(Some("api-1")), ["api-1/1"], "the service of that name");
        let refused = of_service(pieces(), Some("web-3")).map(|_| ()).unwrap_err().to_string();
        assert!(refused.contains("no service \"web-3\""), "{refused}");
    }

    #[tokio::test]
    async fn lines_are_whole_and_named() {
        let piece = |source, text: &'static str| Ok(Chunk { source, bytes: text.into() });
        let output = stream::iter([
            piece(Source::Stdout, "a\nb"),
            piece(Source::Stdout, "c\n\n"),
            piece(Source::Stderr, "end"),
        ]);
        let lines: Vec<_> = named_lines(output.boxed(), "web | ".to_owned()).collect().await;
        let text: Vec<_> = lines
            .into_iter()
            .map(|chunk| String::from_utf8(chunk.unwrap().bytes.to_vec()).unwrap())
            .collect();
        assert_eq!(text, ["web | a\n", "web | bc\n", "web | \n", "web | end\n"]);
    }
}
